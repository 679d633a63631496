"""Parse the bytes of one file into a normalised `ParsedDocument`, or raise with a reason.

Pure and single-threaded; time and memory are bounded by the process that calls it (`assets.parsing.pool`). Parsers are imported
when a file of their format is first parsed: a worker that sees only Markdown never loads the PDF library.
"""

import re
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module

from assets.stages.normalize import MAX_NAME, BlockDraft, assemble, clean
from assets.stages.parse.ocr import suffix
from assets.stages.parse.result import Parsed
from resources.core.domain import ParsedDocument
from resources.core.errors import DocumentError, FailedDocumentError, SkipDocumentError
from resources.core.notes import bounded

PARSER_VERSION = f"p15{suffix()}"
"""Increment it whenever the same bytes may yield different text: everything is then parsed again."""

_PARSERS = {
    "text/markdown": "markdown",
    "text/plain": "text",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "text/csv": "delimited",
    "text/tab-separated-values": "delimited",
    "application/json": "records",
    "application/x-ndjson": "records",
    "application/pdf": "pdf",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": "pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.concordance.conversation+json": "conversation",
    "application/vnd.oasis.opendocument.text": "odf",
    "application/vnd.oasis.opendocument.spreadsheet": "odf",
    "application/vnd.oasis.opendocument.presentation": "odf",
    "application/vnd.ms-excel": "workbook",
    "application/vnd.ms-excel.sheet.binary.macroenabled.12": "workbook",
    "application/x-ipynb+json": "notebook",
    "application/zip": "listing",
    "text/calendar": "cards",
    "text/vcard": "cards",
    "application/rtf": "rtf",
    "application/epub+zip": "epub",
    "message/rfc822": "eml",
    "application/vnd.ms-outlook": "msg",
    "application/xml": "markup",
    "application/yaml": "source",
    "text/x-source": "source",
    "image/png": "image",
    "image/jpeg": "image",
}

SUPPORTED: frozenset[str] = frozenset(_PARSERS)
"""Mime types that `parse` reads."""

_WORD = re.compile(r"\w+")


def parse(data: bytes, mime_type: str, *, title: str, description: str | None = None) -> ParsedDocument:
    """Return the document's normalised text and blocks.

    `description` is what a person wrote about the file; it precedes the text. Raises `SkipDocumentError` (empty,
    encrypted, damaged, no text, unsupported) or `FailedDocumentError` (an internal error, worth a retry), both with a
    human-readable reason; `MemoryError` passes through. The result depends only on the arguments.
    """
    parsed = read(data, mime_type, title=title, description=description)
    described = (
        [BlockDraft(kind="paragraph", text=description)]
        if description and not mime_type.strip().lower().startswith("image/")
        else []
    )
    text, blocks = assemble([*described, *parsed.drafts])
    if not blocks:
        raise SkipDocumentError("The file holds no text.")
    return ParsedDocument(
        text=text,
        blocks=blocks,
        title=clean(parsed.title)[:MAX_NAME] if parsed.title else None,
        author=clean(parsed.author)[:MAX_NAME] if parsed.author else None,
        page_count=parsed.page_count,
        warnings=bounded(map(clean, parsed.warnings)),
    )


def read(data: bytes, mime_type: str, *, title: str, description: str | None = None) -> Parsed:
    """Return what the format's parser finds, with its drafts in a list. Raises as `parse` does."""
    kind = mime_type.split(";")[0].strip().lower()
    if kind not in _PARSERS:
        raise SkipDocumentError(f"Files of type {kind or 'unknown'} are not supported.")
    if not data:
        raise SkipDocumentError("The file is empty.")
    with failures(kind):
        module = import_module(f"assets.stages.parse.{_PARSERS[kind]}")
        parsed: Parsed = (
            module.parse(data, title=title, description=description)
            if kind.startswith("image/")
            else module.parse(data)
        )
        parsed.drafts = list(parsed.drafts)
    return parsed


@contextmanager
def failures(kind: str) -> Generator[None]:
    """Raise whatever a parser raises for a file as a `DocumentError` with its reason; `MemoryError` passes through."""
    try:
        yield
    except (DocumentError, MemoryError):
        raise  # the process that set the limit reports that of memory
    except RecursionError:
        raise SkipDocumentError("The file is nested too deeply to be read.") from None
    except Exception as error:
        raise FailedDocumentError(
            f"The file could not be read as {kind}: {type(error).__name__}: {str(error)[:200]}"
        ) from error


def word_count(document: ParsedDocument) -> int:
    """Return the number of words; roots of kind `book` skip documents with fewer than 50."""
    return sum(1 for _ in _WORD.finditer(document.text))
