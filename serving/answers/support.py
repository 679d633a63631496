"""Decide whether the passages that a sentence of an answer cites support it, and if not, why. Pure.

A sentence is compared with the few pieces of its passages that contain most of its words. The pieces must contain its words, its
numbers in a piece about the same subject, its names anywhere in the passage, they must negate what it negates, and say it of the same
subject. If it is worded differently, the meaning decides (the cosine of both, by the model that embeds queries), but never against a
number, a name or a "not". A heading, or a sentence without content words, says nothing that a source could support. In doubt a
sentence counts as unsupported: a false alarm costs a look at the source, a missed one costs trust.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NamedTuple

import msgspec
from msgspec import Meta

from resources.core.spelling import IDEOGRAPHS, LETTER
from serving.answers.citations import Sentence
from serving.answers.subjects import swapped
from serving.answers.words import UNITS, content, digits, holds, measures, negated, numbers, opposed, otherwise, units
from serving.search.retrieval.highlight import pieces

Reason = Annotated[
    Literal["uncited", "empty", "words", "number", "name", "negation", "subject", "meaning", "language"],
    Meta(
        title="UnsupportedReason",
        description="What the sources lack. `uncited`: no source is cited. `empty`: nothing is said."
        " `subject`: it is said of something else. `language`: it is in another language than its sources, so words cannot be compared.",
    ),
]

ENOUGH = 0.75
"""Share of a sentence's words that is enough if its source contains them."""
LEAST = 0.4
"""Below this share a similar meaning does not help."""
MEANING: Mapping[str, float] = {"sentence-transformers/all-MiniLM-L6-v2": 0.62}
"""Model → least cosine of a sentence and its source between those two shares. From `tests/unit/test_answers_support.py`: claims
that say it in other words 0.66 to 0.9, claims about something else of the same passage 0.2 to 0.58. Other models: words alone."""
PIECES = 3
LABEL_WORDS = 3
"""A line that ends in a colon and has fewer content words is a label."""
HEADING_WORDS = 8
"""Longest line of a passage that may be a heading."""

_NAME = re.compile(r"(?<![.!?:“\"'‘(]\s)(?<!^)\b[A-ZÀ-Þ][\w'’-]*[a-zß-ÿ0-9]|\b\w*\d\w*-?\w*[A-Za-z]\w*|\b[A-Z]{2,}\b")
_CLAUSE = re.compile(r"[;:—–,]\s+|\s+(?:but|while|whereas|although|unless|except|and)\s+")
_FULL_STOP = re.compile(r"[.!?…][\"'”’)*_]*$")
_POSSESSIVE = re.compile(r"['’]s\b")
_LINE_MARKS = " \t#*_-•>|:.,;!?…\"'“”‘’()"
_QUOTE = re.compile(r"^[“\"](.{12,})[”\"]\W*$", re.DOTALL)


class CitedText(NamedTuple):
    """The passage that a citation number refers to, and its title and headings, which a claim may name.

    `foreign`: it is in another language than the answer."""

    text: str
    heading: str = ""
    foreign: bool = False


