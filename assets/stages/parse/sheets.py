"""Arrange the rows of a sheet: titles above a table, its header, which every block repeats, and tables below each other."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat, takewhile

import msgspec

from assets.stages.normalize import MAX_NAME, BlockDraft
from assets.stages.parse.tables import table

AHEAD = 12
"""Rows that are looked at for a header."""
_APART = 20
"""Empty rows within a table; more part two tables with the same header."""
_SPANS = 100
"""Cells of a row whose spans across columns are followed."""
_REPEATED = 200
"""Characters of a cell that are repeated in each row that it spans."""
COPIES = 1_000_000
"""Characters that are repeated in the rows of a sheet; the texts of further rows are not."""
_TITLES = 3
"""Rows of one cell above an empty row that are titles; more are a list."""

YEARS = range(1900, 2101)
"""Whole numbers that may be a year rather than a figure."""


class SheetRow(msgspec.Struct):
    """A row of cells as the sheet shows them."""

    cells: list[str]
    figures: bool = False
    """True if a cell is a number or a date that no header has."""
    years: bool = False
    """True if a cell is a whole number that may be a year: a header may have some."""

    spans: list[tuple[int, int]] = []
    """First and last column of the cells that are merged across columns."""

    @property
    def filled(self) -> int:
        return sum(1 for cell in self.cells if cell.strip())


class Spans:
    """Texts of cells that are merged across rows: each row that they span has them."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, str]] = {}
        self._copied = 0

    def fill(self, row: SheetRow, place: int, merged: Iterable[tuple[int, int, int]]) -> None:
        """Fill the cells of a row that texts above span, unless it is empty. `merged`: first and last column, and last row, of its own."""
        cells = row.cells
        self._open = {column: span for column, span in self._open.items() if span[0] >= place}
        for column, (_, text) in self._open.items() if any(cells) else ():
            if self._copied + len(text) > COPIES:
                break
            cells += [""] * (column + 1 - len(cells))
            if not cells[column]:
                cells[column] = text
                self._copied += len(text)
        for first, right, last in merged:
            if first < len(cells) and cells[first]:
                if right > first and len(row.spans) < _SPANS:
                    row.spans = [*row.spans, (first, right)]
                if last > place:
                    self._open[first] = (last, cells[first][:_REPEATED])


def counted(count: int, noun: str) -> str:
    """Return the beginning of a sentence about what is left out: `2 hidden rows that are`."""
    return f"{count} {noun} that is" if count == 1 else f"{count} {noun}s that are"


def sheet(name: str, rows: Iterable[SheetRow]) -> Iterator[BlockDraft]:
    """Yield the blocks of a sheet: its name as a heading, titles as paragraphs, tables with the numbers of their rows."""
    reader = _Reader(rows)
    name = name[:MAX_NAME]
    if reader.skip_empty():
        yield BlockDraft(kind="heading", text=name, level=1, sheet=name)
    yield from _tables(reader, name)


def tables(rows: Iterable[SheetRow]) -> Iterator[BlockDraft]:
    """Yield the blocks of a file that is one sheet without a name: titles as paragraphs, tables with the numbers of their rows."""
    return _tables(_Reader(rows), None)


def _tables(reader: "_Reader", name: str | None) -> Iterator[BlockDraft]:
    header: Sequence[str] | None = None
    while reader.skip_empty():
        titles, found = _head(reader.ahead(AHEAD), first=header is None, ragged=name is None)
        joined = found and titles > 0 and _are_joined(*reader.ahead(titles + 1)[-2:])
        for row in reader.take(titles - joined):
            yield BlockDraft(kind="paragraph", text=" ".join(cell for cell in row.cells if cell), sheet=name)
        if found:
            rows = reader.take(1 + joined)
            header = _trimmed(_joined(*rows) if joined else rows[0].cells)
        yield from table(_table(reader), header=header, sheet=name, numbered=True, start=reader.number)


def _are_joined(above: SheetRow, below: SheetRow) -> bool:
    """Return True if a row belongs to the header below it: each of its texts spans columns there, or has nothing else below it."""
    cells, spanning = below.cells, {first for first, _ in above.spans}
    return (
        bool(spanning)
        and above.filled > 1
        and all(
            at in spanning or not text or at >= len(cells) or cells[at] in ("", text)
            for at, text in enumerate(above.cells)
        )
    )


