"""Depth of a search: enough candidates at first, and more if too few passages remain of them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from serving.search.retrieval.cache import Candidate, Candidates
from serving.search.retrieval.passage import Passage
from serving.search.retrieval.query import LeftOut, SearchQuery

ORDINARY = 10
"""Results that the usual depth is enough for."""
MOST_PER_DOCUMENT = 10.0
"""Passages of long documents seldom all answer one query."""
SPARE = 1.5
"""Candidates per result that is wanted, since some are left out or say the same as others."""
STEP = 4
LARGEST_STEP = 16
ROUNDS = 10
"""Enough to pass 15,000 candidates that are left out."""


def first_depth(query: SearchQuery, passages_per_document: float) -> int:
    """Return the number of candidates to begin with: more than the usual if many results are wanted."""
    if query.limit <= ORDINARY:
        return query.depth
    per_result = min(MOST_PER_DOCUMENT, max(1.0, passages_per_document)) if query.group else 1.0
    return min(query.deepest, max(query.depth, math.ceil(SPARE * per_result * query.limit)))


def complete(
    query: SearchQuery,
    found: Candidates,
    readable: Mapping[str, Passage],
    ranked: Sequence[Candidate],
    passages: Sequence[Passage],
) -> bool:
    """Return True if a deeper search would not add passages. `ranked` are the readable candidates in order."""
    if len(passages) >= query.limit or not found.saturated:
        return True
    if query.threshold is not None and 2 * len(readable) >= len(found.ranked):
        # if none of the lower half reaches the threshold, what is still lower does not either
        reached = {one.chunk_id for one in passages}
        return not any(one.chunk_id in reached for one in ranked[len(ranked) // 2 :])
    return False


def deeper(
    query: SearchQuery,
    found: Candidates,
    readable: Mapping[str, Passage],
    passages: Sequence[Passage],
    stale_partitions: tuple[tuple[str, str], ...],
) -> SearchQuery | None:
    """Return the search for more candidates without those that were left out; None if it would find the same.

    A filter by collections leaves out documents whose collections the caller may not know. Those are not counted off one by one, since
    the time that takes would reveal them.
    """
    before = left_out = query.left_out
    gone = tuple(one.chunk_id for one in found.ranked if one.chunk_id not in readable)
    if gone:
        left_out = LeftOut(
            archived=not query.narrowing.include_archived,
            partitions=before.partitions or stale_partitions,
            chunk_ids=before.chunk_ids if query.narrowing.collection_ids else (*before.chunk_ids, *gone),
        )
    step = min(LARGEST_STEP, max(STEP, 2 * query.limit // max(1, len(passages))))
    depth = min(query.deepest, found.depth * step)
    if depth == found.depth and left_out == before:
        return None
    return query._replace(depth=depth, left_out=left_out)
