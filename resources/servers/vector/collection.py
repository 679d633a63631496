"""One collection: its engine shard, its metadata, its write lock and the journal that compaction replays.

Reads call the engine straight from the event loop: each call holds the GIL, so a thread would gain nothing. Writes take the
collection's lock, have a thread (`writing`), and are acknowledged once they are in the engine's write-ahead log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import qdrant_edge as edge

from resources.core.durable import write_atomic
from resources.servers.vector.config import Patch, apply_patch, describe, has_graph, to_config
from resources.servers.vector.faults import RequestError, converting, engine, not_found
from resources.servers.vector.files import remove_folder
from resources.servers.vector.payload_index import to_schema, type_name
from resources.servers.vector.updates import PIECE, Update
from resources.servers.vector.vectors import PointId
from resources.servers.vector.writing import in_writing_thread

METADATA = "collection.json"


class CollectionMetadata(msgspec.Struct, frozen=True):
    """State that the engine does not keep. `shard` is the current folder: replacing this file makes a swap atomic."""

    config: dict[str, Any]
    schema: dict[str, str | dict[str, Any]] = {}
    shard: str = "shard-1"
    # Number of points at the last compaction, to decide when the next is worthwhile.
    compacted: int = 0


class VectorCollection:
    """An open collection. Use `create` or `load` to get one."""

    def __init__(
        self, name: str, folder: Path, metadata: CollectionMetadata, shard: edge.EdgeShard, graph_from: int
    ) -> None:
        self.name = name
        self.folder = folder
        self.graph_from = graph_from
        self.metadata = metadata
        self.shard = shard
        self.layout = to_config(metadata.config)[1]
        self.writing = asyncio.Lock()
        # Each write since a compaction began, and whether the engine accepted it: the replay must end in the same state.
        self.journal: list[tuple[edge.UpdateOperation, bool]] | None = None
        self.compacting = False
        self.rests_until = 0.0  # time.monotonic()
        self.written = 0
        self.closed = False
        self._unflushed = 0
        self._operations = 0

    @classmethod
    def create(cls, name: str, folder: Path, body: dict[str, Any], graph_from: int) -> VectorCollection:
        """Create a new, empty collection. Leftovers of a failed create in `folder` are removed first."""
        with converting():
            config, _ = to_config(body)
        remove_folder(folder)
        folder.mkdir(parents=True)
        metadata = CollectionMetadata(config=body)
        try:
            with engine():
                shard = edge.EdgeShard.create(str(folder / metadata.shard), config)
        except RequestError:
            remove_folder(folder)
            raise
        shard.flush()
        write_atomic(folder / METADATA, msgspec.json.encode(metadata))
        return cls(name, folder, metadata, shard, graph_from)

    @classmethod
    def load(cls, name: str, folder: Path, graph_from: int) -> VectorCollection:
        """Open an existing collection; folders of unfinished swaps are removed."""
        metadata = msgspec.json.decode((folder / METADATA).read_bytes(), type=CollectionMetadata)
        for entry in folder.iterdir():
            if entry.is_dir() and entry.name != metadata.shard:
                remove_folder(entry)
        config, _ = to_config(metadata.config)
        with engine():
            shard = edge.EdgeShard.load(str(folder / metadata.shard), config)
        return cls(name, folder, metadata, shard, graph_from)

    async def apply(self, updates: Iterable[Update]) -> dict[str, Any]:
        """Apply validated updates in order; the points that they need are looked up before the first is applied."""
        async with self.writing:
            self.check_open()
            batch = list(updates)
            self._check_existing(batch)
            for update in batch:
                await self._apply(update)
            # Before the response, so that a large request is on disk once it is acknowledged.
            if self._unflushed >= PIECE:
                self.flush()
        self._operations += 1
        return {"operation_id": self._operations, "status": "completed"}

    def flush(self) -> None:
        """Write pending changes to disk; afterwards a restart replays nothing."""
        if self._unflushed and not self.closed:
            self.shard.flush()
            self._unflushed = 0

    def close(self) -> None:
        """Flush and release the shard; later requests get a 404."""
        if not self.closed:
            self.flush()
            self.closed = True
            self.shard.close()

    @property
    def graph(self) -> bool:
        """True if the last compaction built an HNSW graph."""
        compacted = self.metadata.compacted
        return bool(compacted) and has_graph(self.metadata.config, compacted, self.graph_from)

    def check_open(self) -> None:
        """Raise a 404 for a request that waited while the collection was deleted."""
        if self.closed:
            raise not_found(f"Collection `{self.name}` doesn't exist!")

    def vector_of(self, point_id: PointId, name: str) -> Any:
        with engine():
            found = self.shard.retrieve([point_id], with_payload=False, with_vector=[name])
        if not found:
            raise not_found(f"No point with id {point_id} found")
        vectors = found[0].vector
        vector = vectors.get(name) if isinstance(vectors, dict) else vectors
        if vector is None:
            raise not_found(f"Vector with name `{name}` of point {point_id} not found")
        return vector

    async def create_index(self, field: str, schema: str | dict[str, Any]) -> dict[str, Any]:
        with converting():
            operation = edge.UpdateOperation.create_field_index(field, to_schema(schema))
        result = await self.apply([Update(operation)])
        self.save(msgspec.structs.replace(self.metadata, schema={**self.metadata.schema, field: schema}))
        return result

    async def delete_index(self, field: str) -> dict[str, Any]:
        """Drop a field's index; a missing one is not an error."""
        with converting():
            operation = edge.UpdateOperation.delete_field_index(field)
        result = await self.apply([Update(operation)])
        schema = {name: kept for name, kept in self.metadata.schema.items() if name != field}
        self.save(msgspec.structs.replace(self.metadata, schema=schema))
        return result

    async def patch(self, patch: Patch) -> None:
        """Change the configuration: close the shard and reopen it with the new one, or with the old one if that fails."""
        with converting():
            body = apply_patch(self.metadata.config, patch)
            config, _ = to_config(body)
        path = str(self.folder / self.metadata.shard)
        async with self.writing:
            self.check_open()
            self.shard.flush()
            self.shard.close()
            try:
                with engine():
                    self.shard = edge.EdgeShard.load(path, config)
            except RequestError:
                self.shard = edge.EdgeShard.load(path)
                raise
            # compacted=0: existing data has the old layout until it is compacted again
            self.save(msgspec.structs.replace(self.metadata, config=body, compacted=0))

    def save(self, metadata: CollectionMetadata) -> None:
        """Make new metadata durable, then use it."""
        write_atomic(self.folder / METADATA, msgspec.json.encode(metadata))
        self.metadata = metadata
        self.layout = to_config(metadata.config)[1]

    def adopt(self, shard: edge.EdgeShard, metadata: CollectionMetadata) -> None:
        """Switch to another shard folder. Replacing the metadata file is the commit point, on disk and in memory."""
        old_shard, old_folder = self.shard, self.folder / self.metadata.shard
        self.save(metadata)
        self.shard = shard
        self._unflushed = 0
        old_shard.close()
        remove_folder(old_folder)

    def next_shard(self) -> str:
        return f"shard-{int(self.metadata.shard.rpartition('-')[2]) + 1}"

    def info(self) -> dict[str, Any]:
        with engine():
            info = self.shard.info()
        schema: dict[str, Any] = {}
        for field, index in info.payload_schema.items():
            schema[field] = {"data_type": type_name(index.data_type), "points": index.points}
            params = self.metadata.schema.get(field)
            if isinstance(params, dict):
                schema[field]["params"] = params
        return {
            "status": "yellow" if self.compacting else "green",
            "optimizer_status": "ok",
            "indexed_vectors_count": info.indexed_vectors_count,
            "points_count": info.points_count,
            "segments_count": info.segments_count,
            "config": describe(self.metadata.config),
            "payload_schema": schema,
        }

    def _check_existing(self, batch: list[Update]) -> None:
        made: set[PointId] = set()
        for update in batch:
            missing: list[Any] = list(update.needs - made)
            if missing:
                with engine():
                    found = {_plain(record.id) for record in self.shard.retrieve(missing, False, False)}
                for point_id in missing:
                    if point_id not in found:
                        raise not_found(f"No point with id {point_id} found")
            made |= update.creates

    async def _apply(self, update: Update) -> None:
        taken = False
        try:
            with engine():
                await in_writing_thread(partial(self.shard.update, update.operation))
            taken = True
        finally:
            self._unflushed += update.points
            self.written += update.points
            if self.journal is not None:
                self.journal.append((update.operation, taken))


def _plain(point_id: Any) -> PointId:
    return point_id if isinstance(point_id, int) else str(point_id)
