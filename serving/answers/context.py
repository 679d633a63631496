"""Choose the passages that an answer is made from, within a budget of tokens. Pure.

Every document's best passage comes before any document's second, so that one long document does not push the others out.
"""

from collections.abc import Callable, Sequence

from serving.retrieval.passage import Passage

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
