"""Choose what the language model is shown, within a budget of tokens. Pure.

Every document's best passage comes before any document's second, so that one long document does not push the others out. A context
window holds the prompt, earlier messages, selected text, sources and the answer: `share_out` divides it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from serving.answers.schemas import Message
from serving.search.retrieval.passage import Passage

MARGIN = 1.5
"""Tokens of a language model for each that the embedding model's tokenizer counts, with bars and fences. `make test-real` measures it."""
ANSWER_SHARE, HISTORY_SHARE = 4, 4
"""An answer gets at most a quarter of a context window; earlier messages, and selected text, get at most a quarter of what is left."""
LEAST_SOURCES = 64

HEADER_TOKENS = 30
"""What a document's title and a passage's place add, in tokens, roughly."""


def gather(
    ranked: Sequence[Passage], *, documents: int, passages: int, budget: int, count: Callable[[str], int]
) -> list[Passage]:
    """Return at most `passages` passages of the best `documents` documents within `budget` tokens as `count` counts them.

    Grouped by document, the best document first, passages in the order of the text. The best passage is always there.
    """
    order = list(dict.fromkeys(one.doc_id for one in ranked))[:documents]
    wanted = [one for one in ranked if one.doc_id in order]
    first = {one.doc_id: one for one in reversed(wanted)}
    best_first = [first[doc_id] for doc_id in order]
    rest = [one for one in wanted if one is not first[one.doc_id]]
    chosen: list[Passage] = []
    left = budget
    for one in (*best_first, *rest):
        tokens = count(one.chunk_text) + HEADER_TOKENS
        if len(chosen) < passages and (tokens <= left or not chosen):
            chosen.append(one)
            left -= tokens
    return sorted(chosen, key=lambda one: (order.index(one.doc_id), one.chunk_index))


class ContextBudget(NamedTuple):
    """Limits of a context window: `sources` in tokens as they are counted here, `answer` in those of the language model."""

    history: list[Message]
    selection: str | None
    sources: int
    answer: int


def share_out(
    window: int | None,
    *,
    prompt: str,
    history: Sequence[Message],
    selection: str | None,
    sources: int,
    answer: int,
    count: Callable[[str], int],
) -> ContextBudget:
    """Divide a context window. `prompt` is all that is fixed; `sources` and `answer` are the most that these may take."""
    if window is None:
        return ContextBudget(list(history), selection, sources, answer)
    answer = min(answer, window // ANSWER_SHARE)
    left = int((window - answer) / MARGIN) - count(prompt)
    most = max(0, left // HISTORY_SHARE)
    chosen = _cut(selection, most, count) if selection else None
    kept: list[Message] = []
    room = most
    for message in reversed(history):  # the latest are the ones that a question refers to
        text = _cut(message.content, room - HEADER_TOKENS // 3, count)
        if not text:
            break
        kept.insert(0, Message(message.role, text))
        room -= count(text) + HEADER_TOKENS // 3
    left -= (most - room) + (count(chosen) if chosen else 0)
    return ContextBudget(kept, chosen, max(LEAST_SOURCES, min(sources, left)), answer)


def _cut(text: str, tokens: int, count: Callable[[str], int]) -> str:
    """Return the beginning of a text that has at most so many tokens."""
    length = len(text)
    while text and (used := count(text)) > max(0, tokens):
        length = min(length - 1, int(length * max(0, tokens) / used))
        text = text[:length].rsplit(" ", 1)[0] if " " in text[:length] else text[:length]
    return text
