"""Decide what is searched for a question that follows others, given how a language model rewrote it. Pure.

Small models answer instead of rewriting, or lose what was asked. The user's own words are then searched together with the model's.
"""

import re

from serving.answers.words import content, holds
from serving.search.retrieval.query import MAX_QUERY, normalise

_LABEL = re.compile(
    r"^(?:(?:rewritten|last|standalone|new|full)\s+)?(?:question|query|reply|answer)\s*:\s*", re.IGNORECASE
)
_EDGES = " \t|*_#>\"'“”‘’"
_ASKS = frozenset(
    """
    who whom whose what which when where why how is are was were do does did can could may might must shall should will would has have
    list name summarise summarize explain describe tell show give compare find
    """.split()  # noqa: SIM905 (a list of forty quoted words says less)
)


def standalone(question: str, rewritten: str, completed: str) -> str:
    """Return what to search. `rewritten`: the model's reply, empty if it failed; `completed`: the question as `follow_up` completes it."""
    lines = [_LABEL.sub("", line.strip(_EDGES)).strip(_EDGES) for line in rewritten.splitlines()]
    line = next((one for one in lines if content(one)), "")
    if not line or len(line) > MAX_QUERY:
        return completed
    if _asks(line, question) and all(holds(content(line), term) for term in content(question)):
        return normalise(line)
    return normalise(f"{question} {line}"[:MAX_QUERY])


def _asks(line: str, question: str) -> bool:
    """Return True if a line asks something: by its question mark, or by a first word like those of questions and requests."""
    first = line.split()[0].casefold().strip(",:")
    return line.endswith(("?", "？")) or first in _ASKS or first == question.split()[0].casefold()
