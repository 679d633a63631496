"""A workbook enters; every sheet leaves as a heading and its rows, with their numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import Draft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.delimited import is_header
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table
from resources.errors import SkipDocumentError


def _cell(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)  # dates and times print as ISO 8601, with a space between the two


def _rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        yield [_cell(value) for value in row]


def _sheet(name: str, sheet: Any) -> Iterator[Draft]:
    rows = _rows(sheet)
    first = next((row for row in rows if any(row)), None)
    if first is None:
        return
    yield Draft(kind="heading", text=name, level=1, sheet=name)
    while first and not first[-1]:
        first.pop()
    if is_header(first):
        yield from table(rows, header=first, sheet=name, numbered=True)
    else:
        yield from table(_with(first, rows), sheet=name, numbered=True)


def _with(first: list[str], rows: Iterator[list[str]]) -> Iterator[list[str]]:
    yield first
    yield from rows


def parse(data: bytes) -> Parsed:
    """Return the sheets of an XLSX file. Raises `SkipDocumentError` for bombs, protected and damaged files."""
    check(data, part="xl/", kind="XLSX")
    from python_calamine import CalamineError, CalamineWorkbook

    try:
        book = CalamineWorkbook.from_filelike(io.BytesIO(data))
        drafts = [draft for name in book.sheet_names for draft in _sheet(name, book.get_sheet_by_name(name))]
    except CalamineError as error:
        raise SkipDocumentError(f"The XLSX file is damaged or protected: {one_line(str(error))[:160]}.") from None
    return Parsed(drafts=drafts)
