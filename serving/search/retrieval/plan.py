"""Build the queries of the vector index; every one carries the caller's access.

`filter_for` is the only way to a Qdrant filter here, and it takes an `Access`: no leg and no prefetch can be built without one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
from qdrant_client import models

from resources.core.bm25 import SparseVector
from resources.core.domain import Access, SourceName
from resources.core.permissions import READER_IDS, reader_id
from resources.stores.qdrant import DENSE, KEYWORD, RESCORED
from resources.stores.qdrant_search import PointQuery, raw
from serving.search.retrieval.query import NOTHING, LeftOut, Narrowing, SearchQuery

NUMBERS_FROM = 300
"""Principals from which they are looked up by number: 5,000 take 25 ms of the engine as texts and 10 ms as numbers."""
KEPT = 64
"""Callers whose principals are kept as conditions: sorting and checking 5,000 takes as long as the search."""
_PARAMS = raw(RESCORED)


def _any(key: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


@lru_cache(KEPT)
def _readable_by(principals: frozenset[str]) -> models.FieldCondition:
    return _any("permissions", sorted(principals))


@lru_cache(KEPT)
def _readable_by_number(principals: frozenset[str]) -> models.FieldCondition:
    return models.FieldCondition(key=READER_IDS, match=models.MatchAny(any=sorted(map(reader_id, principals))))


def filter_for(
    access: Access, wanted: Narrowing, left_out: LeftOut = NOTHING, *, by_number: bool = False
) -> models.Filter:
    """Return the filter of every Qdrant query: the caller's principals first, then what the request narrows.

    Archived documents are found too unless they are in `left_out`: the permission check after retrieval leaves them out. With
    `by_number`, more than some hundred principals are looked up by their numbers, which the permission check follows too.
    """
    numbers = by_number and len(access.principals) >= NUMBERS_FROM
    must: list[models.Condition] = [(_readable_by_number if numbers else _readable_by)(access.principals)]
    lists = {
        "source_type": wanted.source_types,
        "collection_ids": wanted.collection_ids,
        "doc_id": wanted.document_ids,
        "mime_type": wanted.mime_types,
    }
    must += [_any(key, values) for key, values in lists.items() if values]
    if wanted.authors:  # of a Slack conversation, anyone who wrote in it; elsewhere, people choose their own tags
        slack = models.Filter(must=[_any("source_type", [SourceName.SLACK]), _any("tags.participants", wanted.authors)])
        must.append(models.Filter(should=[_any("author", wanted.authors), slack]))
    for key, values in wanted.tags:
        must.append(_tagged(f"tags.{key}", values))
    if wanted.since or wanted.before:
        must.append(
            models.FieldCondition(key=wanted.field, range=models.DatetimeRange(gte=wanted.since, lt=wanted.before))
        )
    return models.Filter(must=must, must_not=_conditions(left_out) or None)


def _tagged(key: str, values: Sequence[Any]) -> models.Condition:
    texts = [value for value in values if isinstance(value, str)]
    either: list[models.Condition] = [_any(key, texts)] if texts else []
    for value in values:
        if isinstance(value, float):
            either.append(models.FieldCondition(key=key, range=models.Range(gte=value, lte=value)))
        elif not isinstance(value, str):
            either.append(models.FieldCondition(key=key, match=models.MatchValue(value=value)))
    return either[0] if len(either) == 1 else models.Filter(should=either)


def _conditions(left_out: LeftOut) -> list[models.Condition]:
    found: list[models.Condition] = []
    if left_out.archived:
        found.append(models.FieldCondition(key="tags.lifecycle", match=models.MatchValue(value="archived")))
    partitions: dict[str, list[str]] = {}
    for source, partition in left_out.partitions:
        partitions.setdefault(source, []).append(partition)
    for source, names in partitions.items():
        found.append(models.Filter(must=[_any("source_type", [source]), _any("partition", names)]))
    if left_out.chunk_ids:
        found.append(models.HasIdCondition(has_id=list(left_out.chunk_ids)))
    return found


def scoring(query: SearchQuery, dense: Sequence[float], chunk_ids: Sequence[str] | None = None) -> PointQuery:
    """Return the dense leg alone, or with `chunk_ids` the cosines of these chunks."""
    condition, limit = filter_for(query.access, query.narrowing, query.left_out), query.depth
    if chunk_ids is not None:
        condition = models.Filter(must=[condition, models.HasIdCondition(has_id=list(chunk_ids))])
        limit = len(chunk_ids)
    return PointQuery(
        query=raw(dense), using=DENSE, filter=raw(condition), limit=limit, params=_PARAMS, with_payload=False
    )


def queries(
    query: SearchQuery,
    dense: Sequence[float] | None,
    keyword: SparseVector | None,
    *,
    with_payload: bool,
    by_number: bool = False,
) -> list[PointQuery]:
    """Return the batch: dense leg, keyword leg, then (when fusion needs it) each leg's hits scored by the other.

    A leg whose vector is None is left out.
    Order: [dense], [keyword], [dense of keyword hits, keyword of dense hits].
    """
    permitted = raw(filter_for(query.access, query.narrowing, query.left_out, by_number=by_number))
    legs = list[PointQuery]()
    if dense is not None:
        legs.append(PointQuery(query=raw(dense), using=DENSE, filter=permitted, limit=query.depth, params=_PARAMS))
    if keyword is not None:
        legs.append(PointQuery(query=raw(keyword._asdict()), using=KEYWORD, filter=permitted, limit=query.depth))
    batch = [msgspec.structs.replace(leg, with_payload=with_payload) for leg in legs]
    if len(legs) == 2:
        for leg, other in (legs, reversed(legs)):
            batch.append(msgspec.structs.replace(leg, prefetch=other, with_payload=False))
    return batch
