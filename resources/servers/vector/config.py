"""Collection configuration: convert Qdrant's create body to the engine's `EdgeConfig` and the layout of the vectors.

The body is stored as received; `GET /collections/{name}` returns it with the engine's defaults filled in.
Source: https://api.qdrant.tech/api-reference/collections/create-collection
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import format_error, wrong_input
from resources.servers.vector.vectors import DEFAULT, Layout

T = TypeVar("T")
# Number of points from which a quantized collection gets a graph: below, scanning all int8 vectors is as fast and exact.
HNSW_FROM = 200_000
_MEMORY = {"cold": edge.Memory.Cold, "cached": edge.Memory.Cached, "pinned": edge.Memory.Pinned}
_DISTANCES = {
    "Cosine": edge.Distance.Cosine,
    "Euclid": edge.Distance.Euclid,
    "Dot": edge.Distance.Dot,
    "Manhattan": edge.Distance.Manhattan,
}
_DATATYPES = {
    "float32": edge.VectorStorageDatatype.Float32,
    "float16": edge.VectorStorageDatatype.Float16,
    "uint8": edge.VectorStorageDatatype.Uint8,
}
_RATIOS = {f"x{n}": getattr(edge.CompressionRatio, f"X{n}") for n in (4, 8, 16, 32, 64)}
_ENCODINGS = {
    "one_bit": edge.BinaryQuantizationEncoding.OneBit,
    "two_bits": edge.BinaryQuantizationEncoding.TwoBits,
    "one_and_half_bits": edge.BinaryQuantizationEncoding.OneAndHalfBits,
}
_QUERY_ENCODINGS = {
    "default": edge.BinaryQuantizationQueryEncoding.Default,
    "binary": edge.BinaryQuantizationQueryEncoding.Binary,
    "scalar4bits": edge.BinaryQuantizationQueryEncoding.Scalar4Bits,
    "scalar8bits": edge.BinaryQuantizationQueryEncoding.Scalar8Bits,
}
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


class Hnsw(msgspec.Struct, forbid_unknown_fields=True):
    """HNSW parameters; missing ones take the default."""

    m: int | None = None
    ef_construct: int | None = None
    full_scan_threshold: int | None = None
    max_indexing_threads: int | None = None
    on_disk: bool | None = None
    payload_m: int | None = None
    inline_storage: bool | None = None
    memory: str | None = None


class QuantizationParams(msgspec.Struct, forbid_unknown_fields=True):
    """Fields of the scalar, product and binary kinds."""

    type: str | None = None
    quantile: float | None = None
    compression: str | None = None
    encoding: str | None = None
    query_encoding: str | None = None
    always_ram: bool | None = None
    memory: str | None = None


class Quantization(msgspec.Struct, forbid_unknown_fields=True):
    """Exactly one kind."""

    scalar: QuantizationParams | None = None
    product: QuantizationParams | None = None
    binary: QuantizationParams | None = None


class Multivector(msgspec.Struct, forbid_unknown_fields=True):
    """Several vectors per point under one name."""

    comparator: str


class VectorParams(msgspec.Struct, forbid_unknown_fields=True):
    """A dense vector."""

    size: int
    distance: str
    hnsw_config: Hnsw | None = None
    quantization_config: Quantization | None = None
    on_disk: bool | None = None
    memory: str | None = None
    datatype: str | None = None
    multivector_config: Multivector | None = None


class SparseIndex(msgspec.Struct, forbid_unknown_fields=True):
    """The inverted index of a sparse vector."""

    full_scan_threshold: int | None = None
    on_disk: bool | None = None
    memory: str | None = None
    datatype: str | None = None


class SparseParams(msgspec.Struct, forbid_unknown_fields=True):
    """A sparse vector; `modifier: idf` makes scores BM25."""

    index: SparseIndex | None = None
    modifier: str | None = None


class Optimizers(msgspec.Struct):
    """The optimizer settings that the engine supports; the others concern servers with shards."""

    deleted_threshold: float | None = None
    vacuum_min_vector_number: int | None = None
    default_segment_number: int | None = None
    max_segment_size: int | None = None
    indexing_threshold: int | None = None


class Placement(msgspec.Struct):
    """Storage placement of a part."""

    memory: str | None = None


class Create(msgspec.Struct):
    """The create body. Cluster settings (shards, replicas) are accepted and have no effect here."""

    vectors: dict[str, Any] | None = None
    sparse_vectors: dict[str, SparseParams] | None = None
    on_disk_payload: bool | None = None
    payload: Placement | None = None
    id_tracker: Placement | None = None
    hnsw_config: Hnsw | None = None
    optimizers_config: Optimizers | None = None
    quantization_config: Quantization | None = None
    metadata: dict[str, Any] | None = None


def to_config(body: dict[str, Any]) -> tuple[edge.EdgeConfig, Layout]:
    """Return the engine's configuration, and the names and sizes that requests are validated against."""
    create = msgspec.convert(body, Create)
    dense = _dense(create)
    sparse = create.sparse_vectors or {}
    layout = Layout(
        dense={name: params.size for name, params in dense.items()},
        multi=frozenset(name for name, params in dense.items() if params.multivector_config),
        sparse=frozenset(sparse),
    )
    optimizers = create.optimizers_config
    config = edge.EdgeConfig(
        vectors={name: _vector(params) for name, params in dense.items()},
        sparse_vectors={name: _sparse(params) for name, params in sparse.items()},
        on_disk_payload=create.on_disk_payload,
        hnsw_config=_hnsw(create.hnsw_config),
        quantization_config=_quantization(create.quantization_config),
        optimizers=edge.EdgeOptimizersConfig(**msgspec.structs.asdict(optimizers)) if optimizers else None,
        payload_memory=_memory(create.payload.memory) if create.payload else None,
        id_tracker_memory=_memory(create.id_tracker.memory) if create.id_tracker else None,
        wal_enabled=True,
    )
    return config, layout


