"""Snapshots: export a collection as one archive and restore it.

The archive is a gzipped tar of `collection.json` and the shard's folder, copied after a flush while writes wait. Restoring
extracts next to the collection, opens the result to verify it, and then swaps it in as compaction does.
"""

from __future__ import annotations

import asyncio
import hashlib
import tarfile
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector.collection import METADATA, Collection, Metadata
from resources.servers.vector.config import to_config
from resources.servers.vector.faults import bad_request, converting, engine, not_found
from resources.servers.vector.files import check_name, copy_folder, folder_name, sync_folder, sync_tree, write_atomic
from resources.servers.vector.store import Store

SUFFIX = ".snapshot"
_SHARD = "shard"
# Level 1: vectors hardly compress, and the holes of preallocated files vanish at any level.
_LEVEL = 1


def folder_of(store: Store, collection: str) -> Path:
    """Return the folder of a collection's snapshots; they outlive the collection."""
    return store.snapshots / folder_name(collection)


def describe(path: Path) -> dict[str, Any]:
    """Return name, size and time of a snapshot, with the checksum once it is known."""
    status = path.stat()
    checksum = path.with_suffix(".checksum")
    return {
        "name": path.name,
        "creation_time": datetime.fromtimestamp(status.st_mtime, UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "size": status.st_size,
        "checksum": checksum.read_text() if checksum.is_file() else None,
    }


def listed(store: Store, name: str) -> list[dict[str, Any]]:
    """Return the snapshots of a collection, oldest first."""
    return [describe(path) for path in sorted(folder_of(store, name).glob(f"*{SUFFIX}"))]


def find(store: Store, collection: str, name: str) -> Path:
    """Return the file of a snapshot; 404 if there is none."""
    path = folder_of(store, collection) / name
    if Path(name).name != name or path.suffix != SUFFIX or not path.is_file():
        raise not_found(f"Snapshot {name} not found")
    return path


async def create(store: Store, collection: Collection) -> dict[str, Any]:
    """Archive a collection; writes wait only while its folder is copied."""
    folder = folder_of(store, collection.name)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%d-%H-%M-%S-%f")
    target = folder / f"{folder_name(collection.name)}-{stamp}{SUFFIX}"
    with tempfile.TemporaryDirectory(dir=folder, prefix="making-") as temporary:
        content = Path(temporary)
        async with collection.writing:
            collection.check_open()
            collection.flush()
            metadata = msgspec.structs.replace(collection.metadata, shard=_SHARD)
            await asyncio.to_thread(copy_folder, collection.folder / collection.metadata.shard, content / _SHARD)
        (content / METADATA).write_bytes(msgspec.json.encode(metadata))
        await asyncio.to_thread(_archive, content, target)
    return describe(target)


def delete(store: Store, collection: str, name: str) -> bool:
    """Remove a snapshot."""
    path = find(store, collection, name)
    path.unlink()
    path.with_suffix(".checksum").unlink(missing_ok=True)
    return True


async def restore(store: Store, name: str, archive: Path, checksum: str | None = None) -> bool:
    """Replace the collection with the archive's content, or create it. Nothing changes unless the archive opens."""
    check_name(name)
    name = store.aliases.get(name, name)
    folder = store.folder(name)
    existing = store.collections.get(name)
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix="restoring-") as temporary:
        content = Path(temporary)
        metadata = await asyncio.to_thread(_extract, archive, content, checksum)
        with converting():
            config, _ = to_config(metadata.config)
        with engine():
            edge.EdgeShard.load(str(content / _SHARD), config).close()
        await asyncio.to_thread(sync_tree, content / _SHARD)
        if existing is None:
            _install(store, name, folder, content, metadata)
            return True
        async with existing.writing:
            existing.check_open()
            if existing.compacting:
                raise bad_request(f"a compaction of `{name}` is running: restore when it has ended")
            fresh = msgspec.structs.replace(metadata, shard=existing.next_shard())
            (content / _SHARD).replace(folder / fresh.shard)
            sync_folder(folder)
            existing.adopt(edge.EdgeShard.load(str(folder / fresh.shard)), fresh)
    return True


def _install(store: Store, name: str, folder: Path, content: Path, metadata: Metadata) -> None:
    fresh = msgspec.structs.replace(metadata, shard="shard-1")
    (content / _SHARD).replace(folder / fresh.shard)
    sync_folder(folder)
    write_atomic(folder / METADATA, msgspec.json.encode(fresh))
    store.collections[name] = Collection(name, folder, fresh, edge.EdgeShard.load(str(folder / fresh.shard)))


def _archive(content: Path, target: Path) -> None:
    partial = target.with_suffix(".partial")
    with tarfile.open(partial, "w:gz", compresslevel=_LEVEL) as archive:
        for entry in (METADATA, _SHARD):
            archive.add(content / entry, arcname=entry)
    target.with_suffix(".checksum").write_text(_checksum(partial))
    partial.replace(target)
    sync_folder(target.parent)


def _extract(path: Path, content: Path, checksum: str | None) -> Metadata:
    if checksum is not None and checksum != _checksum(path):
        raise bad_request("the snapshot's checksum differs: it is damaged, fetch it again")
    try:
        with tarfile.open(path, "r:*") as archive:
            # The data filter rejects absolute paths, `..`, links that leave the folder, and devices.
            archive.extractall(content, filter="data")
        metadata = msgspec.json.decode((content / METADATA).read_bytes(), type=Metadata)
    except (tarfile.TarError, OSError, EOFError, msgspec.MsgspecError) as error:
        raise bad_request(f"this is not a snapshot of the embedded vector server: {error}") from error
    if not (content / _SHARD).is_dir():
        raise bad_request("this is not a snapshot of the embedded vector server: it has no shard folder")
    return metadata


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
