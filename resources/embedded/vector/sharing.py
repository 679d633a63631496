"""Queries of a batch that score another one's hits: found here, so that nothing is searched for twice.

Hybrid search asks for the nearest, for the best by keywords, and for each one's hits scored by the other: without sharing the engine
runs both searches again for the prefetches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from resources.embedded.vector.filters import Condition, PointId
from resources.embedded.vector.queries import QueryBody, Stage, limit_of


def shared(bodies: Sequence[QueryBody]) -> dict[int, int]:
    """Return, for each query whose one prefetch is itself a query of the batch, that one's place."""
    plain = [place for place, body in enumerate(bodies) if body.prefetch is None and not body.offset]
    found: dict[int, int] = {}
    for place, body in enumerate(bodies):
        if isinstance(body.prefetch, Stage) and body.prefetch.prefetch is None:
            wanted = _search(body.prefetch)
            same = next((other for other in plain if _search(bodies[other]) == wanted), None)
            if same is not None:
                found[place] = same
    return found


def over(body: QueryBody, ids: Iterable[PointId]) -> QueryBody:
    """Return the query over these hits of its prefetch."""
    hits = Condition(has_id=list(ids))
    repeated = body.filter is None or (isinstance(body.prefetch, Stage) and body.filter == body.prefetch.filter)
    return msgspec.structs.replace(
        body, prefetch=None, filter=hits if repeated else Condition(must=[hits, Condition(must=body.filter)])
    )


def _search(stage: Stage) -> tuple[object, ...]:
    """Return what decides which points a stage finds."""
    limit = limit_of(stage.limit)
    return (stage.query, stage.using, limit, stage.filter, stage.params, stage.score_threshold, stage.lookup_from)
