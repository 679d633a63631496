"""Recognise text in pictures and scanned pages with Tesseract, if the extra `ocr` is installed (`make setup OCR=1`)."""

import os
import sys
import time
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.text import paragraphs

READ = "Read by text recognition (OCR):"
"""Stands above recognised text, which may have wrong letters."""
DOTS_PER_INCH = 200
MAX_SIDE = 4_000
"""Larger pictures are scaled down to this many pixels a side."""
MAX_SECONDS = 12.0
"""Processor time for one file; a dense page takes one to two seconds. The rest of its pages are named."""
MIN_CONFIDENCE = 40
"""Mean confidence in percent below which a picture shows no text."""
MAX_LANGUAGES = 6
"""Each language adds about as much time as the first."""
_SYSTEM = "/usr/share/tesseract-ocr"
_NO_LANGUAGES = frozenset({"osd", "equ"})


@cache
def languages() -> tuple[str, ...]:
    """Return the installed languages, English first; empty if text recognition is not installed."""
    folder = _folder()
    if folder is None or find_spec("tesserocr") is None:
        return ()
    names = {path.stem for path in folder.glob("*.traineddata")} - _NO_LANGUAGES
    return tuple(sorted(names, key=lambda name: (name != "eng", name))[:MAX_LANGUAGES])


def suffix() -> str:
    """Return what text recognition adds to the parser's version: files are parsed again when it is installed or gets languages."""
    return f"+ocr-{'-'.join(languages())}" if languages() else ""


class Recogniser:
    """Recognises the pictures of one file within its time."""

    def __init__(self) -> None:
        self._end = time.process_time() + MAX_SECONDS

    @property
    def has_time(self) -> bool:
        return time.process_time() < self._end

    def drafts(self, picture: Any, page: int | None = None) -> list[BlockDraft]:
        """Return the paragraphs in a picture (PIL), below a line that says how they were read; none if it shows no text."""
        picture.thumbnail((MAX_SIDE, MAX_SIDE))
        engine = _engine()
        engine.SetImage(picture.convert("L"))
        engine.SetSourceResolution(DOTS_PER_INCH)
        text = clean(engine.GetUTF8Text())
        confident = engine.MeanTextConf() >= MIN_CONFIDENCE
        engine.Clear()
        if not confident or not any(map(str.isalnum, text)):
            return []
        return [BlockDraft(kind="paragraph", text=READ, page=page), *paragraphs(text, page)]


@cache
def _engine() -> Any:
    os.environ["OMP_THREAD_LIMIT"] = "1"  # more threads take more processor time and gain little
    return import_module("tesserocr").PyTessBaseAPI(path=str(_folder()), lang="+".join(languages()))


@cache
def _folder() -> Path | None:
    """Return the folder of the language data: Debian's, whose languages somebody chose, or the one of the wheels."""
    folders = [*sorted(Path(_SYSTEM).glob("*/tessdata"), reverse=True), Path(sys.prefix) / "share" / "tessdata"]
    return next((folder for folder in folders if any(folder.glob("*.traineddata"))), None)
