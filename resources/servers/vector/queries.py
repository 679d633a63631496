"""Convert Qdrant's query bodies to the engine's `QueryRequest`.

Ids used as examples are looked up here (in this collection or another, `lookup_from`) and excluded from the results.
Source: https://api.qdrant.tech/api-reference/search/query-points
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.examples import (
    Context,
    Discover,
    Examples,
    Feedback,
    Recommend,
    Resolver,
    VectorInput,
)
from resources.servers.vector.faults import format_error, wrong_input
from resources.servers.vector.filters import Condition, excluding, to_filter
from resources.servers.vector.formulas import to_formula
from resources.servers.vector.vectors import DEFAULT, Dense

DEFAULT_LIMIT = 10
# Source: https://qdrant.tech/documentation/concepts/hybrid-queries/#reciprocal-rank-fusion-rrf
DEFAULT_RRF_K = 2
# Source: https://qdrant.tech/documentation/concepts/hybrid-queries/#maximal-marginal-relevance-mmr
DEFAULT_DIVERSITY = 0.5


class OrderBy(msgspec.Struct, forbid_unknown_fields=True):
    """Order by a payload field with a range index."""

    key: str
    direction: str | None = None
    start_from: int | float | str | None = None


class Rrf(msgspec.Struct, forbid_unknown_fields=True):
    """Reciprocal rank fusion; one weight per prefetch."""

    k: int | None = None
    weights: list[float] | None = None


class Mmr(msgspec.Struct, forbid_unknown_fields=True):
    """`diversity` 0 is pure relevance, 1 pure diversity."""

    diversity: float | None = None
    candidates_limit: int | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """Any kind of query object; a bare sparse vector is recognised by its indices and values."""

    nearest: VectorInput | None = None
    mmr: Mmr | None = None
    recommend: Recommend | None = None
    discover: Discover | None = None
    context: list[Context] | Context | None = None
    order_by: str | OrderBy | None = None
    fusion: str | None = None
    rrf: Rrf | None = None
    formula: Any = None
    defaults: dict[str, Any] | None = None
    sample: str | None = None
    relevance_feedback: Feedback | None = None
    text: str | dict[str, Any] | None = None
    indices: list[int] | None = None
    values: list[float] | None = None


class Quantization(msgspec.Struct, forbid_unknown_fields=True):
    """How quantized vectors are used."""

    ignore: bool | None = None
    rescore: bool | None = None
    oversampling: float | None = None


class Acorn(msgspec.Struct, forbid_unknown_fields=True):
    """Filtered HNSW by two-hop neighbours."""

    enable: bool | None = None
    max_selectivity: float | None = None


class Corpus(msgspec.Struct, forbid_unknown_fields=True):
    """The points whose statistics IDF uses."""

    corpus: Condition


class SearchParams(msgspec.Struct, forbid_unknown_fields=True):
    """How to search."""

    hnsw_ef: int | None = None
    exact: bool | None = None
    quantization: Quantization | None = None
    indexed_only: bool | None = None
    acorn: Acorn | None = None
    idf: str | Corpus | None = None


class Lookup(msgspec.Struct):
    """The collection and vector in which ids of examples are looked up."""

    collection: str
    vector: str | None = None


class Stage(msgspec.Struct):
    """Fields shared by a query and a prefetch."""

    prefetch: list[Stage] | Stage | None = None
    query: Dense | int | str | Query | None = None
    using: str | None = None
    filter: Condition | None = None
    params: SearchParams | None = None
    score_threshold: float | None = None
    limit: int | None = None
    lookup_from: Lookup | None = None


class QueryBody(Stage):
    """The body of `/points/query`."""

    offset: int | None = None
    with_vector: bool | list[str] | None = None
    with_payload: bool | list[str] | dict[str, list[str]] | None = None


# Returns the function that fetches vectors by id, and whether those points belong to the queried collection.
ResolverOf = Callable[[Lookup | None, str], tuple[Resolver, bool]]


def to_request(body: QueryBody, resolver: ResolverOf) -> edge.QueryRequest:
    """Convert a query body; `resolver` provides the vectors of points named by id."""
    query, filter_ = _scoring(body, resolver)
    return edge.QueryRequest(
        limit=limit_of(body.limit),
        offset=body.offset,
        query=query,
        prefetches=_prefetches(body, resolver),
        with_vector=to_with_vector(body.with_vector),
        with_payload=to_with_payload(body.with_payload, default=False),
        filter=filter_,
        score_threshold=body.score_threshold,
        params=to_params(body.params),
    )


def limit_of(limit: int | None) -> int:
    """Return the limit of a read, 10 by default."""
    if limit is None:
        return DEFAULT_LIMIT
    if limit < 1:
        raise format_error(f"limit: value {limit} invalid, must be 1 or larger")
    return limit


def to_with_vector(selector: bool | list[str] | None) -> Any:
    """Convert `with_vector`; vectors are left out by default."""
    return False if selector is None else selector


def to_with_payload(selector: bool | list[str] | dict[str, list[str]] | None, *, default: bool) -> Any:
    """Convert `with_payload`: True, False, or the keys to include or exclude."""
    if selector is None:
        return default
    if isinstance(selector, dict):
        if "exclude" in selector:
            return edge.PayloadSelector.Exclude(selector["exclude"])
        if "include" in selector:
            return edge.PayloadSelector.Include(selector["include"])
        raise format_error("with_payload needs include or exclude")
    return selector


def to_order(order: str | OrderBy) -> edge.OrderBy:
    """Convert an ordering; a field's name alone means ascending."""
    if isinstance(order, str):
        return edge.OrderBy(order)
    directions = {None: None, "asc": edge.Direction.Asc, "desc": edge.Direction.Desc}
    if order.direction not in directions:
        raise format_error(f"unknown direction {order.direction}, expected asc or desc")
    return edge.OrderBy(order.key, directions[order.direction], order.start_from)


