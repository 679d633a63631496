"""Compare who or what a claim and a sentence of its source speak about. Pure.

"The gateway lasts 6.5 years" has every word of "With a gateway nearby, a pair of cells lasts 6.5 years", and another subject. There is no
parser: a verb is a word that both sentences have and that follows neither an article, a preposition nor a number in either, and its
subject is the phrase before it. A sentence in which that finds nothing passes.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from serving.answers.words import content, holds

_TOKEN = re.compile(r"[^\W_]+(?:[-'’.,][^\W_]+)*|[^\w\s]")
_SKIPPED = frozenset(
    """
    is are was were be been being am has have had do does did can could may might must shall should will would not also
    always already still often usually only now then never even both each all
    """.split()  # noqa: SIM905 (a list of forty quoted words says less)
)
"""Auxiliaries and adverbs: they stand between a subject and its verb."""
_BEFORE_NOUNS = frozenset(
    """
    a an the this that these those my your his her its our their of in on at by for from with without to into per and or
    nor but as than about over under after before between during until every any no some such more most less few many one
    minus plus
    """.split()  # noqa: SIM905 (a list of sixty quoted words says less)
)
_ARTICLES = frozenset(("a", "an", "the", "this", "these", "those", "my", "your", "his", "her", "its", "our", "their"))
_PASSIVE = re.compile(r"\b(?:is|are|was|were|be|been|being)\b.*\bby\b", re.IGNORECASE)


class Predicate(NamedTuple):
    """The stems of a verb, those of its subject, and those of everything after it."""

    verb: frozenset[str]
    subject: frozenset[str]
    after: frozenset[str]


def _predicates(text: str) -> list[Predicate]:
    tokens = _TOKEN.findall(text)
    plain = [token.casefold() for token in tokens]
    found: list[Predicate] = []
    for at in range(1, len(tokens)):
        verb = content(tokens[at])
        end = at - 1
        while end >= 0 and (plain[end] in _SKIPPED or plain[end].endswith("ly")):
            end -= 1
        if not verb or end < 0 or tokens[at][0].isdigit() or not _is_noun(plain[end]):
            continue
        begin = next((one for one in range(end, 0, -1) if _begins(plain, one)), 0)
        found.append(Predicate(verb, content(" ".join(tokens[begin : end + 1])), content(" ".join(tokens[at + 1 :]))))
    return found


def _is_noun(token: str) -> bool:
    return token[0].isalpha() and token not in _BEFORE_NOUNS and not token.endswith(("'s", "’s"))


def _begins(tokens: Sequence[str], at: int) -> bool:
    """Return True if a subject begins here: after a comma, or with an article that belongs to no preposition."""
    before = tokens[at - 1]
    return not before[0].isalnum() or (tokens[at] in _ARTICLES and before not in _BEFORE_NOUNS)


def _any(words: frozenset[str], terms: frozenset[str]) -> bool:
    return any(holds(words, term) for term in terms)


def swapped(claim: str, piece: str, elsewhere: Sequence[str], heading: frozenset[str]) -> bool:
    """Return True if the claim says of something else what the piece of a source says of its subject.

    Something else is what the source names in another place (`elsewhere`, or in the piece but not as its subject), not a word that it
    does not use, which may be a synonym, nor one of its heading. It is also the object, where both sentences are active or passive.
    """
    said, stands, others = content(claim), content(piece), content(" ".join(elsewhere))
    alike = bool(_PASSIVE.search(claim)) == bool(_PASSIVE.search(piece))
    for mine in _predicates(claim):
        alikes = [own for own in _predicates(piece) if mine.verb & own.verb and own.subject]
        if not mine.subject or any(_any(own.subject, mine.subject) for own in alikes):
            continue
        for own in alikes:
            stranger = mine.subject - own.subject if alike else mine.after - stands
            named = stands | others if alike else others
            other = any(holds(named, term) and not holds(heading, term) for term in stranger)
            turned = alike and _any(own.after, mine.subject) and _any(mine.after, own.subject)
            if turned or (other and not _any(said, own.subject)):
                return True
    return False
