"""The bytes of one file enter, a normalised `ParsedDocument` leaves, or a reason why not.

Pure and single-threaded; time and memory are bounded by the process that calls it (`assets.parsing`). Parsers are imported
when their format is first met: a worker that sees only Markdown never loads the PDF library.
"""

from __future__ import annotations

import re
from importlib import import_module

from assets.stages.normalize import MAX_NAME, Draft, assemble
from assets.stages.parse.result import Parsed
from resources.domain import ParsedDocument
from resources.errors import DocumentError, FailedDocumentError, SkipDocumentError

PARSER_VERSION = "p2"
"""Raise it whenever the same bytes may give another text: everything is then parsed again."""

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
    "image/png": "image",
    "image/jpeg": "image",
}

SUPPORTED: frozenset[str] = frozenset(_PARSERS)
"""Mime types that `parse` reads."""

_WORD = re.compile(r"\w+")


def parse(
    data: bytes, mime_type: str, *, title: str, description: str | None = None, profile: str = "auto"
) -> ParsedDocument:
    """Return the document's normalised text and blocks.

    `description` is what a person wrote about the file: it stands before the text. Raises `SkipDocumentError` (empty,
    encrypted, damaged, no text, unsupported) or `FailedDocumentError` (a fault of ours, worth another try), both with a
    reason for a person; `MemoryError` passes through. The result depends on the arguments alone; `profile` changes how
    the text is cut, never the text.
    """
    del profile
    kind = mime_type.split(";")[0].strip().lower()
    if kind not in _PARSERS:
        raise SkipDocumentError(f"Files of type {kind or 'unknown'} are not supported.")
    if not data:
        raise SkipDocumentError("The file is empty.")
    try:
        module = import_module(f"assets.stages.parse.{_PARSERS[kind]}")
        parsed: Parsed = (
            module.parse(data, title=title, description=description)
            if kind.startswith("image/")
            else module.parse(data)
        )
        described = [Draft(kind="paragraph", text=description)] if description and not kind.startswith("image/") else []
        text, blocks = assemble([*described, *parsed.drafts])
    except DocumentError:
        raise
    except MemoryError:
        raise  # the process that set the limit names it
    except RecursionError:
        raise SkipDocumentError("The file is nested too deeply to be read.") from None
    except Exception as error:
        raise FailedDocumentError(
            f"The file could not be read as {kind}: {type(error).__name__}: {str(error)[:200]}"
        ) from error
    if not blocks:
        raise SkipDocumentError("The file holds no text.")
    return ParsedDocument(
        text=text,
        blocks=blocks,
        title=parsed.title[:MAX_NAME] if parsed.title else None,
        author=parsed.author[:MAX_NAME] if parsed.author else None,
        page_count=parsed.page_count,
        warnings=parsed.warnings,
    )


def word_count(document: ParsedDocument) -> int:
    """Return the number of words; roots of kind `book` leave out documents below 50."""
    return sum(1 for _ in _WORD.finditer(document.text))
