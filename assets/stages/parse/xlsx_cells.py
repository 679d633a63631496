"""The cells of an Excel workbook's sheet as they are shown, and which of them are hidden. Source: ECMA-376, part 1, section 18."""

import re
from typing import Any

from assets.stages.parse.number_format import Formatter, general
from assets.stages.parse.package import local, number
from assets.stages.parse.sheets import YEARS, SheetRow

MAX_COLUMNS = 2**14
"""Maximum columns of a sheet. Source: Excel's specifications and limits."""
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_REMEMBERED = 50_000
"""Numbers whose text is kept: sheets repeat them."""
_DIGITS = 9
_TEXTS = frozenset({"s", "str", "inlineStr"})
"""Types of cells that hold text."""

Format = tuple[Formatter, bool, bool]


class HiddenPlaces:
    """Hidden columns and rows of a sheet."""

    def __init__(self) -> None:
        self.rows: set[int] = set()
        """Numbers of the hidden rows, from 1."""
        self.seen: set[int] = set()
        """Hidden columns that have cells."""
        self._columns = bytearray(MAX_COLUMNS + 1)
        self._any = False

    def columns_of(self, element: Any) -> None:
        for one in element:
            if is_on_attribute(one, "hidden") or is_zero(one.get("width")):
                first = number(one.get("min"), 1, least=1, most=MAX_COLUMNS)
                last = number(one.get("max"), first, least=first, most=MAX_COLUMNS)
                self._columns[first - 1 : last] = b"\1" * (last - first + 1)
                self._any = True

    def has(self, column: int) -> bool:
        if not self._columns[column]:
            return False
        self.seen.add(column)
        return True

    def leave_out(self, row: SheetRow) -> None:
        """Remove the hidden columns of a row, which are empty."""
        row.cells = [text for place, text in enumerate(row.cells) if text or not self.has(place)]
        row.spans = []

    def covers(self, place: str) -> bool:
        """Return True if a cell (`B12`) is in a hidden row or column."""
        letters = place.rstrip("0123456789")
        return number(place[len(letters) :], 0) in self.rows or bool(self._columns[column_of(letters)])

    def __bool__(self) -> bool:
        return self._any


class Cells:
    """Reads the cells of rows."""

    def __init__(self, strings: list[str], formats: list[Format]) -> None:
        self.formulas = self.hidden = 0
        self._strings = strings
        self._formats = formats
        self._figures: dict[tuple[str, str | None], tuple[str, str]] = {}
        self._shared: dict[str, str] = {}
        self._columns: dict[str, int] = {}

    def row(self, element: Any, hidden: HiddenPlaces) -> SheetRow:
        row = SheetRow([])
        cells = row.cells
        column = -1
        for cell in element:
            place = cell.get("r")
            column = self._column(place) if place else column + 1
            if hidden and hidden.has(column):
                continue
            text = self._cell(cell, row)
            if text and cell.get("t") in _TEXTS and self._format(cell.get("s"))[2]:
                self.hidden += 1
                text = ""
            if text:
                if column >= MAX_COLUMNS:
                    break
                while len(cells) < column:
                    cells.append("")
                if len(cells) == column:
                    cells.append(text)
        return row

    def _column(self, place: str) -> int:
        letters = place.rstrip("0123456789")
        found = self._columns.get(letters)
        if found is None:
            self._columns[letters] = found = column_of(letters)
        return found

    def _cell(self, cell: Any, row: SheetRow) -> str:
        value = formula = None
        text = ""
        for one in cell:
            match local(one.tag):
                case "v":
                    # a text may be empty; without a type, some programs write an empty element for no result
                    value = one.text or ("" if cell.get("t") == "str" else None)
                case "f":
                    formula = self._formula(one)
                case "is":
                    text = rich(one)
                case _:
                    pass
        if value is None:
            if formula and not text:
                self.formulas += 1
                return formula
            return text
        match cell.get("t"):
            case "s":
                at = number(value, len(self._strings))
                return self._strings[at] if at < len(self._strings) else ""
            case "str" | "inlineStr" | "d":
                return _unescaped(value)
            case "b":
                return "TRUE" if value.strip() == "1" else "FALSE"
            case "e":
                return value
            case _:
                return self._figure(value, cell.get("s"), row)

    def _figure(self, value: str, style: str | None, row: SheetRow) -> str:
        known = self._figures.get((value, style))
        if known is None:
            known = self._shown(value, style)
            if len(self._figures) < _REMEMBERED:
                self._figures[value, style] = known
        text, kind = known
        row.years = row.years or kind == "year"
        row.figures = row.figures or kind == "figure"
        return text

    def _shown(self, value: str, style: str | None) -> tuple[str, str]:
        """Return a number as it is shown, and whether it may be a year."""
        try:
            figure = float(value)
        except ValueError:
            return value, ""
        show, dated, _ = self._format(style)
        return show(figure), "year" if not dated and figure in YEARS else "figure"

    def _format(self, style: str | None) -> Format:
        at = int(style) if style and style.isdecimal() and len(style) < _DIGITS else -1
        return self._formats[at] if 0 <= at < len(self._formats) else (general, False, False)

    def _formula(self, element: Any) -> str:
        """Return a formula; one that is shared is written at the first of its cells."""
        text, shared = element.text or "", element.get("si")
        if shared is not None:
            text = self._shared.setdefault(shared, text) if text else self._shared.get(shared, "")
        return f"={text}" if text else ""


def column_of(letters: str) -> int:
    """Return the column of some letters, from 0: `B` is 1. `MAX_COLUMNS` for all beyond the last."""
    found = 0
    for letter in letters[:4].upper():
        found = found * 26 + ord(letter) - 64
    return min(max(found - 1, 0), MAX_COLUMNS)


def is_on_attribute(element: Any, name: str) -> bool:
    """Return True if an element has a switch among its attributes that is on."""
    return element is not None and element.get(name) in ("1", "true", "on")


def is_zero(size: str | None) -> bool:
    """Return True for a height or width of nothing: `0`, `0.0`."""
    return bool(size) and not size.strip("0.")


def rich(element: Any) -> str:
    """Return the text of runs, without the readings above them (`rPh`)."""
    text = ""
    for one in element:
        match local(one.tag):
            case "t":
                text += one.text or ""
            case "r":
                text += rich(one)
            case _:
                pass
    return _unescaped(text)


def _unescaped(text: str) -> str:
    """Return a string without the escapes of characters that XML cannot hold: `_x000D_`. Source: 22.9.2.19 (ST_Xstring)"""
    if "_x" not in text:
        return text
    return _ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), text)
