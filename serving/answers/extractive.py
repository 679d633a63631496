"""Answer without a language model: quote and cite the sentences of the passages that answer best. Pure.

A piece is a sentence or a table row. It answers the better, the more of the question's words it holds, by weight, and the nearer it
and its passage are to the question in meaning; the headings above it say what it is about.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from serving.answers.citations import Sentence
from serving.answers.cleaning import clean
from serving.answers.gate import coverage, weights
from serving.answers.words import content
from serving.retrieval.highlight import pieces

SHORTLIST = 60
"""Pieces whose meaning is compared, those that hold most of the question's words first."""
WORDS, MEANING, PASSAGE = 0.36, 0.36, 0.28
"""Shares of a piece's words, its meaning and its passage's meaning in its score. `python -m bench.questions` counts the right quotes:
without the passage and with the ten pieces that hold most words alone, 22 of 72 paraphrases were answered."""
QUESTION = 0.7
"""Factor of a piece that is itself a question, as in a conversation: the answer is what follows it."""
QUOTES = 3
NEAR_BEST = 0.8
"""A further quote is as good as this share of the best one."""
LONGEST = 400
_SHORTEST = 3
_MARK = re.compile(r"\[(\d{1,4})\]")
_LIST_MARK = re.compile(r"^(?:[-*+•]|#{1,6}|\d{1,3}[.)])\s+")


class Quote(NamedTuple):
    """A sentence or table row of source `number`, and the share of the question's words that it holds, by weight."""

    number: int
    heading: str
    text: str
    share: float

    @property
    def whole(self) -> str:
        """The piece with the headings above it."""
        return f"{self.heading}: {self.text}"


def shortlist(question: str, passages: Sequence[tuple[str, str]]) -> list[Quote]:
    """Return the pieces that hold most of the question, best first. `passages`: (heading, text) of sources 1, 2, …"""
    asked = content(question)
    cut: list[tuple[int, str, frozenset[str]]] = []
    for number, (heading, text) in enumerate(passages, start=1):
        titles = content(heading)
        for piece in pieces(text):
            flat = " ".join(text[piece.start : piece.end].split())
            words = content(flat)
            plain_heading = not piece.row and words <= titles
            if len(flat.split()) < _SHORTEST or piece.header or plain_heading:
                continue
            cut.append((number, flat, words))
    weighed = weights(asked, [words for _, _, words in cut])
    # the heading says what "it" is: its words count half
    found = [
        Quote(
            number,
            passages[number - 1][0],
            text,
            (coverage(words, weighed) + coverage(words | content(passages[number - 1][0]), weighed)) / 2,
        )
        for number, text, words in cut
    ]
    return sorted(found, key=lambda piece: (-piece.share, piece.number))[:SHORTLIST]


def choose(found: Sequence[Quote], meaning: Sequence[tuple[float, float]] | None) -> list[Quote]:
    """Return the pieces to quote, best first, none twice.

    `meaning`: how near each piece and its passage are to the question, in order, as `CosineScale.relative`; None if unknown.
    """
    scores: list[float] = []
    for index, piece in enumerate(found):
        score = piece.share
        if meaning is not None:
            near, passage = meaning[index]
            score = WORDS * piece.share + MEANING * near + PASSAGE * passage
        scores.append(score * QUESTION if piece.text.endswith("?") else score)
    order = sorted(range(len(found)), key=lambda index: (-scores[index], index))
    chosen: dict[str, Quote] = {}
    for index in order:
        if len(chosen) < QUOTES and scores[index] >= NEAR_BEST * scores[order[0]]:
            chosen.setdefault(found[index].text.casefold(), found[index])
    return list(chosen.values())


def _quote(text: str) -> str:
    """Return the text between the quotation marks, without marks, links or tags of the document."""
    text = _LIST_MARK.sub("", _MARK.sub(r"(\1)", text))
    if len(text) > LONGEST:
        text = text[:LONGEST].rsplit(" ", 1)[0] + " …"
    return clean(text, 0)[0].replace("“", "‘").replace("”", "’")


def compose(chosen: Sequence[Quote]) -> tuple[str, list[Sentence]]:
    """Return the answer, a quote a line, and its sentences."""
    lines: list[str] = []
    found: list[Sentence] = []
    at = 0
    for piece in chosen:
        quote = f"“{_quote(piece.text)}”"
        line = f"{quote} [{piece.number}]"
        found.append(Sentence(at, at + len(line), quote, (piece.number,)))
        lines.append(line)
        at += len(line) + 1
    return "\n".join(lines), found