class Verdict(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sentence of an answer: `answer[start:end]`, the sources that it cites, and whether they say so."""

    text: str
    """The sentence."""
    start: int
    """First character of the sentence in `answer`, from 0."""
    end: int
    """The character after the last one of the sentence."""
    citations: list[int]
    """Numbers of the sources that it cites."""
    supported: bool
    """True if these sources say so."""
    reason: Reason | None = None
    """Why it is not supported; absent if it is."""


class Claim(NamedTuple):
    """A sentence compared with its sources. `evidence` is None if the words have decided; otherwise the meaning may still decide."""

    sentence: Sentence
    supported: bool
    reason: Reason | None
    evidence: str | None = None


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


def _bare(text: str) -> str:
    return _flat(text).strip(_LINE_MARKS)


def _says_nothing(claim: str, words: frozenset[str], passages: Sequence[CitedText]) -> bool:
    """Return True if a claim has no content words, or is a heading: one of the source, or a label that ends in a colon."""
    if not words:
        return True
    bare = _bare(claim)
    if claim.rstrip("*_ ").endswith(":") and len(words) < LABEL_WORDS:
        return True
    if any(bare in _bare(passage.heading) for passage in passages if len(bare.split()) <= HEADING_WORDS):
        return True
    return any(bare == _bare(line) for passage in passages for line in passage.text.splitlines() if _is_heading(line))


def _is_heading(line: str) -> bool:
    """Return True if a line of a passage may be a heading: short, no list item or table row, and without a full stop."""
    line = line.strip()
    return (
        0 < len(line.split()) <= HEADING_WORDS
        and " | " not in line
        and not _FULL_STOP.search(line)
        and line[0] not in '-*+•“"'
    )


def _best(words: frozenset[str], parts: Sequence[str]) -> list[str]:
    """Return the pieces that together contain most of the words, best first."""
    chosen: list[str] = []
    left: set[str] = set(words)
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
    """Return the pieces of one passage that contain at least half as many of the claim's words as its best piece."""
    overlap = {part: sum(holds(content(part), term) for term in plain) for part in parts}
    most = max(overlap.values(), default=0)
    return [part for part in parts if 2 * overlap[part] >= most]


def _has_numbers(claim: str, words: frozenset[str], cut: Sequence[Sequence[str]], heading: str) -> bool:
    """Return True if each number occurs in a piece about the claim, with its unit. `cut`: pieces by passage."""
    wanted = numbers(claim)
    if not wanted:
        return True
    plain = frozenset(word for word in words if not word.isdigit())
    near = [part for parts in cut for part in _near(plain, parts)]
    standing = numbers(heading).union(*(numbers(part) for part in near))
    if not wanted <= standing:
        return False
    stated = frozenset[tuple[str, str]]().union(*(measures(part) for part in near))
    return not any(otherwise(number, unit, stated) for number, unit in measures(claim) if unit in UNITS)


def _has_units(words: frozenset[str], passages: Sequence[CitedText]) -> bool:
    text = " ".join(f"{passage.heading} {passage.text}" for passage in passages)
    return units(words) <= units(content(text)) | {unit for _, unit in measures(text)}


def _has_names(claim: str, passages: Sequence[CitedText]) -> bool:
    words = content(" ".join(f"{passage.heading} {passage.text}" for passage in passages))
    names = {term for name in _NAME.findall(claim) for term in content(_POSSESSIVE.sub("", name))}
    return all(holds(words, term) for term in names)


def _negates_alike(claim: str, words: frozenset[str], evidence: Sequence[str]) -> bool:
    """Return True if claim and source negate alike, in the clause of the source that contains most of the claim."""
    clauses = [clause for part in evidence for clause in [part, *_CLAUSE.split(part)] if clause and clause.strip()]
    if not clauses:
        return True

    def likeness(clause: str) -> tuple[int, int]:
        return sum(holds(content(clause), term) for term in words), -len(clause)

    best = max(clauses, key=likeness)
    whole = next((part for part in evidence if best in part), best)
    alike = negated(claim) == negated(best) or (negated(claim) and negated(whole))
    return alike and not opposed(claim, whole)


def _has_literally(claim: str, text: str) -> bool:
    """Return True if a text has the claim as it stands, with whole words and numbers, in sentences that negate alike."""
    words = claim.split()
    if not words:
        return False
    start = "" if IDEOGRAPHS.match(words[0]) else rf"(?<!{LETTER})(?!(?:(?<=[-\u2212])|(?<=\d[\s.,'’]))\d)"
    end = "" if IDEOGRAPHS.search(words[-1][-2:]) else rf"(?!{LETTER}|(?<=\d)[\s.,'’]\d)"
    found = re.finditer(start + r"\s+".join(map(re.escape, words)) + end, text, re.IGNORECASE)
    spans = [match.span() for match in found]
    cut = list(pieces(text)) if spans else []
    wholes = (" ".join(text[one.start : one.end] for one in cut if one.start < e and s < one.end) for s, e in spans)
    return any(negated(whole) == negated(claim) for whole in wholes)


def check(sentence: Sentence, sources: Mapping[int, CitedText], *, by_meaning: bool) -> Claim:
    """Compare a sentence with what it cites. With `by_meaning` false only the words decide."""
    passages = [sources[number] for number in sentence.cited if number in sources]
    if not passages:
        return Claim(sentence, False, "uncited")
    claim = sentence.text
    words = content(_POSSESSIVE.sub("", claim))
    quoted = _QUOTE.match(claim)
    if quoted is None and _says_nothing(claim, words, passages):
        return Claim(sentence, False, "empty")
    if any(_has_literally(quoted[1] if quoted else claim, passage.text) for passage in passages):
        return Claim(sentence, True, None)
    if all(passage.foreign for passage in passages):  # spelled numbers are English, so only figures are compared
        stated = frozenset[str]().union(*(numbers(f"{passage.heading} {passage.text}") for passage in passages))
        return Claim(sentence, False, "language" if numbers(claim) <= stated else "number")
    cut = [[digits(one.text[piece.start : piece.end]) for piece in pieces(one.text)] for one in passages]
    heading = " ".join(passage.heading for passage in passages)
    evidence = _best(words, [part for parts in cut for part in parts])
    held = content(" ".join([heading, *evidence]))
    share = sum(holds(held, term) for term in words) / len(words) if words else 0.0
    if not evidence or share < LEAST:
        return Claim(sentence, False, "words")
    if not _has_numbers(claim, words, cut, heading) or not _has_units(words, passages):
        return Claim(sentence, False, "number")
    if not _has_names(claim, passages):
        return Claim(sentence, False, "name")
    if not _negates_alike(claim, words, evidence):
        return Claim(sentence, False, "negation")
    others = [part for parts in cut for part in parts if part != evidence[0]]
    if swapped(digits(claim), evidence[0], others, content(heading)):
        return Claim(sentence, False, "subject")
    if share >= ENOUGH:
        return Claim(sentence, True, None)
    if not by_meaning:
        return Claim(sentence, False, "words")
    return Claim(sentence, False, "meaning", " ".join(evidence[:2]))


def verdict(claim: Claim, cosine: float | None, least: float) -> Verdict:
    """Return the verdict on a claim. `cosine`: of the sentence and its evidence, if the meaning has to decide."""
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
