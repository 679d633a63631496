"""Which passages an answer is made from: ranked passages enter, those that fit leave, grouped by document. Pure.

Every document's best passage comes before any document's second, so that one long document does not push the others out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from serving.retrieval.rank import Ranked

HEADER_TOKENS = 30
"""What a document's title and a passage's place add, in tokens, roughly."""


def gather(
    ranked: Sequence[Ranked], *, documents: int, passages: int, budget: int, count: Callable[[str], int]
) -> list[Ranked]:
    """Return at most `passages` passages of the best `documents` documents within `budget` tokens as `count` counts them.

    Grouped by document, the best document first, passages in the order of the text. The best passage is always there.
    """
    order = list(dict.fromkeys(one.hit.doc_id for one in ranked))[:documents]
    wanted = [one for one in ranked if one.hit.doc_id in order]
    first = {one.hit.doc_id: one for one in reversed(wanted)}
    best_first = [first[doc_id] for doc_id in order]
    rest = [one for one in wanted if one is not first[one.hit.doc_id]]
    chosen: list[Ranked] = []
    left = budget
    for one in (*best_first, *rest):
        tokens = count(one.hit.chunk_text) + HEADER_TOKENS
        if len(chosen) < passages and (tokens <= left or not chosen):
            chosen.append(one)
            left -= tokens
    return sorted(chosen, key=lambda one: (order.index(one.hit.doc_id), one.hit.chunk_index))
