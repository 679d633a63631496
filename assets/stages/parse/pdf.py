"""Parse a PDF: its lines with PDFium, and with pypdf where PDFium finds nothing."""

import io
import logging
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any

import msgspec

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.layout import blocks
from assets.stages.parse.ocr import DOTS_PER_INCH, MAX_SIDE, Recogniser, languages
from assets.stages.parse.pdf_lines import Line
from assets.stages.parse.pdfium import DamagedError, Outline, PasswordError, PdfPage, Reader
from assets.stages.parse.result import Parsed
from assets.stages.parse.running import running_lines
from resources.core.errors import DocumentError, SkipDocumentError
from resources.core.filetypes import HEAD_BYTES, mime_type

_HEAD = 1024
"""The header `%PDF-` must occur within the first kilobyte. Source: ISO 32000-1, annex H, implementation note 13."""
_NAMED_PAGES = 20
_MAX_ATTACHMENTS = 50
_MAX_ATTACHED = 50 * 2**20
"""Bytes of all embedded files that are read."""
_NAMED_ONLY = frozenset(
    {"message/rfc822", "application/vnd.ms-outlook", "application/xml", "application/json", "text/x-source"}
)
"""Embedded files that are named but not read: messages have attachments themselves, and data repeats the text of an invoice."""
_MAX_OUTLINE = 20_000
_NO_AUTHOR = frozenset({"untitled", "(anonymous)", "anonymous", "unspecified", "(unspecified)"})
_FAULTS = (
    ValueError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError, OSError, NotImplementedError,
    struct.error, zlib.error,
)  # fmt: skip
"""What pypdf raises for damaged files besides its own errors."""
_WORDS = re.compile(r"\w+")
_ENCRYPTED = "The PDF is encrypted. Save it without a password and it will be indexed."
_IMAGES = (
    "The PDF holds no text, only images. Run OCR on it (for example with ocrmypdf) and it will be indexed, or install text "
    "recognition with `make setup OCR=1`."
)
_UNDECODED = "The PDF's text cannot be decoded: its fonts do not say which characters they show. Run OCR on it."


def parse(data: bytes) -> Parsed:
    """Return the headings and paragraphs of a PDF with their pages, and of the files that it embeds.

    Raises `SkipDocumentError` if it is encrypted or holds no text.
    """
    return _pdf(data, attachments=True)


def _pdf(data: bytes, *, attachments: bool) -> Parsed:
    if b"%PDF-" not in data[:_HEAD]:
        raise SkipDocumentError("The file is not a PDF, despite its name.")
    try:
        reader = Reader(data, partial(_layers_off, data))
    except PasswordError:
        raise SkipDocumentError(_ENCRYPTED) from None
    except DamagedError:
        return _second(data)
    try:
        return _first(reader, data, attachments=attachments)
    finally:
        reader.close()


def _first(reader: Reader, data: bytes, *, attachments: bool) -> Parsed:
    pages: list[PdfPage] = []
    damaged: list[int] = []
    for index in range(len(reader)):
        try:
            pages.append(reader.page(index))
        except DamagedError:
            pages.append(PdfPage())
            damaged.append(index + 1)
    _recognise(reader, pages)
    attached, warnings = _attached(reader) if attachments else ([], [])
    if not attached and not any(page.lines or page.notes or page.recognised for page in pages):
        if any(page.hidden for page in pages):
            raise SkipDocumentError("The PDF holds no text except in hidden layers.")
        try:
            return _second(data)
        except SkipDocumentError:
            if any(page.undecoded for page in pages):
                raise SkipDocumentError(_UNDECODED) from None
            raise
    found = _parsed(
        pages,
        damaged,
        outline=list(islice(reader.outline(), _MAX_OUTLINE)),
        title=reader.metadata("Title"),
        author=reader.metadata("Author"),
    )
    return msgspec.structs.replace(found, drafts=[*found.drafts, *attached], warnings=[*found.warnings, *warnings])


