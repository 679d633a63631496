"""Find running headers, footers and page numbers among the lines of a document's pages.

A lost figure is worse than a repeated line, so a line goes only if it is certain to be no content: it has the same place and the same
words on most pages, holds no figure except the page's own number, and is outside everything that stays.
"""

import re
from collections import Counter
from collections.abc import Sequence

EDGE_LINES = 3
"""Lines at the top and at the bottom of a page that may be a running header or footer."""
MIN_PAGES = 6
"""Shorter documents keep all lines: what recurs on three of them may as well be what they say."""
MAX_OFFSET = 30
"""Largest difference between a printed page number and the page's place in the file: covers and front matter."""
MAX_DIGITS = 8

_PAGE = r"(?:pages?|pg|seiten?|página|pagina|pag|strona|str|side|sida|sivu|oldal|стр|страница)"
_PAGE_NUMBER = re.compile(
    rf"(?:\b{_PAGE}\b[\s.:#]*(\d+)\b)|(?:(\d+)\s*(?:頁|页|ページ|쪽))"
    r"|(?:^[\W_]*(\d+|[ivxlc]+)(?:\s*(?:/|of|von|de|di|sur|van|из)\s*\d+)?[\W_]*$)",
)
"""`Page 3 of 9`, `3ページ`, or a line with nothing but a number. `Question 3` and `Invoice 3` are no page numbers."""
_NUMBERING = re.compile(rf"(?:[\W\d_]|\b(?:{_PAGE}|of|von|de|di|sur|van|из|[ivxlc]+)\b|[頁页ページ쪽第共])*+")
"""Words and signs around page numbers."""
_ROMAN = {"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}


def running_lines(pages: Sequence[Sequence[str]]) -> list[frozenset[int]]:
    """Return, for each page, the indices of its running lines. Lines are in reading order; none is blank.

    The first page that has a line keeps it if it says more than a page number, so that nothing vanishes from the document, and a page that
    would lose more than half of its characters keeps them all.
    """
    if len(pages) < MIN_PAGES:
        return [frozenset()] * len(pages)
    top, bottom = _edge(pages, range(EDGE_LINES)), _edge(pages, range(-1, -1 - EDGE_LINES, -1))
    seen: set[tuple[str, int] | None] = set()
    running: list[frozenset[int]] = []
    for page, (lines, *edges) in enumerate(zip(pages, top, bottom, strict=True), start=1):
        indices: set[int] = set()
        for index in sorted(edges[0] | edges[1]):
            text = _folded(lines[index])
            shape = _shape(text, page)
            if shape in seen or _NUMBERING.fullmatch(text):
                indices.add(index)
            seen.add(shape)
        removed = sum(len(lines[index]) for index in indices)
        running.append(frozenset(indices) if 2 * removed <= sum(map(len, lines)) else frozenset())
    return running


def _edge(pages: Sequence[Sequence[str]], places: Sequence[int]) -> list[set[int]]:
    """Return the running lines of each page at one edge, from the outermost inwards until a line stays."""
    found: list[set[int]] = [set() for _ in pages]
    candidates = set(range(len(pages)))
    for place in places:
        shapes = {
            number: shape
            for number in candidates
            if -len(pages[number]) <= place < len(pages[number])
            and (shape := _shape(_folded(pages[number][place]), number + 1)) is not None
        }
        counts = Counter(shapes.values())
        candidates = {number for number, shape in shapes.items() if 2 * counts[shape] > len(pages)}
        for number in candidates:
            found[number].add(place % len(pages[number]))
    return found


def _shape(text: str, page: int) -> tuple[str, int] | None:
    """Return what recurs of a line: its words, and its page number as a difference from `page`. None for lines with other figures."""
    mark = _PAGE_NUMBER.search(text)
    if mark is None:
        return None if any(map(str.isdecimal, text)) else (text, 0)
    group = mark.lastindex or 0
    number = mark.group(group)
    offset = (
        (int(number) if number.isdecimal() else _roman(number)) - page if len(number) <= MAX_DIGITS else MAX_OFFSET + 1
    )
    start, end = mark.span(group)
    return (f"{text[:start]}#{text[end:]}", offset) if abs(offset) <= MAX_OFFSET else None


def _folded(line: str) -> str:
    return " ".join(line.lower().split())


def _roman(text: str) -> int:
    values = [_ROMAN[letter] for letter in text]
    return sum(-value if value < after else value for value, after in zip(values, [*values[1:], 0], strict=True))
