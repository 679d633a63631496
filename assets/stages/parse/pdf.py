"""Parse a PDF page by page, without running headers and footers and with hyphenated words joined."""

import io
import logging
from typing import Any

from assets.stages.normalize import BlockDraft, clean, dehyphenate, one_line
from assets.stages.parse.result import Parsed
from assets.stages.parse.running import running_lines
from assets.stages.parse.text import paragraphs
from resources.core.errors import SkipDocumentError

_HEAD = 1024
"""The header `%PDF-` must occur within the first kilobyte. Source: ISO 32000-1, annex H, implementation note 13."""
_NAMED_PAGES = 20
_NO_TITLE = ("untitled", "microsoft word - ", "microsoft powerpoint - ", "(anonymous)", "anonymous", "unspecified")


def _open(data: bytes) -> Any:
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it reports every repair; the outcome is reported by us
    if b"%PDF-" not in data[:_HEAD]:
        raise SkipDocumentError("The file is not a PDF, despite its name.")
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise SkipDocumentError("The PDF is encrypted. Save it without a password and it will be indexed.")
        len(reader.pages)
    except DependencyError as error:
        raise SkipDocumentError(f"The PDF is encrypted in a way that cannot be read: {error}.") from None
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, OSError) as error:
        raise SkipDocumentError(
            f"The PDF is damaged and cannot be opened: {one_line(str(error))[:160] or type(error).__name__}."
        ) from None
    return reader


def _metadata(reader: Any) -> tuple[str | None, str | None]:
    try:
        data = reader.metadata
        title, author = (data.title, data.author) if data else (None, None)
    except (ValueError, KeyError, TypeError, AttributeError):  # damaged metadata: the text is still usable
        return None, None
    title = one_line(clean(title)) if isinstance(title, str) else ""
    author = one_line(clean(author)) if isinstance(author, str) else ""
    return (
        title if title and not title.lower().startswith(_NO_TITLE) else None,
        author if author and not author.lower().startswith(_NO_TITLE) else None,
    )


def _without_running(pages: list[str]) -> list[str]:
    split = [page.split("\n") for page in pages]
    filled = [[index for index, line in enumerate(lines) if line.strip()] for lines in split]
    found = running_lines([[lines[index] for index in own] for lines, own in zip(split, filled, strict=True)])
    for lines, own, running in zip(split, filled, found, strict=True):
        for place in running:
            lines[own[place]] = ""
    return ["\n".join(lines) for lines in split]


def parse(data: bytes) -> Parsed:
    """Return the paragraphs of a PDF with their pages. Raises `SkipDocumentError` if it is encrypted or contains no text."""
    from pypdf.errors import PyPdfError

    reader = _open(data)
    pages: list[str] = []
    damaged: list[int] = []
    for number, page in enumerate(reader.pages, start=1):
        try:
            pages.append(clean(page.extract_text()))
        except (
            PyPdfError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            IndexError,
            AssertionError,
            ZeroDivisionError,
        ) as error:
            logging.getLogger(__name__).debug("page %d: %s", number, error)
            pages.append("")
            damaged.append(number)
    if not any(page.strip() for page in pages):
        if damaged:
            raise SkipDocumentError("The PDF is damaged: no page could be read.")
        raise SkipDocumentError(
            "The PDF holds no text, only images. Run OCR on it (for example with ocrmypdf) and it will be indexed."
        )
    title, author = _metadata(reader)
    drafts: list[BlockDraft] = []
    for number, page in enumerate(_without_running(pages), start=1):
        drafts.extend(paragraphs(dehyphenate(page), number))
    more = f" and {len(damaged) - _NAMED_PAGES} more" if len(damaged) > _NAMED_PAGES else ""
    named = ", ".join(map(str, damaged[:_NAMED_PAGES]))
    warnings = [f"Pages that could not be read: {named}{more}."] if damaged else []
    return Parsed(drafts=drafts, title=title, author=author, page_count=len(pages), warnings=warnings)
