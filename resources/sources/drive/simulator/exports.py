"""Export formats of Google's own document types, and the conversion to them."""

import re

from resources.sources.drive.simulator.errors import ApiError
from resources.sources.drive.simulator.sheets import write_csv, write_xlsx
from resources.sources.drive.simulator.tree import DOCUMENT, PRESENTATION, SPREADSHEET, DriveFile

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

FORMATS: dict[str, tuple[str, ...]] = {
    DOCUMENT: ("text/markdown", "text/plain"),
    SPREADSHEET: (XLSX, "text/csv"),
    PRESENTATION: ("text/plain",),
}
"""Export formats that the simulator supports. Google has more.
Source: https://developers.google.com/workspace/drive/api/guides/ref-export-formats"""

MAX_EXPORT_BYTES = 10 * 1024 * 1024
"""Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files/export"""

_MARKUP = re.compile(r"^(?:#{1,6}|>|[*+-]) +|\*\*|__|`", re.MULTILINE)


def export(file: DriveFile, mime_type: str) -> bytes:
    """Return a document in another format. Raises `ApiError` if it cannot be exported or exceeds 10 MB."""
    if file.mime_type not in FORMATS:
        raise ApiError(403, "fileNotExportable", "Export only supports Docs Editors files.")
    if mime_type not in FORMATS[file.mime_type]:
        raise ApiError(400, "badRequest", "The requested conversion is not supported.", location="convertTo")
    content = _convert(file, mime_type)
    if len(content) > MAX_EXPORT_BYTES:
        raise ApiError(403, "exportSizeLimitExceeded", "This file is too large to be exported.")
    return content


def _convert(file: DriveFile, mime_type: str) -> bytes:
    if file.sheets is not None:
        return write_xlsx(file.sheets) if mime_type == XLSX else write_csv(file.sheets)
    if file.mime_type == DOCUMENT and mime_type == "text/plain":
        # Google's plain text begins with a byte order mark and has Windows line endings
        return b"\xef\xbb\xbf" + _MARKUP.sub("", file.content.decode()).replace("\n", "\r\n").encode()
    return file.content
