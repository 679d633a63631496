"""Parse CSV and TSV into rows, one line each, with the header kept."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from itertools import chain

from assets.stages.normalize import BlockDraft
from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed
from assets.stages.parse.tables import table

_DELIMITERS = ";\t|,"
_SAMPLE = 20_000
_SEPARATOR = re.compile(r"\ufeff?sep=(.)\r?\n")
"""The first line in which Excel names the delimiter."""
_LONG_CELL = 50
"""Line ends in a cell from which a quotation mark that is never closed is taken for a character: it would swallow the rows below."""
_NUMBER = re.compile(r"[-+]?[\d.,]+%?")


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


def is_header(row: list[str]) -> bool:
    """Return True if a first row is a header: at most one empty cell, and no cell is a number."""
    filled = [cell for cell in row if cell.strip()]
    return len(filled) >= max(1, len(row) - 1) and not any(_NUMBER.fullmatch(cell.strip()) for cell in filled)


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


def _drafts(text: str) -> Iterator[BlockDraft]:
    rows = _rows(text)
    first = next((row for row in rows if any(cell.strip() for cell in row)), list[str]())
    if is_header(first):
        yield from table(rows, header=first, numbered=True)
    else:
        yield from table(chain([first], rows), numbered=True)


def parse(data: bytes) -> Parsed:
    """Return the rows of a delimited file. The delimiter is one of comma, semicolon, tab and vertical bar, guessed."""
    decoded, warnings = decode(data)
    return Parsed(drafts=list(_drafts(decoded)), warnings=warnings)
