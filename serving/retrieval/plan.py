"""From a search request to what the engines are asked: filters and batched queries that always carry the caller's access.

There is one way to a Qdrant filter here, `filter_for`, and it takes an `Access`: no leg and no prefetch can be built without one.
"""

from __future__ import annotations

import re
import unicodedata
import uuid
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

from qdrant_client import models

from resources.core.bm25 import SparseVector
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.settings import Settings
from resources.sources import parse
from resources.stores.qdrant import DENSE, KEYWORD, RESCORED
from serving.schemas import MAX_QUERY, DateRange, Filters, SearchRequest

_TAG = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_VALUES = 100
MAX_VALUE = 2000
_SPACES = re.compile(r"\s+")


class Narrowing(NamedTuple):
    """Validated filters. `before` is exclusive; None or an empty tuple: not narrowed."""

    source_types: tuple[str, ...] = ()
    collection_ids: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    mime_types: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    tags: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    field: str = "modified_at"
    since: datetime | None = None
    before: datetime | None = None
    include_archived: bool = False


class Plan(NamedTuple):
    """A validated search; two equal plans for the same access have the same candidates."""

    query: str
    mode: str
    fusion: str
    depth: int
    dense_weight: float
    agreement: float
    narrowing: Narrowing
    keyword_engine: str
    expansion: str


def normalise(query: str) -> str:
    """Return the query in NFC with white space collapsed. Raises `InvalidRequestError` unless 1 to 1000 characters remain."""
    text = _SPACES.sub(" ", unicodedata.normalize("NFC", query).replace("\x00", " ")).strip()
    if not text:
        raise InvalidRequestError(f"query: is empty; ask something of 1 to {MAX_QUERY} characters.")
    if len(text) > MAX_QUERY:
        raise InvalidRequestError(f"query: has {len(text)} characters; the limit is {MAX_QUERY}.")
    return text


def _moment(text: str, field: str, *, end: bool) -> datetime:
    try:
        if len(text) == 10:
            day = datetime.combine(date.fromisoformat(text), datetime.min.time(), UTC)
            return day + timedelta(days=1) if end else day
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        detail = f"filters.date_range.{field}: {text!r} is no date; write 2025-12-31 or 2025-12-31T18:00:00Z."
        raise InvalidRequestError(detail) from None
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return moment + timedelta(microseconds=1) if end else moment


def _range(wanted: DateRange | None) -> tuple[str, datetime | None, datetime | None]:
    if wanted is None:
        return "modified_at", None, None
    since = _moment(wanted.start, "start", end=False) if wanted.start else None
    before = _moment(wanted.end, "end", end=True) if wanted.end else None
    if since and before and since >= before:
        raise InvalidRequestError("filters.date_range: start comes after end.")
    return wanted.field, since, before


def _document_id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidRequestError(f"filters.document_ids: {text!r} is no document id.") from None


def _tag_values(key: str, value: Any) -> tuple[str, tuple[Any, ...]]:
    if not _TAG.fullmatch(key):
        raise InvalidRequestError(
            f"filters.tags: {key!r} is no tag name; use letters, digits, `_` and `-`, at most 64."
        )
    values = value if isinstance(value, list) else [value]
    if len(values) > MAX_VALUES:
        raise InvalidRequestError(f"filters.tags.{key}: has {len(values)} values; the limit is {MAX_VALUES}.")
    if any(isinstance(one, str) and len(one) > MAX_VALUE for one in values):
        raise InvalidRequestError(f"filters.tags.{key}: a value has more than {MAX_VALUE} characters.")
    if any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in values):
        raise InvalidRequestError(f"filters.tags.{key}: a number must fit into 64 bits.")
    if not values or not all(isinstance(one, str | int | bool) for one in values):
        raise InvalidRequestError(
            f"filters.tags.{key}: give a text, a whole number, true or false, or a list of texts."
        )
    if len(values) > 1 and not all(isinstance(one, str) for one in values):
        raise InvalidRequestError(f"filters.tags.{key}: a list holds texts only.")
    return key, tuple(values)


def _source(text: str) -> str:
    try:
        return parse(text).value
    except ValueError as error:
        raise InvalidRequestError(f"filters.source_types: {error}") from None


