"""Export formats of Google's own document types, and the conversion to them."""

import io
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from pptx import Presentation
from xlsxwriter import Workbook

from simulators.drive.errors import ApiError
from simulators.drive.tree import DOCUMENT, PRESENTATION, SPREADSHEET, DriveFile, Sheets

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
FORMATS = {DOCUMENT: ("text/markdown", "text/plain"), SPREADSHEET: (XLSX,), PRESENTATION: (PPTX, "text/plain")}
"""The formats in which the connector exports each type. Google has more.

Source: https://developers.google.com/workspace/drive/api/guides/ref-export-formats"""

MAX_EXPORT_BYTES = 10 * 1024 * 1024
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/export"""

_IMAGE = re.compile(r"!\[[^\]]*\]\(data:[^)]*\)")
"""Google's Markdown holds pictures in full, its plain text none."""
_OPTIONS = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_MADE = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of creation in every workbook, so that the same content gives the same bytes."""


def export(file: DriveFile, mime_type: str) -> bytes:
    """Return a document in another format. Raises `ApiError` if it cannot be exported or exceeds 10 MB."""
    if file.mime_type not in FORMATS:
        raise ApiError(403, "fileNotExportable", "Export only supports Docs Editors files.")
    if mime_type not in FORMATS[file.mime_type]:
        raise ApiError(400, "badRequest", "The requested conversion is not supported.", location="convertTo")
    content = convert(file, mime_type)
    if len(content) > MAX_EXPORT_BYTES:
        raise ApiError(403, "exportSizeLimitExceeded", "This file is too large to be exported.")
    return content


def convert(file: DriveFile, mime_type: str) -> bytes:
    """Return a document in another format, whatever its size, as its export link does."""
    if file.sheets is not None:
        return _workbook(file.sheets)
    if mime_type == PPTX:
        return _slides(file.content.decode())
    if mime_type == "text/plain" and file.mime_type == DOCUMENT:
        return _IMAGE.sub("", file.content.decode()).encode()
    return file.content


def links(file: DriveFile, base: str) -> dict[str, str] | None:
    """Return the addresses at which a document can be downloaded in its formats."""
    formats = FORMATS.get(file.mime_type)
    return formats and {kind: f"{base}/export/{file.id}?{urlencode({'mimeType': kind})}" for kind in formats}


def _slides(text: str) -> bytes:
    """Return slides that are separated by lines of three hyphens; what follows a line `Notes:` are speaker notes."""
    deck = Presentation()
    for part in re.split(r"^---$", text, flags=re.MULTILINE):
        shown, _, notes = part.partition("\nNotes:")
        title, _, body = shown.strip().partition("\n")
        slide: Any = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text, slide.placeholders[1].text = title, body.strip()
        if notes.strip():
            slide.notes_slide.notes_text_frame.text = notes.strip()
    deck.core_properties.created = deck.core_properties.modified = _MADE
    target = io.BytesIO()
    deck.save(target)
    return target.getvalue()


def _workbook(sheets: Sheets) -> bytes:
    target = io.BytesIO()
    made: Any = Workbook  # its methods have no types
    with made(target, _OPTIONS) as book:
        book.set_properties({"created": _MADE})
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    return target.getvalue()
