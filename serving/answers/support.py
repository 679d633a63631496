"""Decide whether the passages that a sentence of an answer cites support it, and if not, why. Pure.

A sentence is held against the few pieces of its passages that say most of it. Its words must stand there, its numbers in a piece
that speaks of the same, names anywhere in the passage, and it must deny what they deny. Where its words are other ones, the
meaning decides (cosine of both, by the model that queries are embedded with), but never over a number, a name or a "not". Doubt
counts against the sentence: a true one that is marked costs a look at the source, a false one that is not costs trust.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from serving.answers.citations import Sentence
from serving.answers.words import UNITS, Measures, content, digits, holds, measures, negated, numbers, opposed, units
from serving.retrieval.highlight import pieces

Reason = Literal["uncited", "words", "number", "name", "negation", "meaning"]

ENOUGH = 0.75
"""Share of a sentence's words that, standing in its source, is enough."""
LEAST = 0.4
"""Below this share no likeness of meaning helps."""
MEANING: Mapping[str, float] = {"sentence-transformers/all-MiniLM-L6-v2": 0.62}
"""Model → least cosine of a sentence and its source between those two shares. From `tests/unit/test_answers_support.py`: claims
that say it in other words 0.66 to 0.9, claims about something else of the same passage 0.2 to 0.58. Other models: words alone."""
PIECES = 3

_NAME = re.compile(r"(?<![.!?:“\"'‘(]\s)(?<!^)\b[A-ZÀ-Þ][\w'’-]*[a-zß-ÿ0-9]|\b\w*\d\w*-?\w*[A-Za-z]\w*|\b[A-Z]{2,}\b")
_CLAUSE = re.compile(r"[;:—–,]\s+|\s+(?:but|while|whereas|although|unless|except|and)\s+")
_QUOTE = re.compile(r"^[“\"](.{12,})[”\"]\W*$", re.DOTALL)


class CitedText(NamedTuple):
    """What a number stands for: the passage, and its title and headings, which a claim may name."""

    text: str
    heading: str = ""


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence of an answer: `answer[start:end]`, the sources that it cites, and whether they say so."""

    text: str
    start: int
    end: int
    citations: list[int]
    supported: bool
    reason: Reason | None = None


class Claim(NamedTuple):
    """A sentence held against its sources. `evidence` is None when the words have decided; else the meaning still may."""

    sentence: Sentence
    supported: bool
    reason: Reason | None
    evidence: str | None = None


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


def _best(words: frozenset[str], parts: Sequence[str]) -> list[str]:
    """Return the pieces that together hold most of the words, the best first."""
    chosen: list[str] = []
    left = set(words)
    bags = {part: content(part) for part in parts}
    while left and len(chosen) < PIECES:
        gains = {part: sum(holds(bag, term) for term in left) for part, bag in bags.items()}
        part = max(gains, key=lambda one: gains[one], default=None)
        if part is None or gains[part] == 0:
            break
        chosen.append(part)
        left = {term for term in left if not holds(bags[part], term)}
    return chosen


def _near(plain: frozenset[str], parts: Sequence[str]) -> list[str]:
    """Return the pieces of one passage that speak of the claim, at least half as much as the one that does most."""
    overlap = {part: sum(holds(content(part), term) for term in plain) for part in parts}
    most = max(overlap.values(), default=0)
    return [part for part in parts if 2 * overlap[part] >= most]


def _numbers_stand(claim: str, words: frozenset[str], cut: Sequence[Sequence[str]], heading: str) -> bool:
    """Tell whether each number stands in a piece that speaks of the claim, and with its unit. `cut`: pieces by passage."""
    wanted = numbers(claim)
    if not wanted:
        return True
    plain = frozenset(word for word in words if not word.isdigit())
    near = [part for parts in cut for part in _near(plain, parts)]
    standing = numbers(heading).union(*(numbers(part) for part in near))
    if not wanted <= standing:
        return False
    stated = frozenset[tuple[str, str]]().union(*(measures(part) for part in near))
    return not any(_otherwise(number, unit, stated) for number, unit in measures(claim) if unit in UNITS)


def _otherwise(number: str, unit: str, stated: Measures) -> bool:
    """Tell whether the source gives this number another unit, or this unit other numbers only."""
    if (number, unit) in stated:
        return False
    return any(n == number and u in UNITS for n, u in stated) or any(u == unit for _, u in stated)


def _units_stand(words: frozenset[str], passages: Sequence[CitedText]) -> bool:
    return units(words) <= units(content(" ".join(f"{passage.heading} {passage.text}" for passage in passages)))


def _names_stand(claim: str, passages: Sequence[CitedText]) -> bool:
    words = content(" ".join(f"{passage.heading} {passage.text}" for passage in passages))
    names = {term for name in _NAME.findall(claim) for term in content(name)}
    return all(holds(words, term) for term in names)


def _denies_alike(claim: str, words: frozenset[str], evidence: Sequence[str]) -> bool:
    """Tell whether claim and source deny alike, in the clause of the source that says most of the claim."""
    clauses = [clause for part in evidence for clause in [part, *_CLAUSE.split(part)] if clause and clause.strip()]
    if not clauses:
        return True

    def likeness(clause: str) -> tuple[int, int]:
        return sum(holds(content(clause), term) for term in words), -len(clause)

    best = max(clauses, key=likeness)
    whole = next((part for part in evidence if best in part), best)
    alike = negated(claim) == negated(best) or (negated(claim) and negated(whole))
    return alike and not opposed(claim, whole)


def check(sentence: Sentence, sources: Mapping[int, CitedText], *, by_meaning: bool) -> Claim:
    """Hold a sentence against what it cites. With `by_meaning` false the words decide alone."""
    passages = [sources[number] for number in sentence.cited if number in sources]
    if not passages:
        return Claim(sentence, False, "uncited")
    claim = sentence.text
    quoted = _QUOTE.match(claim)
    if any(_flat(quoted[1] if quoted else claim) in _flat(passage.text) for passage in passages):
        return Claim(sentence, True, None)
    words = content(claim)
    cut = [[digits(one.text[piece.start : piece.end]) for piece in pieces(one.text)] for one in passages]
    heading = " ".join(passage.heading for passage in passages)
    evidence = _best(words, [part for parts in cut for part in parts])
    held = content(" ".join([heading, *evidence]))
    share = sum(holds(held, term) for term in words) / len(words) if words else 0.0
    if not evidence or share < LEAST:
        return Claim(sentence, False, "words")
    if not _numbers_stand(claim, words, cut, heading) or not _units_stand(words, passages):
        return Claim(sentence, False, "number")
    if not _names_stand(claim, passages):
        return Claim(sentence, False, "name")
    if not _denies_alike(claim, words, evidence):
        return Claim(sentence, False, "negation")
    if share >= ENOUGH:
        return Claim(sentence, True, None)
    if not by_meaning:
        return Claim(sentence, False, "words")
    return Claim(sentence, False, "meaning", " ".join(evidence[:2]))


def verdict(claim: Claim, cosine: float | None, least: float) -> Verdict:
    """Return what people are told of a claim. `cosine`: of the sentence and its evidence, where the meaning had to decide."""
    supported = claim.supported or (claim.evidence is not None and cosine is not None and cosine >= least)
    sentence = claim.sentence
    return Verdict(
        sentence.text,
        sentence.start,
        sentence.end,
        list(sentence.cited),
        supported,
        None if supported else claim.reason,
    )