def narrowing(filters: Filters) -> Narrowing:
    """Validate filters. Raises `InvalidRequestError` naming the field."""
    field, since, before = _range(filters.date_range)
    return Narrowing(
        source_types=tuple(sorted({_source(name) for name in filters.source_types})),
        collection_ids=tuple(sorted(set(filters.collection_ids))),
        document_ids=tuple(sorted({_document_id(doc_id) for doc_id in filters.document_ids})),
        mime_types=tuple(sorted(set(filters.mime_types))),
        authors=tuple(sorted(set(filters.authors))),
        tags=tuple(sorted(_tag_values(key, value) for key, value in filters.tags.items())),
        field=field,
        since=since,
        before=before,
        include_archived=filters.include_archived,
    )


def plan(request: SearchRequest, settings: Settings) -> Plan:
    """Validate a request and fill in the defaults. Raises `InvalidRequestError` naming the field."""
    return Plan(
        query=normalise(request.query),
        mode=request.mode,
        fusion=request.fusion or settings.fusion,
        depth=max(request.depth or settings.search_depth, request.top_k),
        dense_weight=settings.dense_weight,
        agreement=settings.agreement,
        narrowing=narrowing(request.filters or Filters()),
        keyword_engine=settings.keyword_engine,
        expansion="off" if request.mode == "keyword" else settings.query_expansion,
    )


def _any(key: str, values: Sequence[str]) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))


def filter_for(access: Access, wanted: Narrowing) -> models.Filter:
    """Return the filter of every Qdrant query: the caller's principals first, then what the request narrows.

    Archived documents are found too: the recheck leaves them out, and where there is none `queries`.
    """
    must: list[models.Condition] = [_any("permissions", sorted(access.principals))]
    lists = {
        "source_type": wanted.source_types,
        "collection_ids": wanted.collection_ids,
        "doc_id": wanted.document_ids,
        "mime_type": wanted.mime_types,
        "author": wanted.authors,
    }
    must += [_any(key, values) for key, values in lists.items() if values]
    for key, values in wanted.tags:
        texts = [value for value in values if isinstance(value, str)]
        match = models.MatchAny(any=texts) if texts else models.MatchValue(value=values[0])
        must.append(models.FieldCondition(key=f"tags.{key}", match=match))
    if wanted.since or wanted.before:
        must.append(
            models.FieldCondition(key=wanted.field, range=models.DatetimeRange(gte=wanted.since, lt=wanted.before))
        )
    return models.Filter(must=must)


def scoring(
    search: Plan, access: Access, dense: Sequence[float], chunk_ids: Sequence[str] | None = None
) -> models.QueryRequest:
    """Return the dense leg alone, or with `chunk_ids` the cosines of these chunks."""
    condition, limit = filter_for(access, search.narrowing), search.depth
    if chunk_ids is not None:
        condition = models.Filter(must=[condition, models.HasIdCondition(has_id=list(chunk_ids))])
        limit = len(chunk_ids)
    return models.QueryRequest(
        query=list(dense), using=DENSE, filter=condition, limit=limit, params=RESCORED, with_payload=False
    )


def queries(
    search: Plan, access: Access, dense: list[float] | None, keyword: SparseVector | None, *, with_payload: bool
) -> list[models.QueryRequest]:
    """Return the batch: dense leg, keyword leg, then (when fusion needs it) each leg's hits scored by the other.

    A leg whose vector is None is left out. With payloads, which are shown without a recheck, archived documents are left out too.
    Order: [dense], [keyword], [dense of keyword hits, keyword of dense hits].
    """
    condition, limit = filter_for(access, search.narrowing), search.depth
    if with_payload and not search.narrowing.include_archived:
        archived = models.FieldCondition(key="tags.lifecycle", match=models.MatchValue(value="archived"))
        condition = condition.model_copy(update={"must_not": [archived]})
    sparse = models.SparseVector(indices=keyword.indices, values=keyword.values) if keyword is not None else None
    legs: list[dict[str, Any]] = []
    if dense is not None:
        legs.append({"query": dense, "using": DENSE, "params": RESCORED})
    if sparse is not None:
        legs.append({"query": sparse, "using": KEYWORD})
    batch = [models.QueryRequest(**leg, filter=condition, limit=limit, with_payload=with_payload) for leg in legs]
    if len(legs) == 2:
        for leg, other in ((legs[0], legs[1]), (legs[1], legs[0])):
            found = models.Prefetch(**other, filter=condition, limit=limit)
            batch.append(models.QueryRequest(**leg, prefetch=found, filter=condition, limit=limit, with_payload=False))
    return batch
