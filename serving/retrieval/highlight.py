"""Snippets: a chunk's text and the query enter, 100 characters around the query's words and their spans leave."""

from __future__ import annotations

import re
from typing import NamedTuple

SNIPPET_CHARACTERS = 100
_WORD = re.compile(r"\w+")
_SPACE = re.compile(r"\s")
_ENDINGS = ("ings", "ing", "edly", "ed", "ies", "es", "s", "ly")
_STOPWORDS = frozenset(
    """
    a about an and are as at be by can do does for from has have how i in is it its my of on or our that the their there this
    to was we were what when where which who why will with you your
    """.split()  # noqa: SIM905 (a list of sixty quoted words says less)
)


class Snippet(NamedTuple):
    """`text == chunk_text[start:start + len(text)]` but for white space; `spans` are offsets within `text`."""

    text: str
    start: int
    spans: list[tuple[int, int]]


def _stem(word: str) -> str:
    word = word.casefold()
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    # policy and policies, employee and employees: the last vowel is part of the ending
    return word.rstrip("ey") or word


def terms(query: str) -> frozenset[str]:
    """Return the query's words, light stems, without stopwords (all words when there are only stopwords)."""
    words = [word.casefold() for word in _WORD.findall(query)]
    return frozenset(_stem(word) for word in words if word not in _STOPWORDS) or frozenset(map(_stem, words))


def spans(text: str, wanted: frozenset[str]) -> list[tuple[int, int]]:
    """Return where the wanted words stand in the text."""
    return [match.span() for match in _WORD.finditer(text) if _stem(match.group()) in wanted]


def snippet(text: str, wanted: frozenset[str], size: int = SNIPPET_CHARACTERS) -> Snippet:
    """Return the passage of at most `size` characters that holds most of the wanted words, cut between words."""
    found = spans(text, wanted)
    best_start, best_count = 0, 0
    for index, (start, _) in enumerate(found):
        inside = {_stem(text[s:e]) for s, e in found[index:] if e <= start + size}
        if len(inside) > best_count:
            best_start, best_count = start, len(inside)
    if best_count:
        last = max(end for start, end in found if start >= best_start and end <= best_start + size)
        best_start = max(0, best_start - (size - (last - best_start)) // 2)
    start = best_start
    if start > 0:
        space = _SPACE.search(text, start)
        first = min((s for s, _ in found if s >= start), default=len(text))
        start = space.end() if space and space.end() <= first else start
    end = min(len(text), start + size)
    if end < len(text) and not text[end].isspace():
        cut = max((match.start() for match in _SPACE.finditer(text, start, end)), default=end)
        end = cut if not any(s < end and e > cut for s, e in found if e <= end) and cut > start else end
    passage = _SPACE.sub(" ", text[start:end]).rstrip()
    inside = [(s - start, e - start) for s, e in found if s >= start and e <= start + len(passage)]
    return Snippet(passage, start, inside)
