"""Finds names by what somebody types: by the beginnings of their words, and by whole words with one error."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import takewhile

from resources.core.spelling import LETTER, folded
from serving.search.retrieval.respell import LONGEST_WORD, SHORTEST_BEGINNING, SHORTEST_WORD, one_edit
from sql.serving_rows import ReadableName

MOST_WORDS = 50
"""Words that a beginning may stand for, in alphabetical order."""
WORD = re.compile(rf"(?:(?!_){LETTER})+")


def plain(text: str) -> str:
    """Return a text without accents and in lower case."""
    return folded(text).casefold()


def _words(one: ReadableName) -> set[str]:
    """Return the words of a name: of an email those before the @, of a folder those of its own name."""
    text = one.name.partition("@")[0] if one.kind == "author" else one.name.rpartition("/")[2]
    return {plain(word) for word in WORD.findall(text)}


def _key(kind: str, value: str) -> tuple[str, str]:
    """Return what a name is found by as the value of a filter: channels are filtered in lower case."""
    return kind, value.lower() if kind == "channel" else value


class NameIndex:
    """Names by their words. A look-up takes as long as what it finds, however many names there are."""

    def __init__(self, names: Sequence[ReadableName] = ()) -> None:
        by_word: defaultdict[str, set[int]] = defaultdict(set)
        for number, one in enumerate(names):
            for word in _words(one):
                by_word[word].add(number)
        self._names = names
        self._by_value = {_key(one.kind, one.value): one for one in names}
        self._by_word = dict(by_word)
        self._sorted = sorted(by_word)

    def find(self, words: Sequence[str]) -> list[ReadableName]:
        """Return the names that have all of these words, the last of which may be the beginning of one; whole words first."""
        *before, last = map(plain, words)
        found = self._beginning(last)
        for word in before:
            found &= self._whole(word)
        exact = self._by_word.get(last, set())
        return [
            self._names[number]
            for number in sorted(found, key=lambda one: (one not in exact, self._names[one].name.casefold()))
        ]

    def of_value(self, kind: str, value: str) -> ReadableName | None:
        """Return the author, channel or folder that a filter stands for; None if it is of no known name."""
        return self._by_value.get(_key(kind, value))

    def _beginning(self, word: str) -> set[int]:
        if len(word) < SHORTEST_BEGINNING:
            return set(self._by_word.get(word, ()))
        begin = bisect_left(self._sorted, word)
        words = takewhile(lambda one: one.startswith(word), self._sorted[begin : begin + MOST_WORDS])
        return self._any(words) or self._whole(word)

    def _whole(self, word: str) -> set[int]:
        if word in self._by_word or not SHORTEST_WORD <= len(word) <= LONGEST_WORD:
            return set(self._by_word.get(word, ()))
        return self._any(one_edit(word))

    def _any(self, words: Iterable[str]) -> set[int]:
        return {number for word in words for number in self._by_word.get(word, ())}
