"""Count the tokens of a text once and answer how many lie between two offsets, and where a given number ends."""

import re
import unicodedata
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from resources.core.ports import Tokenizer

SHORT_WORD = 40
"""Words up to this many characters are counted once and cached; longer ones are tokenized each time."""
CACHED_WORDS = 200_000
PIECE = 1_000_000
"""Characters whose words are counted in one pass."""
PART = 100_000
"""Approximate number of characters of one word that are tokenized at a time."""
_WORD = re.compile(r"\S+")
_GAP = re.compile(r"\s")
_ASCII_WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


def parts_words(character: str) -> bool:
    """Return True if the tokenizer starts a new word at this character: white space, punctuation, Chinese characters.

    Source: `BasicTokenizer` of BERT, https://github.com/google-research/bert/blob/master/tokenization.py
    """
    if character < "\x80":
        return character not in _ASCII_WORD
    return "\u3400" <= character <= "\u9fff" or character.isspace() or unicodedata.category(character)[0] == "P"


class WordCounts:
    """Caches the number of tokens of each word; without it, three quarters of the time goes into repeated words."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.counts: dict[str, int] = {}
        self.excess: dict[str, int] = {}
        """By how much a word with unknown tokens weighs more than their number."""

    def learn(self, words: set[str]) -> None:
        """Count words that are not cached yet. Words are separated by white space, so their counts do not depend on neighbours."""
        new = [word for word in words if word not in self.counts]
        if not new:
            return
        if len(self.counts) > CACHED_WORDS:
            self.counts.clear()
            self.excess.clear()
            new = list(words)
        tokens = iter(self.tokenizer.weighed(" ".join(new)))
        start, weight = next(tokens, (-1, 0))
        offset = 0
        for word in new:
            count = excess = 0
            while offset <= start < offset + len(word):
                count += 1
                excess += weight - 1
                start, weight = next(tokens, (-1, 0))
            self.counts[word] = count
            if excess:
                self.excess[word] = excess
            offset += len(word) + 1


_known: list[WordCounts] = []
"""Counts of the last tokenizer used; a process uses only one."""


def _counts_of(tokenizer: Tokenizer) -> WordCounts:
    if not _known or _known[0].tokenizer is not tokenizer:
        _known[:] = [WordCounts(tokenizer)]
    return _known[0]


def _parts(word: str) -> Iterator[tuple[int, str]]:
    """Yield a word, with each part's offset, cut where the tokenizer starts a new word: Chinese has no spaces."""
    start = 0
    while start < len(word):
        end = min(len(word), start + PART)
        while end < len(word) and not parts_words(word[end]):
            end += 1
        yield start, word[start:end]
        start = end


class Measure:
    """Token counts within one text, exact between two positions for which `parts` returns True."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self.text = text
        self.tokenizer = tokenizer
        self._starts = array("I")
        self._weights: array[int] | None = None
        heavy: dict[int, int] = {}
        known = _counts_of(tokenizer)
        for first, last in self._pieces():
            known.learn({word for word in text[first:last].split() if len(word) <= SHORT_WORD})
            self._count(first, last, known, heavy)
        if heavy:
            self._weights = array("Q", [0])
            self._weights.extend(accumulate(heavy.get(index, 1) for index in range(len(self._starts))))

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the text in parts that end between words; data about all words at once would take many times the text's memory."""
        start = 0
        while start < len(self.text):
            gap = _GAP.search(self.text, start + PIECE)
            end = gap.end() if gap is not None else len(self.text)
            yield start, end
            start = end

    def _count(self, first: int, last: int, known: WordCounts, heavy: dict[int, int]) -> None:
        starts, counts, excess = self._starts, known.counts, known.excess
        for found in _WORD.finditer(self.text, first, last):
            start, word = found.start(), found.group()
            if len(word) <= SHORT_WORD:
                count = counts[word]
                if word in excess:
                    heavy[len(starts)] = 1 + excess[word]
                if count == 1:
                    starts.append(start)
                else:
                    starts.extend((start,) * count)
                continue
            for offset, part in _parts(word):
                for begins, weight in self.tokenizer.weighed(part):
                    if weight > 1:
                        heavy[len(starts)] = weight
                    starts.append(start + offset + begins)

    def tokens(self, start: int, end: int) -> int:
        """Return the number of tokens that start in `[start, end)`."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def weight(self, start: int, end: int) -> int:
        """Return the number of tokens, counting words that the tokenizer does not know by their length; never less than `tokens`."""
        first, last = bisect_left(self._starts, start), bisect_left(self._starts, end)
        return last - first if self._weights is None else self._weights[last] - self._weights[first]

    def reach(self, start: int, weight: int) -> int:
        """Return the start of the first token that would exceed `weight` counted from `start`, or the text's end."""
        first = bisect_left(self._starts, start)
        weights = self._weights
        last = first + weight if weights is None else bisect_left(weights, weights[first] + weight + 1) - 1
        return self._starts[last] if last < len(self._starts) else len(self.text)

    def recount(self, start: int, end: int) -> tuple[int, int]:
        """Return the tokens and the weight of a passage that begins or ends within a word, by tokenizing it separately."""
        tokens = self.tokenizer.weighed(self.text[start:end])
        return len(tokens), sum(weight for _, weight in tokens)

    def parts(self, position: int) -> bool:
        """Return True if the counts on both sides of this position are exact; never the case within a short word."""
        text = self.text
        if position <= 0 or position >= len(text) or text[position - 1].isspace() or text[position].isspace():
            return True
        if not (parts_words(text[position - 1]) or parts_words(text[position])):
            return False
        left, right = position, position
        while left > 0 and position - left <= SHORT_WORD and not text[left - 1].isspace():
            left -= 1
        while right < len(text) and right - left <= SHORT_WORD and not text[right].isspace():
            right += 1
        return right - left > SHORT_WORD
