"""Put known items first: passages that hold what the query names and few others hold, such as an identifier, a name, a title or a phrase.

Cosines hardly distinguish PKZ-0821 from PKZ-0822. A passage is taken for a known item by the product of two measures: how far its BM25
and its share of the query's words exceed those of the usual candidate, and that share itself. In a question the share is smaller than in
a mere name, so words that look like identifiers or names count more. Only passages that the caller may read are compared.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property

import msgspec

from resources.core.spelling import IDEOGRAPHS, LETTER, folded
from serving.search.retrieval.cache import Candidate
from serving.search.retrieval.passage import AskedWords, Passage
from serving.search.retrieval.terms import Words, held, terms

EXPONENT = 16
"""The share of words is raised to this power: nine words of ten count for a fifth."""
FEW = 5
"""At most so many passages hold what is named; the next one is the usual candidate."""
LOOKED_AT = 20
"""Candidates, best BM25 first, whose words are compared."""
NAMING = 8.0
"""Weight of a word of an identifier, or of a capitalised word within a question, relative to others."""
SHORT = 3
"""A query of so many words is a name, or holds no other words to weigh against one."""
TITLED = 0.5
"""What a title that is the query adds; one with more words adds their share."""
EXACT = 0.04
"""What all words of a query as short as a name add: an exact word comes before meaning."""
PROSE = 10
"""A query with more words outside its quotation marks is prose, in which they quote and do not demand."""

MOST_PHRASES = 8
"""More quoted phrases are not demanded either: each is looked for in every candidate."""

_IDENTIFIER = re.compile(r"\S*[\d@_/]\S*")
_NAME = re.compile(r"[A-Z][a-z]+")
CURLY = "“[^”]+”|„[^“”]+[“”]|«[^»]+»|»[^«]+«"
"""Quoted text with quotation marks of several languages, as a pattern."""
QUOTED = rf'(?<![\d\u0590-\u05ff])"[^"]+"|{CURLY}'
"""Quoted text, as a pattern. A mark after a digit or within a word of Hebrew quotes nothing: 24" and ארה"ב."""
_QUOTED = re.compile(QUOTED)
_WORD = re.compile(rf"[^\W\d_](?:\+\+|#)(?![\w#+])|{LETTER}+")


def with_phrases(candidates: Sequence[Candidate], readable: Mapping[str, Passage], text: str) -> Sequence[Candidate]:
    """Return the candidates that hold every quoted phrase of the query, ignoring case and punctuation, in the text or above it."""
    wanted = _phrases(text)
    if not wanted:
        return candidates

    def holds(passage: Passage) -> bool:
        texts = [(text := folded(one), text.casefold()) for one in (passage.chunk_text, passage.heading)]
        return all(any(one.within(*text) for text in texts) for one in wanted)

    return [one for one in candidates if holds(readable[one.chunk_id])]


def without(
    candidates: Sequence[Candidate], readable: Mapping[str, Passage], words: Sequence[str]
) -> Sequence[Candidate]:
    """Return the candidates that hold none of these words and phrases, neither in the text nor above it."""
    unwanted = [_Phrase(found) for one in words if (found := _WORD.findall(folded(one)))]
    if not unwanted:
        return candidates

    def holds(passage: Passage) -> bool:
        text = folded(f"{passage.heading}\n{passage.chunk_text}")
        small = text.casefold()
        return any(one.within(text, small) for one in unwanted)

    return [one for one in candidates if not holds(readable[one.chunk_id])]


class _Phrase:
    """Words one after another in a folded text, in any case, whatever the punctuation between them."""

    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._small = [one.casefold() for one in words]

    def within(self, text: str, small: str) -> bool:
        """Return True if a folded text has them. `small`: the text in small letters, in which most passages are seen to lack a word."""
        return all(one in small for one in self._small) and self._pattern.search(text) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        start = "" if IDEOGRAPHS.match(self._words[0]) else rf"(?<!{LETTER})"
        end = "" if IDEOGRAPHS.match(self._words[-1][-1]) else rf"(?!{LETTER})"
        return re.compile(start + r"\W+".join(map(re.escape, self._words)) + end, re.IGNORECASE)


def _phrases(text: str) -> list[_Phrase]:
    quoted = [_WORD.findall(folded(one[1:-1])) for one in _QUOTED.findall(text)]
    if len(_QUOTED.sub(" ", text).split()) > PROSE or len(quoted) > MOST_PHRASES:
        return []
    return [_Phrase(words) for words in quoted if words]


def known_items(
    candidates: Sequence[Candidate], readable: Mapping[str, Passage], text: str, asked: AskedWords
) -> Sequence[Candidate]:
    """Return the candidates, all of them readable, with how far each is a known item, from 0."""
    scores = {one.chunk_id: one.keyword for one in candidates if one.keyword}
    found = sorted(scores, key=lambda chunk_id: -scores[chunk_id])
    words, weights = asked.words, _weights(text)
    if not found or not words:
        return candidates
    whole = sum(weights.values())
    shares = {
        one: sum(map(weights.__getitem__, asked.within(readable[one]).words)) / whole for one in found[:LOOKED_AT]
    }
    usual = scores[found[FEW]] if len(found) > FEW else 0.0
    # a share says nothing where there are only few candidates to compare it with
    usual_share = sorted(shares.values(), reverse=True)[FEW] if len(shares) > FEW else 1.0
    known: list[Candidate] = []
    for one in candidates:
        share = shares.get(one.chunk_id, 0.0)
        excess = max(0.0, (scores.get(one.chunk_id, 0.0) - usual) / scores[found[0]]) + max(0.0, share - usual_share)
        named = _named(readable[one.chunk_id], words) if share == 1 and len(words) <= SHORT else 0.0
        known.append(msgspec.structs.replace(one, known=excess / 2 * share**EXPONENT + named))
    return known


def _named(passage: Passage, words: Words) -> float:
    """Return how far a short query names a passage that has all of its words: in the title, or at all."""
    if held(passage.title, words) != words:
        return EXACT
    return EXACT + TITLED * len(words) / max(len(words), len(terms(passage.title)))


def naming_words(text: str) -> Words:
    """Return the words of a query that look like identifiers, or like names within a question."""
    tokens, words = text.split(), terms(text)
    naming = {word for token in tokens if _IDENTIFIER.fullmatch(token) for word in terms(token)}
    if len(tokens) > SHORT:
        names = [token for token in tokens[1:] if _NAME.fullmatch(token.strip("?!.,;:()'\""))]
        naming |= {word for name in names for word in terms(name)}
    return words.only(frozenset(naming) | words.names.keys())


def _weights(text: str) -> dict[str, float]:
    """Return the weight of each of the query's words."""
    naming = naming_words(text)
    return {word: NAMING if word in naming else 1.0 for word in terms(text)}
