"""Validate the vectors and ids of a request against the collection's configuration and convert them to the engine's types.

The engine applies a batch point by point and accepts NaN and repeated sparse indices, so everything is validated before
anything is applied: an invalid batch has no effect.
"""

from collections.abc import Iterable, Mapping
from math import hypot
from typing import Any, cast
from uuid import UUID

import msgspec
import qdrant_edge as edge

from resources.servers.vector.faults import RequestError, format_error, validation_error, wrong_input

PointId = int | str
Dense = list[float]
DEFAULT = ""
# Vectors are stored as 32-bit floats: a larger length overflows to infinity when squared and summed.
_LONGEST = 1.8e19
_MAX_ID = 2**64 - 1
_MAX_INDEX = 2**32 - 1


class Sparse(msgspec.Struct, forbid_unknown_fields=True):
    """Indices with their values, in any order."""

    indices: list[int]
    values: list[float]


class Layout(msgspec.Struct, frozen=True):
    """A collection's vectors: dimensions of the dense ones and names of the sparse ones."""

    dense: dict[str, int]
    sparse: frozenset[str]


Vector = Dense | Sparse
VectorStruct = Dense | dict[str, Vector]


def check_id(point_id: PointId) -> PointId:
    """Return the id; 400 unless it is an unsigned 64-bit integer or a UUID."""
    if isinstance(point_id, int):
        if 0 <= point_id <= _MAX_ID:
            return point_id
    else:
        try:
            return str(UUID(point_id))
        except ValueError:
            pass
    raise format_error(
        f"value {point_id} is not a valid point ID, valid values are either an unsigned integer or a UUID"
    )


def check_ids(point_ids: Iterable[PointId]) -> list[Any]:
    """Return the validated ids in a list of the element type that the engine's stubs require."""
    return [check_id(point_id) for point_id in point_ids]


def to_vector(layout: Layout, name: str, vector: Vector) -> Any:
    if isinstance(vector, Sparse):
        if name not in layout.sparse:
            raise _mismatch(layout, name, "sparse")
        return to_sparse(vector)
    size = layout.dense.get(name)
    if size is None:
        raise _mismatch(layout, name, "dense")
    if len(vector) != size:
        raise wrong_input(f"Vector dimension error: expected dim: {size}, got {len(vector)}")
    _check_finite(vector)
    return vector


def to_named(layout: Layout, vectors: VectorStruct) -> Any:
    """Convert all vectors of a point; a bare list is the unnamed vector."""
    if not isinstance(vectors, dict):
        return to_vector(layout, DEFAULT, vectors)
    return {name: to_vector(layout, name, vector) for name, vector in vectors.items()}


def to_sparse(vector: Sparse) -> edge.SparseVector:
    """Convert a sparse vector after checking that it has as many values as indices, unique indices and finite values."""
    indices, values = vector.indices, vector.values
    if len(indices) != len(values):
        raise validation_error(f"[indices: {len(indices)} indices and {len(values)} values must have the same length]")
    if len(set(indices)) != len(indices):
        raise validation_error("[indices: must be unique]")
    if indices and (min(indices) < 0 or max(indices) > _MAX_INDEX):
        raise format_error("a sparse index must fit an unsigned 32-bit integer")
    _check_finite(values)
    return edge.SparseVector(indices, values)


def from_vectors(vectors: Any) -> Any:
    """Return stored vectors in response format: sparse ones as an object, a single unnamed one bare."""
    if not isinstance(vectors, Mapping):
        return vectors
    named: dict[str, Any] = {
        name: {"indices": vector.indices, "values": vector.values} if isinstance(vector, edge.SparseVector) else vector
        for name, vector in cast("Mapping[str, Any]", vectors).items()
    }
    return named[DEFAULT] if len(named) == 1 and DEFAULT in named else named


def _check_finite(values: list[float]) -> None:
    # One C call for the whole vector; false for NaN and infinity alike.
    if not hypot(*values) < _LONGEST:
        raise wrong_input("a vector must hold finite 32-bit numbers")


def _mismatch(layout: Layout, name: str, kind: str) -> RequestError:
    if name not in layout.dense and name not in layout.sparse:
        return wrong_input(f"Not existing vector name error: {name}")
    return wrong_input(f"Conversion between sparse and regular vectors failed: `{name}` is not a {kind} vector")
