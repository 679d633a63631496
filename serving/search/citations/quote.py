"""Find what an answer quotes in the passage that it cites. Pure.

A quote differs from its passage in white space, case and the marks of Markdown, and a model writes in its own words. So letters and
digits alone are compared; what is not found whole is found by its pieces, and in the end by its words.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from serving.search.quoting import LINK_REMOVED
from serving.search.retrieval.highlight import Piece, pieces

ENOUGH = 0.5
"""Share of a quote's characters, or of its words, that must be found in a passage for the place to be the quote's."""
_SHORTEST = 8
"""Letters and digits of the shortest piece that is looked for within a quote, but for the row that it ends with."""
_WORD = re.compile(r"\w+")
_OPENING = "*_`~\"'“„‘«(["
_UNSPACED = "\u0e00"
"""From here on, most scripts have no spaces between words."""


class Extent(NamedTuple):
    """A range of characters of a passage, `end` exclusive."""

    start: int
    end: int


class _Folded(NamedTuple):
    """The letters and digits of a text without case, and the place of each in the text."""

    text: str
    places: list[int]

    @classmethod
    def of(cls, text: str, start: int = 0, end: int | None = None) -> "_Folded":
        found = [
            (letter, start + at)
            for at, character in enumerate(text[start:end])
            if character.isalnum()
            for letter in character.casefold()
        ]
        return cls("".join(letter for letter, _ in found), [at for _, at in found])


def locate(quote: str, passage: str) -> list[Extent]:
    """Return where the passage says what is quoted, in order; nothing if it does not. Of a table, whole rows."""
    wanted, parts = _Folded.of(quote).text, list(pieces(passage))
    if not wanted:
        return []
    if whole := _around_links(quote, passage) if LINK_REMOVED in quote else _whole(wanted, passage):
        return [*_with_rows(whole, parts)]
    return _contained(wanted, passage, parts) or _nearest(quote, passage, parts)


def without_headers(found: list[Extent], passage: str) -> list[Extent]:
    """Return the ranges without the headers of tables, which may be far above their rows, unless there is nothing else."""
    headers = {one.start for one in pieces(passage) if one.header} if len(found) > 1 else set[int]()
    return [one for one in found if one.start not in headers] or found


def _around_links(quote: str, passage: str) -> Extent | None:
    """Return where the passage says what stands before, between and after the links that were removed from a quote."""
    found: list[Extent] = []
    for part in quote.split(LINK_REMOVED):
        if wanted := _Folded.of(part).text:
            one = _whole(wanted, passage, found[-1].end if found else 0)
            if one is None:
                return None
            found.append(one)
    return Extent(found[0].start, found[-1].end) if found else None


def _whole(wanted: str, passage: str, after: int = 0) -> Extent | None:
    folded = _Folded.of(passage, after)
    at = folded.text.find(wanted)
    while at >= 0:
        start, end = folded.places[at], folded.places[at + len(wanted) - 1] + 1
        if not (_within_word(passage, start) or _within_word(passage, end)):
            return _with_marks(passage, start, end)
        at = folded.text.find(wanted, at + 1)
    return None


def _within_word(text: str, at: int) -> bool:
    """Return True if a word of a script with spaces goes on at a place."""
    around = text[max(0, at - 1) : at + 1]
    return at > 0 and len(around) == 2 and around.isalnum() and max(around) < _UNSPACED


def _with_marks(text: str, start: int, end: int) -> Extent:
    """Return a range with the punctuation and marks around it."""
    while start and text[start - 1] in _OPENING:
        start -= 1
    while end < len(text) and not (text[end].isspace() or text[end].isalnum()):
        end += 1
    return Extent(start, end)


def _with_rows(found: Extent, parts: list[Piece]) -> Iterator[Extent]:
    """Yield the range, widened to the rows of a table in which it begins and ends."""
    rows = [one for one in parts if one.row and one.start < found.end and one.end > found.start]
    yield Extent(min([found.start, *(one.start for one in rows)]), max([found.end, *(one.end for one in rows)]))


def _contained(wanted: str, passage: str, parts: list[Piece]) -> list[Extent]:
    """Return the pieces of the passage that the quote joins, such as a row and its header."""
    found: list[Extent] = []
    characters = 0
    texts = [(one, _Folded.of(passage, one.start, one.end).text) for one in parts]
    tail = max((text for one, text in texts if one.row and wanted.endswith(text)), key=len, default="")
    for one, text in texts:
        if (len(text) >= _SHORTEST and text in wanted) or (text and one.row and text == tail):
            found.append(_trimmed(passage, one))
            characters += len(text)
    return found if characters >= ENOUGH * len(wanted) else []


def _nearest(quote: str, passage: str, parts: list[Piece]) -> list[Extent]:
    asked = set(_WORD.findall(quote.casefold()))
    best, most = None, 0.0
    for one in parts:
        words = set(_WORD.findall(passage[one.start : one.end].casefold()))
        shared = len(asked & words)
        if shared >= ENOUGH * len(asked) and 2 * shared / (len(asked) + len(words)) > most:
            best, most = one, 2 * shared / (len(asked) + len(words))
    return [_trimmed(passage, best)] if best else []


def _trimmed(passage: str, piece: Piece) -> Extent:
    text = passage[piece.start : piece.end]
    start = piece.start + len(text) - len(text.lstrip())
    return Extent(start, start + len(text.strip()))