def to_params(params: SearchParams | None) -> edge.SearchParams | None:
    """Convert search parameters, including quantization and IDF corpus."""
    if params is None:
        return None
    quantization, acorn = params.quantization, params.acorn
    return edge.SearchParams(
        hnsw_ef=params.hnsw_ef,
        exact=bool(params.exact),
        quantization=edge.QuantizationSearchParams(
            bool(quantization.ignore), quantization.rescore, quantization.oversampling
        )
        if quantization
        else None,
        indexed_only=bool(params.indexed_only),
        acorn=edge.AcornSearchParams(bool(acorn.enable), acorn.max_selectivity) if acorn else None,
        idf=edge.IdfParams(to_filter(params.idf.corpus)) if isinstance(params.idf, Corpus) else None,
    )


def _prefetches(stage: Stage, resolver: ResolverOf) -> list[edge.Prefetch]:
    if stage.prefetch is None:
        return []
    stages = stage.prefetch if isinstance(stage.prefetch, list) else [stage.prefetch]
    return [_prefetch(inner, resolver) for inner in stages]


def _prefetch(stage: Stage, resolver: ResolverOf) -> edge.Prefetch:
    query, filter_ = _scoring(stage, resolver)
    return edge.Prefetch(
        limit=limit_of(stage.limit),
        query=query,
        prefetches=_prefetches(stage, resolver),
        params=to_params(stage.params),
        filter=filter_,
        score_threshold=stage.score_threshold,
    )


def _scoring(stage: Stage, resolver: ResolverOf) -> tuple[Any, edge.Filter | None]:
    """Return the engine's query and a filter that excludes the points used as examples."""
    filter_, query, using = to_filter(stage.filter), stage.query, stage.using or DEFAULT
    if query is None:
        return None, filter_
    resolve, own = resolver(stage.lookup_from, using)
    examples = Examples(resolve, using)
    if not isinstance(query, Query):
        scoring: Any = examples.nearest(query)
    elif query.indices is not None or query.values is not None:
        scoring = examples.nearest({"indices": query.indices, "values": query.values})
    else:
        scoring = _object(query, examples, stage)
    return scoring, excluding(filter_, examples.seen) if own else filter_


def _object(query: Query, examples: Examples, stage: Stage) -> Any:
    if query.nearest is not None:
        if query.mmr is None:
            return examples.nearest(query.nearest)
        diversity = DEFAULT_DIVERSITY if query.mmr.diversity is None else query.mmr.diversity
        candidates = query.mmr.candidates_limit or limit_of(stage.limit)
        return edge.Mmr(examples.vector(query.nearest), 1.0 - diversity, candidates, examples.using)
    for part, convert in (
        (query.recommend, examples.recommend),
        (query.discover, examples.discover),
        (query.context, examples.context),
        (query.relevance_feedback, examples.feedback),
        (query.order_by, to_order),
        (query.fusion, _fusion),
        (query.rrf, _rrf),
        (query.sample, _sample),
    ):
        if part is not None:
            return convert(part)  # pyright: ignore[reportArgumentType] each field is paired with its own converter
    if query.formula is not None:
        return to_formula(query.formula, query.defaults)
    if query.text is not None:
        text = query.text if isinstance(query.text, str) else query.text["query"]
        return edge.TextQuery(examples.using, text)
    raise format_error("unknown kind of query")


def _fusion(name: str) -> Any:
    if name == "rrf":
        return edge.Fusion.Rrf(k=DEFAULT_RRF_K)
    if name == "dbsf":
        return edge.Fusion.Dbsf()
    raise format_error(f"unknown fusion {name}, expected rrf or dbsf")


def _rrf(rrf: Rrf) -> Any:
    return edge.Fusion.Rrf(k=DEFAULT_RRF_K if rrf.k is None else rrf.k, weights=rrf.weights)


def _sample(name: str) -> Any:
    if name != "random":
        raise wrong_input(f"unknown sample {name}, expected random")
    return edge.Sample.Random