def _recognise(reader: Reader, pages: list[PdfPage]) -> None:
    """Read the scanned pages, and those in fonts that cannot be decoded, by text recognition while its time lasts.

    Pages without lines come first. On a page that can be decoded, lines of which it has all words are left out.
    """
    recogniser = Recogniser()
    for index, page in sorted(enumerate(pages), key=lambda each: bool(each[1].lines)):
        if (page.images or page.undecoded) and languages() and recogniser.has_time:
            found = recogniser.drafts(reader.picture(index, DOTS_PER_INCH, MAX_SIDE), index + 1)
            page.recognised = found if page.undecoded or not page.lines else _added(found, page.lines)
            page.images = page.images and not found
            page.undecoded = page.undecoded and not found


def _added(found: list[BlockDraft], lines: Sequence[Line]) -> list[BlockDraft]:
    """Return recognised text without its lines whose words are all among those of a page's own lines."""
    known = {word for line in lines for word in _WORDS.findall(line.text.casefold())}
    added: list[BlockDraft] = []
    for draft in found[1:]:
        new = [line for line in draft.text.split("\n") if not known.issuperset(_WORDS.findall(line.casefold()))]
        if new:
            added.append(msgspec.structs.replace(draft, text="\n".join(new)))
    return [*found[:1], *added] if added else []


def _attached(reader: Reader) -> tuple[list[BlockDraft], list[str]]:
    """Return the drafts of the embedded files, each below a heading that names it, and what was not read."""
    from assets.stages.parse import failures, read

    drafts: list[BlockDraft] = []
    warnings: list[str] = []
    room = _MAX_ATTACHED
    for name, data in reader.attachments(_MAX_ATTACHMENTS):
        drafts.append(BlockDraft(kind="heading", text=f"In attachment {one_line(clean(name))}", level=1))
        if data is None or len(data) > room:
            warnings.append(f"The attachment {name} is not read: it is damaged or too large.")
            continue
        room -= len(data)
        try:
            kind = mime_type(name, data[:HEAD_BYTES])
            if kind in _NAMED_ONLY:
                continue
            with failures(kind):
                found = _pdf(data, attachments=False) if kind == "application/pdf" else read(data, kind, title=name)
        except DocumentError as error:
            reason, _, _ = str(error).partition(". Supported: ")
            warnings.append(f"The attachment {name} is not read: {reason.rstrip('.')}.")
            continue
        drafts += [_below(draft) for draft in found.drafts]
        warnings += [f"In the attachment {name}: {warning}" for warning in found.warnings]
    return drafts, warnings


def _below(draft: BlockDraft) -> BlockDraft:
    """Return a draft of an attachment: its pages are none of the file's, and its headings are below its name."""
    level = (draft.level or 1) + 1 if draft.kind == "heading" else draft.level
    return msgspec.structs.replace(draft, page=None, level=level)


def _faults() -> tuple[type[Exception], ...]:
    """Return what pypdf raises for damaged files: two of its own errors are none of `PyPdfError`."""
    from pypdf.errors import DependencyError, DeprecationError, PyPdfError

    return PyPdfError, DependencyError, DeprecationError, *_FAULTS


def _second(data: bytes) -> Parsed:
    """Read a PDF with pypdf, which repairs more and needs ten times as long."""
    reader = _open(data)
    pages: list[PdfPage] = []
    damaged: list[int] = []
    for number, page in enumerate(reader.pages, start=1):
        try:
            text: str = clean(page.extract_text())
        except _faults() as error:
            logging.getLogger(__name__).debug("page %d: %s", number, error)
            text = ""
            damaged.append(number)
        pages.append(PdfPage(lines=[Line(text=line) for line in text.split("\n") if line.strip()]))
    if not any(page.lines for page in pages):
        raise SkipDocumentError("The PDF is damaged: no page could be read." if damaged else _IMAGES)
    title, author = _metadata(reader)
    return _parsed(pages, damaged, outline=[], title=title, author=author)


