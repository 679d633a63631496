"""Turn rows of cells into table drafts: one line per row, cells separated by ` | `, in blocks that repeat the header.

Repeating the header costs a few tokens and makes each short block readable without the others: a row that matches a query is
shown with its header.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from assets.stages.normalize import BlockDraft, clean, one_line

BLOCK_CHARACTERS = 700
"""Target length of a block: some 200 tokens, to fit a chunk of the smallest common window (256 tokens)."""
BLOCK_PIECES = 190
"""The same in pieces of words and figures, which models count: figures have many more of them than words of the same length."""
HEADER_CHARACTERS = 200
"""A longer header is not repeated in every block: it would crowd out the rows."""
_PIECE = re.compile(r"\w{1,4}|[^\w\s]")


def line(cells: Sequence[str]) -> str:
    """Return one row as a line; trailing empty cells are dropped, and a vertical bar inside a cell becomes a slash."""
    texts = [one_line(clean(cell)).replace(" | ", " / ") for cell in cells]
    while texts and not texts[-1]:
        texts.pop()
    return " | ".join(texts)


def _pieces(text: str) -> int:
    return len(_PIECE.findall(text))


def table(
    rows: Iterable[Sequence[str]],
    *,
    header: Sequence[str] | None = None,
    page: int | None = None,
    sheet: str | None = None,
    numbered: bool = False,
    start: int = 1,
) -> Iterator[BlockDraft]:
    """Yield the table's drafts, lazily.

    With `numbered` (sheets and CSV) a block carries the number of its first data row, from `start`, and the header is a separate draft
    with `row_start` 0 before its rows. Otherwise the header is the first line of every block.
    """
    head = line(header) if header else ""
    repeat = 0 < len(head) <= HEADER_CHARACTERS
    if head and numbered:
        yield BlockDraft(kind="table", text=head, page=page, sheet=sheet, row_start=0)
    lines: list[str] = [] if numbered or not head else [head]
    above = len(lines)
    heading = _pieces(head) if repeat else 0
    length, pieces, first = sum(map(len, lines)), heading, start
    for number, row in enumerate(rows, start=start):
        text = line(row)
        if not text:
            text = "-" if numbered and lines else ""
        if not text:
            first += not lines
            continue
        more = _pieces(text)
        if len(lines) > above and (length + len(text) > BLOCK_CHARACTERS or pieces + more > BLOCK_PIECES):
            yield BlockDraft(
                kind="table", text="\n".join(lines), page=page, sheet=sheet, row_start=first if numbered else None
            )
            if head and repeat and numbered:
                yield BlockDraft(kind="table", text=head, page=page, sheet=sheet, row_start=0)
            lines = [head] if head and repeat and not numbered else []
            above = len(lines)
            length, pieces, first = sum(map(len, lines)), heading, number
        lines.append(text)
        pieces += more
        length += len(text) + 1
    if lines:
        yield BlockDraft(
            kind="table", text="\n".join(lines), page=page, sheet=sheet, row_start=first if numbered else None
        )
