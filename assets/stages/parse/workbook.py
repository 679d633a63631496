"""Parse workbooks in the binary formats of Excel, .xls and .xlsb. Hidden sheets are not read; the document says that it has some.

The library returns values without their formats, so a percentage of such a file is indexed as `0.025`; and it does not say which rows and
columns are hidden, so those are indexed.
"""

import io
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from assets.stages.normalize import MAX_CHARACTERS, BlockDraft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.number_format import general
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import YEARS, SheetRow, counted, sheet
from resources.core.errors import SkipDocumentError

MAX_SHEETS = 1_000
MAX_CELLS = 20_000_000
"""Maximum cells between the first and the last of a sheet: the reader allocates all of them."""
_ZIP = b"PK\x03\x04"


def parse(data: bytes) -> Parsed:
    """Return the sheets of a workbook. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    if data.startswith(_ZIP):
        check(data, part="xl/", kind="XLSB")
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetVisibleEnum

    hidden = 0
    drafts: list[BlockDraft] = []
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(data)) as book:
            for one in book.sheets_metadata[:MAX_SHEETS]:
                if one.visible != SheetVisibleEnum.Visible:
                    hidden += 1
                    continue
                drafts += sheet(one.name, _rows(book.get_sheet_by_name(one.name)))
    except PasswordError:
        raise SkipDocumentError("The workbook is protected by a password. Save it without one.") from None
    except CalamineError as error:
        raise SkipDocumentError(f"The workbook is damaged or protected: {one_line(str(error))[:160]}.") from None
    warnings = [f"The workbook has {counted(hidden, 'hidden sheet')} not indexed."] if hidden else []
    return Parsed(drafts=drafts, warnings=warnings)


def _rows(found: Any) -> Iterator[SheetRow]:
    if found.total_height * found.total_width > MAX_CELLS:
        raise SkipDocumentError(f"A sheet of the workbook has more than {MAX_CELLS:,} cells. Split it.")
    characters = 0
    for values in found.iter_rows():
        row = SheetRow([_cell(value) for value in values])
        for value in values:
            figure = isinstance(value, int | float | date | datetime | time | timedelta) and not isinstance(value, bool)
            year = isinstance(value, int | float) and value in YEARS
            row.years, row.figures = row.years or (figure and year), row.figures or (figure and not year)
        characters += sum(map(len, row.cells))
        if characters > MAX_CHARACTERS:
            raise SkipDocumentError(f"A sheet of the workbook has more than {MAX_CHARACTERS:,} characters. Split it.")
        yield row


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return general(float(value))
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)