def _open(data: bytes) -> Any:
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports every repair; the outcome is reported by us
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise SkipDocumentError(_ENCRYPTED)
        len(reader.pages)
    except DependencyError as error:
        raise SkipDocumentError(f"The PDF is encrypted in a way that cannot be read: {error}.") from None
    except _faults() as error:
        raise SkipDocumentError(
            f"The PDF is damaged and cannot be opened: {one_line(str(error))[:160] or type(error).__name__}."
        ) from None
    return reader


def _layers_off(data: bytes) -> frozenset[str]:
    """Return the names of the layers that are switched off when the file is opened. Source: ISO 32000-1, 8.11.4.3

    A name that another layer shares, which is on, is none of them: PDFium tells layers apart by their names only.
    """
    try:
        layers = _open(data).trailer["/Root"]["/OCProperties"]
        state = layers["/D"]
        on, off = ({id(one.get_object()) for one in state.get(key, ())} for key in ("/ON", "/OFF"))
        groups = [one.get_object() for one in layers["/OCGs"]]
        all_off = state.get("/BaseState") == "/OFF"
        shown = [id(one) in on if all_off else id(one) not in off for one in groups]
        names = [str(one["/Name"]) for one in groups]
    except (SkipDocumentError, *_faults()):  # the file does not tell
        return frozenset()
    return frozenset(names) - {name for name, one in zip(names, shown, strict=True) if one}


def _metadata(reader: Any) -> tuple[str, str]:
    try:
        data = reader.metadata
        title, author = (data.title, data.author) if data else (None, None)
    except _faults():  # damaged metadata: the text is still usable
        return "", ""
    return title if isinstance(title, str) else "", author if isinstance(author, str) else ""


def _parsed(pages: list[PdfPage], damaged: list[int], *, outline: Sequence[Outline], title: str, author: str) -> Parsed:
    warnings = [
        *_about(damaged, "cannot be read"),
        *_about(_numbers(page.images and not page.lines for page in pages), "hold no text", "holds no text"),
        *_about(
            _numbers(page.images and bool(page.lines) for page in pages),
            "show pictures whose text, if any, is not read",
            "shows a picture whose text, if any, is not read",
        ),
        *_about(
            _numbers(page.undecoded for page in pages),
            "have text that cannot be decoded",
            "has text that cannot be decoded",
        ),
    ]
    if any(page.hidden for page in pages):
        warnings.append("The PDF has hidden layers that are not indexed.")
    if removed := _remove_running(pages):
        warnings.append(f"{removed} repeated headers, footers and page numbers were left out.")
    return Parsed(
        drafts=blocks(pages, outline),
        title=one_line(clean(title)) or None,
        author=_author(author),
        page_count=len(pages),
        warnings=warnings,
    )


def _author(text: str) -> str | None:
    """Return an author, unless a program filled it in."""
    name = one_line(clean(text))
    return name if name and name.lower() not in _NO_AUTHOR else None


def _numbers(flags: Iterable[bool]) -> list[int]:
    return [number for number, flag in enumerate(flags, start=1) if flag]


def _about(numbers: Sequence[int], several: str, one: str = "") -> list[str]:
    """Return a sentence about some pages: `Pages 2 and 3 hold no text.`"""
    if len(numbers) < 2:
        return [f"Page {number} {one or several}." for number in numbers]
    named = list(map(str, numbers[:_NAMED_PAGES]))
    if len(numbers) > _NAMED_PAGES:
        named.append(f"{len(numbers) - _NAMED_PAGES} more")
    return [f"Pages {', '.join(named[:-1])} and {named[-1]} {several}."]


def _remove_running(pages: list[PdfPage]) -> int:
    """Remove running lines from the pages and return how many."""
    orders = [sorted(range(len(page.lines)), key=lambda index: -page.lines[index].baseline) for page in pages]
    found = running_lines(
        [[page.lines[index].text for index in order] for page, order in zip(pages, orders, strict=True)]
    )
    for page, order, places in zip(pages, orders, found, strict=True):
        indices = {order[place] for place in places}
        page.lines = [line for index, line in enumerate(page.lines) if index not in indices]
    return sum(map(len, found))