def merge(body: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Return the create body after `PATCH /collections/{name}`: objects are merged by key, null and other values replace."""
    merged = dict(body)
    for name, value in patch.items():
        old = merged.get(name)
        merged[name] = merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def apply_patch(body: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    """Apply a patch to the places where the create body keeps the same settings."""
    patch = {name: value for name, value in patch.items() if value is not None and name != "strict_mode_config"}
    params = patch.pop("params", None) or {}
    if patch.get("quantization_config") == "Disabled":
        patch["quantization_config"] = None
    vectors = patch.get("vectors")
    if isinstance(vectors, dict) and set(vectors) == {DEFAULT} and "size" in (body.get("vectors") or {}):
        patch["vectors"] = vectors[DEFAULT]
    return merge(merge(body, params), patch)


def describe(body: dict[str, Any]) -> dict[str, Any]:
    """Return the `config` part of a collection's info."""
    params = {
        "vectors": body.get("vectors") or {},
        "shard_number": 1,
        "replication_factor": 1,
        "write_consistency_factor": 1,
        "on_disk_payload": True if body.get("on_disk_payload") is None else body["on_disk_payload"],
    }
    if body.get("sparse_vectors"):
        params["sparse_vectors"] = body["sparse_vectors"]
    return {
        "params": params,
        "hnsw_config": HNSW_DEFAULTS | _given(body.get("hnsw_config")),
        "optimizer_config": OPTIMIZER_DEFAULTS | _given(body.get("optimizers_config")),
        "wal_config": {"wal_capacity_mb": 32, "wal_segments_ahead": 0},
        "quantization_config": body.get("quantization_config"),
        "metadata": body.get("metadata"),
    }


def has_graph(config: dict[str, Any], points: int) -> bool:
    """Return True if a collection of this size is compacted with an HNSW graph."""
    return not config.get("quantization_config") or bool(config.get("hnsw_config")) or points >= HNSW_FROM


def pick(choices: dict[str, T], value: str | None, field: str) -> T | None:
    """Return the engine's value for a name; 400 listing the allowed ones for any other."""
    if value is None:
        return None
    if value not in choices:
        raise format_error(f"{field}: unknown variant `{value}`, expected one of {', '.join(choices)}")
    return choices[value]


def _given(settings: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (settings or {}).items() if value is not None}


def _memory(value: str | None) -> edge.Memory | None:
    return pick(_MEMORY, value, "memory")


def _dense(create: Create) -> dict[str, VectorParams]:
    vectors = create.vectors or {}
    if isinstance(vectors.get("size"), int):
        vectors = {DEFAULT: vectors}
    dense = msgspec.convert(vectors, dict[str, VectorParams])
    if not dense and not create.sparse_vectors:
        return {}
    for name, params in dense.items():
        if not 1 <= params.size <= 65_536:
            raise wrong_input(f"vectors.{name}.size: value {params.size} invalid, must be from 1 to 65536")
    return dense


def _vector(params: VectorParams) -> edge.EdgeVectorParams:
    distance = pick(_DISTANCES, params.distance, "distance")
    if distance is None:
        raise format_error("missing field `distance`")
    return edge.EdgeVectorParams(
        size=params.size,
        distance=distance,
        on_disk=params.on_disk,
        multivector_config=edge.MultiVectorConfig(edge.MultiVectorComparator.MaxSim)
        if params.multivector_config
        else None,
        datatype=pick(_DATATYPES, params.datatype, "datatype"),
        quantization_config=_quantization(params.quantization_config),
        hnsw_config=_hnsw(params.hnsw_config),
        memory=_memory(params.memory),
    )


def _sparse(params: SparseParams) -> edge.EdgeSparseVectorParams:
    index = params.index or SparseIndex()
    return edge.EdgeSparseVectorParams(
        full_scan_threshold=index.full_scan_threshold,
        on_disk=index.on_disk,
        modifier=pick({"idf": edge.Modifier.Idf, "none": None}, params.modifier, "modifier"),
        datatype=pick(_DATATYPES, index.datatype, "datatype"),
        memory=_memory(index.memory),
    )


def _hnsw(params: Hnsw | None) -> edge.HnswIndexConfig | None:
    if params is None:
        return None
    given: dict[str, Any] = _given(msgspec.structs.asdict(params))
    if "memory" in given:
        given["memory"] = _memory(params.memory)
    return edge.HnswIndexConfig(**(HNSW_DEFAULTS | given))


def _quantization(config: Quantization | None) -> Any:
    if config is None:
        return None
    if config.scalar is not None:
        scalar = config.scalar
        kind = pick({"int8": edge.ScalarType.Int8}, scalar.type, "type") or edge.ScalarType.Int8
        return edge.ScalarQuantizationConfig(kind, scalar.quantile, scalar.always_ram, _memory(scalar.memory))
    if config.product is not None:
        product = config.product
        ratio = pick(_RATIOS, product.compression, "compression") or edge.CompressionRatio.X16
        return edge.ProductQuantizationConfig(ratio, product.always_ram, _memory(product.memory))
    if config.binary is not None:
        binary = config.binary
        encoding = pick(_ENCODINGS, binary.encoding, "encoding")
        query_encoding = pick(_QUERY_ENCODINGS, binary.query_encoding, "query_encoding")
        return edge.BinaryQuantizationConfig(binary.always_ram, encoding, query_encoding, _memory(binary.memory))
    raise format_error("quantization_config needs one of scalar, product, binary")
