"""Parse an Excel workbook; every sheet becomes a heading and its numbered rows."""

import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import MAX_NAME, BlockDraft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.delimited import is_header
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table
from resources.core.errors import SkipDocumentError

MAX_SHEETS = 1_000
MAX_CELLS = 50_000_000
"""Maximum cells of a sheet, including empty ones: the reader allocates every cell between the first and the last."""
MAX_ROWS = 2**20
"""Maximum rows of a sheet. Source: ECMA-376 and Excel's specifications and limits."""
_CHUNK = 2**20
_OVERLAP = 64
_FAR = re.compile(rb'\br="([A-Z]{2,3})(\d{1,7})"')
_ROW = re.compile(rb'\br="[A-Z]*(\d{1,7})"')


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)  # dates and times print as ISO 8601, with a space between the two


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        yield [_cell(value) for value in row]


def _sheet(name: str, sheet: Any) -> Iterator[BlockDraft]:
    rows = _rows(sheet)
    first = next((row for row in rows if any(row)), None)
    if first is None:
        return
    name = name[:MAX_NAME]
    yield BlockDraft(kind="heading", text=name, level=1, sheet=name)
    while first and not first[-1]:
        first.pop()
    if is_header(first):
        yield from table(rows, header=first, sheet=name, numbered=True)
    else:
        yield from table(_with(first, rows), sheet=name, numbered=True)


def _column(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number


def _check_extent(data: bytes) -> None:
    """Raise `SkipDocumentError` for a sheet whose cells are too far apart: two cells may span 17,000 million."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for entry in archive.infolist():
            if not entry.filename.startswith("xl/worksheets/") or not entry.filename.endswith(".xml"):
                continue
            width = max((_column(letters) for letters, _ in _found(archive, entry, _FAR)), default=0)
            if width * MAX_ROWS <= MAX_CELLS:
                continue
            height = max(int(rows[-1]) for rows in _found(archive, entry, _ROW))
            if width * height > MAX_CELLS:
                raise SkipDocumentError(
                    f"A sheet of the XLSX file spans {height:,} rows and {width:,} columns, more than {MAX_CELLS:,} cells. "
                    "Delete its empty rows and columns, or split it."
                )


def _found(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, pattern: re.Pattern[bytes]) -> Iterator[tuple[bytes, ...]]:
    tail = b""
    with archive.open(entry) as file:
        while piece := file.read(_CHUNK):
            text = tail + piece
            for match in pattern.finditer(text):
                yield match.groups()
            tail = text[-_OVERLAP:]


def _with(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rows


def parse(data: bytes) -> Parsed:
    """Return the sheets of an XLSX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    check(data, part="xl/", kind="XLSX")
    try:
        _check_extent(data)
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError) as error:
        raise SkipDocumentError(f"The XLSX file is damaged: {one_line(str(error))[:160]}.") from None
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        if len(book.sheet_names) > MAX_SHEETS:
            raise SkipDocumentError(f"The XLSX file has more than {MAX_SHEETS:,} sheets. Split it.")
        drafts = [draft for name in book.sheet_names for draft in _sheet(name, book.get_sheet_by_name(name))]
    except CalamineError as error:
        raise SkipDocumentError(f"The XLSX file is damaged or protected: {one_line(str(error))[:160]}.") from None
    return Parsed(drafts=drafts)
