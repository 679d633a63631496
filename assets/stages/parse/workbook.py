"""Parse workbooks in the binary formats of Excel, .xls and .xlsb.

HiddenCells sheets, rows and columns are not read; the document says that it has some. The library returns values without their
formats, so a percentage of such a file is indexed as `0.025`.
"""

import io
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from assets.stages.normalize import MAX_CHARACTERS, BlockDraft, one_line
from assets.stages.parse.biff import HiddenCells, hidden_of_xls, hidden_of_xlsb
from assets.stages.parse.number_format import general
from assets.stages.parse.package import Package
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import YEARS, SheetRow, counted, sheet
from resources.core.errors import SkipDocumentError

MAX_SHEETS = 1_000
MAX_CELLS = 20_000_000
"""Maximum cells between the first and the last of a sheet: the reader allocates all of them."""
_UNTOLD = "It cannot be told which rows and columns of the workbook are hidden, so none of them is left out."
_ZIP = b"PK\x03\x04"


def parse(data: bytes) -> Parsed:
    """Return the sheets of a workbook. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    package = Package(data, part="xl/", kind="XLSB") if data.startswith(_ZIP) else None
    from python_calamine import CalamineError, CalamineWorkbook, PasswordError, SheetTypeEnum, SheetVisibleEnum

    sheets, left_out = 0, {"row": 0, "column": 0}
    drafts: list[BlockDraft] = []
    warnings: list[str] = []
    try:
        with CalamineWorkbook.from_filelike(io.BytesIO(data)) as book:
            hides = _hidden(data, package)
            if hides is None or len(hides) < len(book.sheets_metadata):
                warnings.append(_UNTOLD)
                hides = [HiddenCells() for _ in book.sheets_metadata]
            for one, hidden in zip(book.sheets_metadata[:MAX_SHEETS], hides, strict=False):
                if one.visible != SheetVisibleEnum.Visible:
                    sheets += 1
                    continue
                if package is not None and one.typ == SheetTypeEnum.ChartSheet:
                    continue  # it has no cells, for which the library looks
                drafts += sheet(one.name, _rows(book.get_sheet_by_name(one.name), hidden, left_out))
    except PasswordError:
        raise SkipDocumentError("The workbook is protected by a password. Save it without one.") from None
    except CalamineError as error:
        raise SkipDocumentError(f"The workbook is damaged or protected: {one_line(str(error))[:160]}.") from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # that of the library's language, which is no `Exception`
            raise
        raise SkipDocumentError("The workbook is damaged: it lacks parts that it refers to.") from None
    found = {"sheet": sheets, **left_out}
    warnings += [
        f"The workbook has {counted(count, f'hidden {kind}')} not indexed." for kind, count in found.items() if count
    ]
    return Parsed(drafts=drafts, warnings=warnings)


def _hidden(data: bytes, package: Package | None) -> list[HiddenCells] | None:
    """Return what each sheet hides; None if the file does not tell."""
    try:
        return hidden_of_xls(data) if package is None else hidden_of_xlsb(package)
    except (ValueError, OSError):
        return None


def _rows(found: Any, hidden: HiddenCells, left_out: dict[str, int]) -> Iterator[SheetRow]:
    """Yield the rows of a sheet that are shown, and count hidden ones that hold something."""
    if found.total_height * found.total_width > MAX_CELLS:
        raise SkipDocumentError(f"A sheet of the workbook has more than {MAX_CELLS:,} cells. Split it.")
    characters = 0
    columns = set[int]()
    for number, every in enumerate(found.iter_rows()):
        if number in hidden.rows:
            left_out["row"] += any(value != "" for value in every)
            continue
        values = every
        if hidden.columns:
            columns.update(place for place in hidden.columns if place < len(every) and every[place] != "")
            values = [value for place, value in enumerate(every) if place not in hidden.columns]
        row = SheetRow([_cell(value) for value in values])
        for value in values:
            figure = isinstance(value, int | float | date | datetime | time | timedelta) and not isinstance(value, bool)
            year = isinstance(value, int | float) and value in YEARS
            row.years, row.figures = row.years or (figure and year), row.figures or (figure and not year)
        characters += sum(map(len, row.cells))
        if characters > MAX_CHARACTERS:
            raise SkipDocumentError(f"A sheet of the workbook has more than {MAX_CHARACTERS:,} characters. Split it.")
        yield row
    left_out["column"] += len(columns)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int | float):
        return general(float(value))
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return str(value)