def _joined(above: SheetRow, below: SheetRow) -> list[str]:
    """Return one header of two rows: `2024 Costs` for "Costs" below "2024", which spans columns."""
    texts = dict(enumerate(above.cells))
    for first, right in above.spans:
        texts |= dict.fromkeys(range(first, min(right + 1, len(below.cells))), above.cells[first])
    return [" ".join(dict.fromkeys(filter(None, (texts.get(at), cell)))) for at, cell in enumerate(below.cells)]


def _head(ahead: Sequence[SheetRow], *, first: bool, ragged: bool = False) -> tuple[int, bool]:
    """Return how many rows at the beginning of a table are titles, and whether a header follows them.

    Titles are much narrower than the table below them. `first`: the sheet has no header yet. A later table has one of its own only
    below a title, or if figures follow it. `ragged`: rows may have more cells than their header, so that only single cells and labels
    with their values are titles.
    """
    rows = list(takewhile(lambda row: row.filled, ahead))
    widest = max(row.filled for row in rows)
    if widest == 1:
        above = len(rows) <= _TITLES and len(rows) < len(ahead)
        return (len(rows), False) if above else (0, first and _is_header(rows, 0))
    titles = _first_of_several(rows) if ragged else _widest(rows, widest)
    if any((row.figures and not _is_labelled(row)) or row.filled > rows[titles].filled for row in rows[:titles]):
        return 0, first and _is_header(rows, 0)
    if not _is_header(rows, titles):
        return titles, False
    below = rows[titles + 1].figures if titles + 1 < len(rows) else False
    return (titles, True) if first or titles or below else (0, False)


def _widest(rows: Sequence[SheetRow], widest: int) -> int:
    """Return the place of the first row that is as wide as the table, or of the header above it that leaves out one cell."""
    place = next(place for place, row in enumerate(rows) if row.filled == widest)
    near = [other for other in range(place) if rows[other].filled * 10 >= widest * 7 and _is_header(rows, other)]
    return near[-1] if near and not _is_header(rows, place) else place


def _first_of_several(rows: Sequence[SheetRow]) -> int:
    return next((place for place, row in enumerate(rows) if row.filled > 1 and not _is_labelled(row)), 0)


def _is_header(rows: Sequence[SheetRow], place: int) -> bool:
    """Return True if a row may be a header: at most one cell is empty and none is a figure; years have figures below them.

    "Account: | DE12 3456" is none.
    """
    row = rows[place]
    if row.figures or row.filled < len(_trimmed(row.cells)) - 1 or _is_labelled(row):
        return False
    return not row.years or any(other.figures for other in rows[place + 1 : place + 2])


def _is_labelled(row: SheetRow) -> bool:
    """Return True for a label with its value."""
    filled = [cell.strip() for cell in row.cells if cell.strip()]
    return len(filled) > 1 and filled[0].endswith(":") and not filled[-1].endswith(":")


def _trimmed(cells: list[str]) -> list[str]:
    width = next((place for place in range(len(cells), 0, -1) if cells[place - 1].strip()), 0)
    return cells[:width]


def _table(reader: "_Reader") -> Iterator[list[str]]:
    """Yield rows until another table begins: below an empty row, with a title or a header of its own, or far below."""
    while (row := reader.next()) is not None:
        if row.filled:
            yield row.cells
            continue
        empty = 1
        while (following := reader.ahead(1)) and not following[0].filled:
            reader.next()
            empty += 1
        if not following or empty > _APART or any(_head(reader.ahead(AHEAD), first=False)):
            return
        yield from repeat([], empty)


class _Reader:
    """Rows in order, of which some may be looked at before they are taken."""

    def __init__(self, rows: Iterable[SheetRow]) -> None:
        self._rows = iter(rows)
        self._waiting: list[SheetRow] = []
        self.number = 1
        """The number of the next row of data, from 1."""

    def ahead(self, count: int) -> list[SheetRow]:
        while len(self._waiting) < count and (row := next(self._rows, None)) is not None:
            self._waiting.append(row)
        return self._waiting[:count]

    def take(self, count: int) -> list[SheetRow]:
        found, self._waiting = self.ahead(count)[:count], self._waiting[count:]
        return found

    def next(self) -> SheetRow | None:
        found = self.take(1)
        self.number += len(found)
        return found[0] if found else None

    def skip_empty(self) -> bool:
        """Skip empty rows; return True if another one follows."""
        while (found := self.ahead(1)) and not found[0].filled:
            self.take(1)
        return bool(found)
