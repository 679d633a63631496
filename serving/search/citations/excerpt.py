"""Cut an excerpt of two or three lines for people: whole sentences around the best one, without the marks of Markdown. Pure.

The interface's snippet stays at 100 characters as they stand in the passage; this is what the pages show.
"""

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from serving.search.citations.heading import is_heading, known_of
from serving.search.quoting import TAG
from serving.search.retrieval.highlight import Piece, best_piece, pieces
from serving.search.retrieval.terms import letters, spans

LONGEST = 260
"""Characters of an excerpt: three lines of the results on a desktop."""
CUT = "…"
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*(?:\s+\"[^\"\n]*\")?\)")
_TAG = re.compile(TAG, re.IGNORECASE)
_STRONG = re.compile(r"(?<![\w*\\])(?!__\w+__)(\*{1,3}|_{1,3}|~~|`{1,3})(?=\S)(.+?)(?<=[^\s\\])\1(?![\w*])")
"""Emphasis and code. `__init__` is a name."""
_LINE = re.compile(r"^[ \t]*(?:>[ \t]?)*(?:#{1,6}[ \t]+|[-*•][ \t]+(?:\[[ xX]\][ \t]+)?|(?:```|~~~).*$)?", re.MULTILINE)
_RULE = re.compile(r"^[\s|:=_*-]*$")
_ESCAPED = re.compile(r"\\([!-/:-@\[-`{-~])")
_ITEM = re.compile(r"\s*[-*+•]\s")
_HEADING = re.compile(r"\s*#{1,6}\s")
_SPACE = re.compile(r"\s+")


class Excerpt(NamedTuple):
    """Text to show, and the places of the query's words in it."""

    text: str
    spans: list[tuple[int, int]]


def excerpt(text: str, words: frozenset[str], headings: Sequence[str] | None = ()) -> Excerpt:
    """Return the excerpt of a passage. `headings` are shown beside it, so their lines are left out where anything else is there.

    None for a conversation, in which a line without the mark of a heading is none.
    """
    shown = _chosen(text, words, None if headings is None else known_of(headings))
    return Excerpt(shown, spans(shown, words))


def plain(text: str) -> str:
    """Return a text in one line, without marks of Markdown."""
    text = _TAG.sub("", _LINK.sub(r"\1", _LINE.sub("", text)))
    text = _STRONG.sub(r"\2", _STRONG.sub(r"\2", text))
    return _SPACE.sub(" ", _ESCAPED.sub(r"\1", text)).strip(" |")


def _chosen(text: str, words: frozenset[str], known: AbstractSet[str] | None) -> str:
    parts = [one for one in pieces(text) if not _RULE.match(text[one.start : one.end])]
    apart = {
        one.start
        for one in parts
        if _HEADING.match(text, one.start)
        or letters(text[one.start : one.end]) in (known or ())
        or (not one.row and is_heading(text, one.start, one.end, known))
    }
    said = [one for one in parts if one.start not in apart]
    if not said:
        said, apart = parts, set[int]()
    if not said:
        return ""
    inside = [
        (start, end) for start, end in spans(text, words) if any(p.start <= start and end <= p.end for p in parts)
    ]
    best = best_piece(text, inside, {text[one.start : one.end].strip() for one in parts if one.start in apart})
    begin = best.start if best else 0
    first = next((one.start for one in said if one.start >= begin), said[-1].start)
    at = next(index for index, one in enumerate(parts) if one.start == first)
    shown = plain(text[parts[at].start : parts[at].end])
    if len(shown) > LONGEST:
        return _cut(shown, words)
    return _widened(text, parts, at, apart)


def _widened(text: str, parts: Sequence[Piece], at: int, apart: set[int]) -> str:
    """Return a piece with its neighbours, those after it first, while they fit. Rows, and what begins at `apart`, are none.

    A table's header says little by itself: it is shown with the rows below it that fit.
    """
    first = last = at
    while parts[at].header and last + 1 < len(parts) and parts[last + 1].row:
        if len(_joined(text, parts[at : last + 2])) > LONGEST:
            break
        last += 1
    grown = True
    while grown and not parts[at].row:
        grown = False
        for begin, end in ((first, last + 1), (first - 1, last)):
            if not (begin >= 0 and end < len(parts)) or any(
                one.row or one.start in apart for one in parts[begin : end + 1]
            ):
                continue
            if len(_joined(text, parts[begin : end + 1])) <= LONGEST:
                first, last, grown = begin, end, True
                break
    return _joined(text, parts[first : last + 1])


def _joined(text: str, parts: Sequence[Piece]) -> str:
    """Return pieces in one line, list items and rows apart."""
    shown = ""
    for one in parts:
        piece = text[one.start : one.end]
        apart = " · " if one.row or _ITEM.match(piece) else " "
        shown += f"{apart if shown else ''}{plain(piece)}"
    return shown


def _cut(text: str, words: frozenset[str]) -> str:
    """Return the part of a long sentence or row with most of the words, between spaces if any are around these."""
    places = spans(text, words)
    found = [start for start, _ in places]
    room = LONGEST - 2 * len(CUT) - 2

    def within(start: int) -> int:
        return sum(start <= one < start + room for one in found)

    start = max((0, *(max(0, one - room // 4) for one in found)), key=lambda one: (within(one), -one))
    space = text.find(" ", start, next((one for one in found if one >= start), start)) if start else -1
    start = start if space < 0 else space + 1
    last = max((after for at, after in places if start <= at and after <= start + room), default=start + 1)
    end = len(text) if start + room >= len(text) else text.rfind(" ", last, start + room + 1)
    end = start + room if end <= start else end
    return f"{CUT + ' ' if start else ''}{text[start:end].rstrip(' ,;:|')}{' ' + CUT if end < len(text) else ''}"
