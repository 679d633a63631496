"""Export formats of Google's own document types, and the conversion to them."""

import io
from datetime import UTC, datetime
from typing import Any

from xlsxwriter import Workbook

from resources.sources.drive.simulator.errors import ApiError
from resources.sources.drive.simulator.tree import DOCUMENT, PRESENTATION, SPREADSHEET, DriveFile, Sheets

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
FORMATS = {DOCUMENT: "text/markdown", SPREADSHEET: XLSX, PRESENTATION: "text/plain"}
"""The format in which the connector exports each type. Google has more.

Source: https://developers.google.com/workspace/drive/api/guides/ref-export-formats"""

MAX_EXPORT_BYTES = 10 * 1024 * 1024
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/export"""

_OPTIONS = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
_MADE = datetime(2026, 1, 1, tzinfo=UTC)
"""Time of creation in every workbook, so that the same content gives the same bytes."""


def export(file: DriveFile, mime_type: str) -> bytes:
    """Return a document in another format. Raises `ApiError` if it cannot be exported or exceeds 10 MB."""
    if file.mime_type not in FORMATS:
        raise ApiError(403, "fileNotExportable", "Export only supports Docs Editors files.")
    if mime_type != FORMATS[file.mime_type]:
        raise ApiError(400, "badRequest", "The requested conversion is not supported.", location="convertTo")
    content = file.content if file.sheets is None else _workbook(file.sheets)
    if len(content) > MAX_EXPORT_BYTES:
        raise ApiError(403, "exportSizeLimitExceeded", "This file is too large to be exported.")
    return content


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
