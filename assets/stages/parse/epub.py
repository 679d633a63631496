"""Parse an EPUB book: its chapters in reading order, each of them HTML."""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse import html
from assets.stages.parse.archive import check
from assets.stages.parse.markup import tree
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import counted
from resources.core.errors import SkipDocumentError

_CONTAINER = "META-INF/container.xml"
_ENCRYPTED = "META-INF/rights.xml"


def parse(data: bytes) -> Parsed:
    """Return the blocks of a book's chapters. Raises `SkipDocumentError` for zip bombs, protected and damaged files.

    Source: EPUB 3.3, sections 4.2.6.3.1 (container) and 5 (package document), https://www.w3.org/TR/epub-33/
    """
    check(data, part=_CONTAINER, kind="EPUB")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            if _ENCRYPTED in archive.namelist():
                raise SkipDocumentError("The book is protected (DRM); its text cannot be read.")
            path = tree(archive.read(_CONTAINER)).find("{*}rootfiles/{*}rootfile").get("full-path")
            package = tree(archive.read(path))
            drafts, lost = _chapters(archive, _names(package, path))
    except (AttributeError, KeyError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise SkipDocumentError(f"The EPUB file is damaged: {one_line(str(error))[:160]}.") from None
    if lost and not drafts:
        raise SkipDocumentError("The EPUB file is damaged: none of its chapters can be read.")
    return Parsed(
        drafts=drafts,
        title=_field(package, "title"),
        author=_field(package, "creator"),
        warnings=[f"The book has {counted(lost, 'chapter')} damaged or missing."] if lost else [],
    )


def _chapters(archive: zipfile.ZipFile, names: Iterator[str]) -> tuple[list[BlockDraft], int]:
    """Return the blocks of the chapters, and how many chapters are missing or damaged."""
    drafts: list[BlockDraft] = []
    lost = 0
    for name in names:
        try:
            data = archive.read(name)
        except (KeyError, zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError):
            lost += 1
        else:
            drafts += _chapter(data)
    return drafts, lost


def _names(package: Any, path: str) -> Iterator[str]:
    """Yield the names of the archive's entries in reading order."""
    names = {
        item.get("id"): posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(item.get("href") or "")))
        for item in package.iterfind("{*}manifest/{*}item")
    }
    for entry in package.iterfind("{*}spine/{*}itemref"):
        yield names.get(entry.get("idref"), "")


def _chapter(data: bytes) -> list[BlockDraft]:
    try:
        return list(html.parse(data).drafts)
    except SkipDocumentError:
        return []  # an empty page, such as a cover


def _field(package: Any, name: str) -> str | None:
    found = package.find(f"{{*}}metadata/{{http://purl.org/dc/elements/1.1/}}{name}")
    return one_line(found.text) or None if found is not None and found.text else None
