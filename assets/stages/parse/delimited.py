"""Parse CSV and TSV into rows, one line each, with the header kept."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import AHEAD, YEARS, SheetRow, tables

_DELIMITERS = ";\t|,"
_SAMPLE = 20_000
_SEPARATOR = re.compile(r"\ufeff?sep=(.)\r?\n")
"""The first line in which Excel names the delimiter."""
_LONG_CELL = 50
"""Line ends in a cell from which a quotation mark that is never closed is taken for a character: it would swallow the rows below."""
_NUMBER = re.compile(r"[-+]?[\d.,]+%?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?!\d)|\d{1,2}([./])\d{1,2}\1\d{2,4}(?!\d)")


class _Dialect(csv.excel):
    skipinitialspace = True


def _dialect(text: str) -> csv.Dialect:
    """Return the dialect of the file, with the delimiter that gives most rows the same number of cells.

    A comma comes after the others, since cells hold commas: "21,5", "Price, net".
    `csv.Sniffer` is not used: its patterns take seconds for a few kilobytes of quotation marks.
    """
    sample = text[:_SAMPLE]
    sample = sample[: sample.rfind("\n") + 1] or sample
    found = _Dialect()
    found.quotechar = "'" if sample.startswith("'") and '"' not in sample else '"'

    def agreement(delimiter: str) -> tuple[float, bool, int]:
        found.delimiter = delimiter
        widths = Counter(len(row) for row in csv.reader(io.StringIO(sample, newline=""), found) if row)
        width, rows = max(widths.items(), key=lambda item: (item[0] > 1, item[1]), default=(0, 0))
        return (rows / widths.total() if width > 1 else 0.0), delimiter != ",", sample.count(delimiter)

    found.delimiter = max(_DELIMITERS, key=agreement)
    return found


def _rows(text: str) -> Iterator[list[str]]:
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # of the whole process: never lower
    dialect = _dialect(text)
    if named := _SEPARATOR.match(text):
        text = text[named.end() :]
        dialect = _dialect(text)
        dialect.delimiter = named.group(1)
    if text.count('"') % 2 and any(cell.count("\n") > _LONG_CELL for row in _read(text, dialect) for cell in row):
        dialect.quoting = csv.QUOTE_NONE
    yield from _read(text, dialect)


def _read(text: str, dialect: csv.Dialect) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), dialect)


def _sheet_rows(rows: Iterable[list[str]]) -> Iterator[SheetRow]:
    """Yield the rows, those at the beginning of a table with what their cells are."""
    near = AHEAD
    for cells in rows:
        filled = [text for cell in cells if (text := cell.strip())]
        if not filled:
            near = AHEAD
        elif near:
            near -= 1
            dates = [_DATE.match(text) is not None or (text.isdecimal() and int(text[:9]) in YEARS) for text in filled]
            figures = any(_NUMBER.fullmatch(text) and not date for text, date in zip(filled, dates, strict=True))
            yield SheetRow(cells, figures, any(dates))
            continue
        yield SheetRow(cells)


def parse(data: bytes) -> Parsed:
    """Return the rows of a delimited file. The delimiter is one of comma, semicolon, tab and vertical bar, guessed."""
    decoded, warnings = decode(data)
    return Parsed(drafts=list(tables(_sheet_rows(_rows(decoded)))), warnings=warnings)
