"""Grouped queries: the best points for each value of a payload field.

The engine has no grouping, so ever more of the ranked list is read until enough groups are full. The result is exact.
"""

from __future__ import annotations

from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.collection import Collection
from resources.servers.vector.faults import bad_request
from resources.servers.vector.queries import QueryBody, limit_of
from resources.servers.vector.reads import Retrieve as RetrieveBody
from resources.servers.vector.reads import WithPayload, WithVector, query_batch, retrieve, to_scored
from resources.servers.vector.store import Store

DEFAULT_GROUP_SIZE = 3
_FIRST_DEPTH = 4
_DEEPER = 4


class WithLookup(msgspec.Struct):
    """Attach the point of another collection whose id equals the group's."""

    collection: str
    with_payload: WithPayload = None
    with_vectors: WithVector = None


class GroupsBody(QueryBody, kw_only=True):
    """The body of `/points/query/groups`; `limit` counts groups."""

    group_by: str
    group_size: int | None = None
    with_lookup: str | WithLookup | None = None


def query_groups(store: Store, collection: Collection, body: GroupsBody) -> dict[str, Any]:
    """Return groups ordered by their best point; points without the field are left out, and a list puts a point in several groups."""
    wanted = limit_of(body.limit)
    size = DEFAULT_GROUP_SIZE if body.group_size is None else body.group_size
    if size < 1:
        raise bad_request("group_size must be 1 or larger")
    depth = wanted * size * _FIRST_DEPTH
    while True:
        ids = msgspec.structs.replace(body, limit=depth, offset=0, with_payload=[body.group_by], with_vector=False)
        [points] = query_batch(store, collection, [ids])
        groups = _gather(points, body.group_by, wanted, size)
        full = len(groups) == wanted and all(len(group) == size for group in groups.values())
        if full or len(points) < depth:
            break
        depth *= _DEEPER
    return {"groups": _present(store, collection, body, groups)}


def _gather(points: list[edge.ScoredPoint], path: str, wanted: int, size: int) -> dict[Any, list[edge.ScoredPoint]]:
    groups: dict[Any, list[edge.ScoredPoint]] = {}
    for point in points:
        for value in _values(point.payload, path.replace("[]", "").split(".")):
            if value not in groups and len(groups) == wanted:
                continue
            group = groups.setdefault(value, [])
            if len(group) < size:
                group.append(point)
    return groups


def _values(payload: Any, path: list[str]) -> list[int | str]:
    """Return the distinct values at the path, strings and integers only."""
    found = [payload]
    for name in path:
        found = [item.get(name) for item in _flat(found) if isinstance(item, dict)]
    return list(
        dict.fromkeys(value for value in _flat(found) if isinstance(value, int | str) and not isinstance(value, bool))
    )


def _flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in (value if isinstance(value, list) else [value])]


def _present(
    store: Store, collection: Collection, body: GroupsBody, groups: dict[Any, list[edge.ScoredPoint]]
) -> list[dict[str, Any]]:
    ids = list({str(point.id): point.id for group in groups.values() for point in group}.values())
    wanted = RetrieveBody(
        [i if isinstance(i, int) else str(i) for i in ids], body.with_payload or False, body.with_vector
    )
    full = {str(record["id"]): record for record in retrieve(collection, wanted)}
    lookup = WithLookup(body.with_lookup) if isinstance(body.with_lookup, str) else body.with_lookup
    presented: list[dict[str, Any]] = []
    for value, points in groups.items():
        hits = [to_scored(point) | {"payload": None} | full[str(point.id)] for point in points]
        group: dict[str, Any] = {"id": value, "hits": hits}
        if lookup is not None:
            request = RetrieveBody([value], lookup.with_payload, lookup.with_vectors)
            group["lookup"] = next(iter(retrieve(store.get(lookup.collection), request)), None)
        presented.append(group)
    return presented
