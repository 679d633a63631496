"""Convert Qdrant's query bodies to the engine's `QueryRequest`.

The vector of a point that is named by its id is looked up here, and the point is excluded from the results.
Source: https://api.qdrant.tech/api-reference/search/query-points
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import format_error, validation_error
from resources.servers.vector.filters import among, excluding, read_filter
from resources.servers.vector.vectors import DEFAULT, Dense, PointId, Sparse, check_id, to_sparse

DEFAULT_LIMIT = 10
# Source: https://qdrant.tech/documentation/concepts/hybrid-queries/#reciprocal-rank-fusion-rrf
DEFAULT_RRF_K = 2

WithPayload = bool | list[str] | dict[str, list[str]] | None
WithVector = bool | list[str] | None


class Rrf(msgspec.Struct, forbid_unknown_fields=True):
    """Reciprocal rank fusion; one weight per prefetch."""

    k: int | None = None
    weights: list[float] | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A query object; a sparse vector is recognised by its indices and values."""

    nearest: Dense | int | str | Sparse | None = None
    fusion: Literal["rrf", "dbsf"] | None = None
    rrf: Rrf | None = None
    indices: list[int] | None = None
    values: list[float] | None = None


class QuantizationSearch(msgspec.Struct, forbid_unknown_fields=True):
    ignore: bool | None = None
    rescore: bool | None = None
    oversampling: float | None = None


class SearchParams(msgspec.Struct, forbid_unknown_fields=True):
    hnsw_ef: int | None = None
    exact: bool | None = None
    quantization: QuantizationSearch | None = None
    indexed_only: bool | None = None


class QueryStage(msgspec.Struct, forbid_unknown_fields=True):
    """Fields shared by a query and a prefetch."""

    prefetch: list[QueryStage] | QueryStage | None = None
    query: Dense | int | str | Query | None = None
    using: str | None = None
    filter: msgspec.Raw = msgspec.Raw()
    """JSON of a `Condition`, read only when it is not known yet."""
    params: SearchParams | None = None
    score_threshold: float | None = None
    limit: int | None = None


class QueryBody(QueryStage, forbid_unknown_fields=True):
    offset: int | None = None
    with_vector: WithVector = None
    with_payload: WithPayload = None


Resolver = Callable[[PointId, str], Any]
"""Returns the stored vector of a point, by the vector's name."""


def to_request(
    body: QueryBody, resolve: Resolver, *, spreading: bool = False, hits: Iterable[edge.PointId] | None = None
) -> edge.QueryRequest:
    """Convert a query body; `resolve` provides the vectors of points named by id.

    With `spreading`, the filter is written as a choice of single values; `hits` restricts the query to these points.
    """
    query, filter_ = _scoring(body, resolve, spreading=spreading)
    if hits is not None:
        filter_ = among(filter_, hits)
    return edge.QueryRequest(
        limit=limit_of(body.limit),
        offset=body.offset,
        query=query,
        prefetches=[_prefetch(stage, resolve) for stage in prefetches_of(body)],
        with_vector=body.with_vector or False,
        with_payload=to_with_payload(body.with_payload, default=False),
        filter=filter_,
        score_threshold=body.score_threshold,
        params=_params(body.params),
    )


def prefetches_of(stage: QueryStage) -> list[QueryStage]:
    """Return the prefetches, of which the interface allows one or a list."""
    if stage.prefetch is None:
        return []
    return stage.prefetch if isinstance(stage.prefetch, list) else [stage.prefetch]


def limit_of(limit: int | None) -> int:
    """Return the limit of a read, 10 by default."""
    if limit is not None and limit < 1:
        raise validation_error(f"[limit: value {limit} invalid, must be 1 or larger]")
    return DEFAULT_LIMIT if limit is None else limit


def to_with_payload(selector: WithPayload, *, default: bool) -> Any:
    """Convert `with_payload`: True, False, or the keys to include or exclude."""
    if not isinstance(selector, dict):
        return default if selector is None else selector
    for name, kind in (("include", edge.PayloadSelector.Include), ("exclude", edge.PayloadSelector.Exclude)):
        if set(selector) == {name}:
            return kind(selector[name])
    raise format_error("with_payload needs include or exclude")


def _prefetch(stage: QueryStage, resolve: Resolver) -> edge.Prefetch:
    query, filter_ = _scoring(stage, resolve)
    return edge.Prefetch(
        limit=limit_of(stage.limit),
        query=query,
        prefetches=[_prefetch(inner, resolve) for inner in prefetches_of(stage)],
        params=_params(stage.params),
        filter=filter_,
        score_threshold=stage.score_threshold,
    )


def _params(params: SearchParams | None) -> edge.SearchParams | None:
    if params is None:
        return None
    found = params.quantization
    quantization = (
        edge.QuantizationSearchParams(bool(found.ignore), found.rescore, found.oversampling) if found else None
    )
    return edge.SearchParams(params.hnsw_ef, bool(params.exact), quantization, bool(params.indexed_only))


def _scoring(stage: QueryStage, resolve: Resolver, *, spreading: bool = False) -> tuple[Any, edge.Filter | None]:
    """Return the engine's query, and the filter without the point that the query names."""
    filter_, query, using = read_filter(stage.filter, spreading=spreading), stage.query, stage.using or DEFAULT
    if isinstance(query, Query):
        if query.rrf is not None:
            return edge.Fusion.Rrf(DEFAULT_RRF_K if query.rrf.k is None else query.rrf.k, query.rrf.weights), filter_
        if query.fusion is not None:
            return edge.Fusion.Rrf(k=DEFAULT_RRF_K) if query.fusion == "rrf" else edge.Fusion.Dbsf(), filter_
        query = query.nearest if query.nearest is not None else Sparse(query.indices or [], query.values or [])
    if query is None:
        return None, filter_
    if isinstance(query, int | str):
        point_id = check_id(query)
        return edge.Query.Nearest(resolve(point_id, using), using), excluding(filter_, point_id)
    return edge.Query.Nearest(to_sparse(query) if isinstance(query, Sparse) else query, using), filter_
