"""Detect queries of a batch that rescore another query's hits, so that no search runs twice.

Hybrid search asks for the nearest points, for the best by keywords, and for each one's hits scored by the other. Without
sharing, the engine runs both searches again for the prefetches.
"""

from collections.abc import Sequence

import msgspec

from resources.servers.vector.queries import QueryBody, QueryStage, limit_of, prefetches_of


def shared(bodies: Sequence[QueryBody]) -> dict[int, int]:
    """Return, for each query whose only prefetch is itself a query of the batch, that query's index."""
    plain = [place for place, body in enumerate(bodies) if body.prefetch is None and not body.offset]
    found: dict[int, int] = {}
    for place, body in enumerate(bodies):
        stages = prefetches_of(body)
        if len(stages) == 1 and stages[0].prefetch is None:
            wanted = _search(stages[0])
            same = next((other for other in plain if _search(bodies[other]) == wanted), None)
            if same is not None:
                found[place] = same
    return found


def without_prefetch(body: QueryBody) -> QueryBody:
    """Return the query to score the hits of its prefetch by; a filter that the prefetch has applied is left out."""
    same = bytes(body.filter) == bytes(prefetches_of(body)[0].filter)
    return msgspec.structs.replace(body, prefetch=None, filter=msgspec.Raw() if same else body.filter)


def _search(stage: QueryStage) -> tuple[object, ...]:
    """Return the fields that determine which points a stage finds."""
    return (stage.query, stage.using, limit_of(stage.limit), bytes(stage.filter), stage.params, stage.score_threshold)
