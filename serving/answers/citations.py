"""Split a cleaned answer into sentences with the numbers of the sources that each cites. Pure."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from serving.search.retrieval.highlight import ITEM_NUMBER, abbreviated

_MARK = re.compile(r"\[(\d{1,4})\]")
CITATION = re.compile(r"^```[^\n]*$.*?(?:^```[^\n]*$|\Z)|`[^`\n]+`|\[(\d{1,4})\]", re.DOTALL | re.MULTILINE)
"""A citation, or code, which readers see as it is: fenced, or in backquotes within a line."""
_END = re.compile(
    r"[.!?…।۔؟][\"'”’)*_]*(?:\s*\[\d{1,4}\])*(?=\s|$)|[。！？｡][。！？｡”’」』）】》〉)*_]*(?:\s*\[\d{1,4}\])*|\n"
)
_SHORT = re.compile(r"\b[\w.]{1,3}\.$")
"""Before a small letter, the full stop of so short a word ends no sentence."""
_BULLET = re.compile(rf"\s*(?:[-*•]|#{{1,6}}|{ITEM_NUMBER})\s+")
_LETTER = re.compile(r"\w")


class Sentence(NamedTuple):
    """`answer[start:end]`, its text without marks, and the numbers that it cites, in order."""

    start: int
    end: int
    text: str
    cited: tuple[int, ...]


def without_marks(text: str) -> str:
    return re.sub(r"\s+([.,;:!?。！？｡।۔؟、，])", r"\1", " ".join(_MARK.sub(" ", text).split()))


def cited(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in _MARK.findall(text)))


def _stretches(answer: str) -> Iterator[tuple[int, int]]:
    """Yield each sentence with the marks that follow its full stop; a line break ends a sentence too."""
    start = 0
    for match in _END.finditer(answer):
        if match.start() < start:
            continue
        end = match.end()
        goes_on = answer[end : end + 2].lstrip()[:1].islower() and _SHORT.search(answer, start, match.start() + 1)
        if match.group() != "\n" and (abbreviated(answer, start, match.start()) or goes_on):
            continue
        if (bullet := _BULLET.match(answer, start)) and bullet.end() >= end:
            continue  # the full stop of `1.`
        yield start, end
        start = end
    yield start, len(answer)


def sentences(answer: str) -> list[Sentence]:
    """Return the sentences of an answer, in order; list marks and headings' signs are no part of them."""
    found: list[Sentence] = []
    for start, end in _stretches(answer):
        bullet = _BULLET.match(answer, start, end)
        begin = bullet.end() if bullet else start
        stretch = answer[begin:end]
        begin += len(stretch) - len(stretch.lstrip())
        stop = begin + len(stretch.strip())
        text = without_marks(answer[begin:stop])
        if not _LETTER.search(text):
            if found and cited(stretch):  # marks on a line of their own belong to the text above
                last = found.pop()
                found.append(last._replace(end=stop, cited=tuple(dict.fromkeys((*last.cited, *cited(stretch))))))
            continue
        found.append(Sentence(begin, stop, text, cited(answer[begin:stop])))
    return found
