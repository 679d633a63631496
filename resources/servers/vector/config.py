"""Collection configuration: convert Qdrant's create body to the engine's `EdgeConfig` and the layout of the vectors.

The body is stored as received; `GET /collections/{name}` returns it with the engine's defaults filled in.
Source: https://api.qdrant.tech/api-reference/collections/create-collection
"""

from typing import Any, Literal

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import validation_error
from resources.servers.vector.vectors import DEFAULT, Layout

# Source: https://qdrant.tech/documentation/concepts/indexing/#vector-index
HNSW_DEFAULTS: dict[str, Any] = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000, "max_indexing_threads": 0}
# Source: https://qdrant.tech/documentation/concepts/optimizer/
OPTIMIZER_DEFAULTS: dict[str, Any] = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "indexing_threshold": 10_000,
    "flush_interval_sec": 5,
}

SEARCH_THREADS = 1
"""Threads that a collection searches with. By default the engine starts eight on two cores, which are busy waiting for work."""


class Hnsw(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """HNSW parameters; missing ones take the default."""

    m: int | None = None
    ef_construct: int | None = None
    full_scan_threshold: int | None = None
    max_indexing_threads: int | None = None
    on_disk: bool | None = None


class ScalarParams(msgspec.Struct, forbid_unknown_fields=True):
    """Vectors as bytes."""

    type: Literal["int8"] = "int8"
    quantile: float | None = None
    always_ram: bool | None = None


class QuantizationConfig(msgspec.Struct, forbid_unknown_fields=True):
    scalar: ScalarParams


class VectorParams(msgspec.Struct, forbid_unknown_fields=True):
    size: int
    distance: Literal["Cosine", "Euclid", "Dot", "Manhattan"]
    hnsw_config: Hnsw | None = None
    quantization_config: QuantizationConfig | None = None
    on_disk: bool | None = None


class SparseIndex(msgspec.Struct, forbid_unknown_fields=True):
    full_scan_threshold: int | None = None
    on_disk: bool | None = None


class SparseParams(msgspec.Struct, forbid_unknown_fields=True):
    """A sparse vector; `modifier: idf` makes scores BM25."""

    index: SparseIndex | None = None
    modifier: Literal["idf", "none"] | None = None


class Optimizers(msgspec.Struct):
    """The optimizer settings that the engine supports; the others concern servers with shards."""

    deleted_threshold: float | None = None
    vacuum_min_vector_number: int | None = None
    default_segment_number: int | None = None
    max_segment_size: int | None = None
    indexing_threshold: int | None = None


class Create(msgspec.Struct):
    """The create body. Cluster settings (shards, replicas) are accepted and have no effect here."""

    vectors: dict[str, Any] | None = None
    sparse_vectors: dict[str, SparseParams] | None = None
    on_disk_payload: bool | None = None
    hnsw_config: Hnsw | None = None
    optimizers_config: Optimizers | None = None
    quantization_config: QuantizationConfig | None = None
    metadata: dict[str, Any] | None = None


class Patch(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    hnsw_config: Hnsw | None = None
    optimizers_config: Optimizers | None = None
    quantization_config: QuantizationConfig | str | None = None
    metadata: dict[str, Any] | None = None


def to_config(body: dict[str, Any]) -> tuple[edge.EdgeConfig, Layout]:
    """Return the engine's configuration, and the names and sizes that requests are validated against."""
    create = msgspec.convert(body, Create)
    vectors = create.vectors or {}
    dense = msgspec.convert(
        {DEFAULT: vectors} if isinstance(vectors.get("size"), int) else vectors, dict[str, VectorParams]
    )
    sparse = create.sparse_vectors or {}
    optimizers = create.optimizers_config
    config = edge.EdgeConfig(
        vectors={name: _vector(name, params) for name, params in dense.items()},
        sparse_vectors={name: _sparse(params) for name, params in sparse.items()},
        on_disk_payload=create.on_disk_payload,
        hnsw_config=_hnsw(create.hnsw_config),
        quantization_config=_quantization(create.quantization_config),
        optimizers=edge.EdgeOptimizersConfig(**msgspec.structs.asdict(optimizers)) if optimizers else None,
        max_search_threads=SEARCH_THREADS,
        wal_enabled=True,
    )
    return config, Layout({name: params.size for name, params in dense.items()}, frozenset(sparse))


def apply_patch(body: dict[str, Any], patch: Patch) -> dict[str, Any]:
    """Return the create body with a patch merged in; `Disabled` removes the quantization."""
    merged = dict(body)
    for name, value in msgspec.to_builtins(patch).items():
        merged[name] = {**(merged.get(name) or {}), **value} if isinstance(value, dict) else None
    return merged


def describe(body: dict[str, Any]) -> dict[str, Any]:
    """Return the `config` part of a collection's info."""
    params: dict[str, Any] = {
        "vectors": body.get("vectors") or {},
        "shard_number": 1,
        "replication_factor": 1,
        "write_consistency_factor": 1,
        "on_disk_payload": True if body.get("on_disk_payload") is None else body["on_disk_payload"],
    }
    if body.get("sparse_vectors"):
        params["sparse_vectors"] = body["sparse_vectors"]
    described: dict[str, Any] = {
        "params": params,
        "hnsw_config": HNSW_DEFAULTS | _given(body.get("hnsw_config")),
        "optimizer_config": OPTIMIZER_DEFAULTS | _given(body.get("optimizers_config")),
        "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
        "quantization_config": body.get("quantization_config"),
    }
    return described | ({"metadata": body["metadata"]} if body.get("metadata") else {})


def has_graph(config: dict[str, Any], points: int, graph_from: int) -> bool:
    """Return True if a collection of this size is compacted with an HNSW graph."""
    return not config.get("quantization_config") or bool(config.get("hnsw_config")) or points >= graph_from


def graph_config(config: dict[str, Any], *, graph: bool) -> dict[str, Any]:
    """Return the create body with the graph's parameters spelled out: the engine keeps those of the last compaction for missing ones."""
    return config | {"hnsw_config": HNSW_DEFAULTS | _given(config.get("hnsw_config")) if graph else {"m": 0}}


def _given(settings: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (settings or {}).items() if value is not None}


def _vector(name: str, params: VectorParams) -> edge.EdgeVectorParams:
    if not 1 <= params.size <= 65_536:
        raise validation_error(f"[vectors.{name}.size: value {params.size} invalid, must be from 1 to 65536]")
    return edge.EdgeVectorParams(
        size=params.size,
        distance=getattr(edge.Distance, params.distance),
        on_disk=params.on_disk,
        quantization_config=_quantization(params.quantization_config),
        hnsw_config=_hnsw(params.hnsw_config),
    )


def _sparse(params: SparseParams) -> edge.EdgeSparseVectorParams:
    index = params.index or SparseIndex()
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.full_scan_threshold,
        on_disk=index.on_disk,
        modifier=edge.Modifier.Idf if params.modifier == "idf" else None,
    )


def _hnsw(params: Hnsw | None) -> edge.HnswIndexConfig | None:
    return edge.HnswIndexConfig(**(HNSW_DEFAULTS | msgspec.to_builtins(params))) if params else None


def _quantization(config: QuantizationConfig | None) -> Any:
    if config is None:
        return None
    return edge.ScalarQuantizationConfig(edge.ScalarType.Int8, config.scalar.quantile, config.scalar.always_ram)
