"""Compaction: quantize vectors, build the HNSW index and drop deleted points without blocking reads.

`optimize()` holds the GIL for minutes, so it runs in a subprocess on a copy of the shard. Meanwhile writes continue and are kept
in a journal; at the end they are replayed on the copy, and one atomic file replacement makes the copy the collection.
"""

import asyncio
import ctypes
import json
import os
import shutil
import signal
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import qdrant_edge as edge

from resources.servers.vector import scrubbing
from resources.servers.vector.collection import VectorCollection
from resources.servers.vector.config import graph_config, has_graph, to_config
from resources.servers.vector.faults import RequestError, engine
from resources.servers.vector.files import copy_folder, remove_folder, size_on_disk, sync_tree
from resources.servers.vector.logs import log
from resources.servers.vector.writing import in_writing_thread

# Share of a collection that must have changed since the last compaction to justify the next, which costs 0.5 ms per point at
# the lowest priority. With a third, a first sync spends about 10 % of one core on it while embedding.
WORTHWHILE = 1 / 3
RETRY_SECONDS = 3600.0
"""How long a collection rests after a compaction of it has failed: the next is likely to fail the same way."""
_NICENESS = 10
_PR_SET_PDEATHSIG = 1


def worthwhile(collection: VectorCollection, threshold: int) -> bool:
    """Return True if enough points changed; below `threshold` points compaction gains nothing. A threshold of 0 means never."""
    if not threshold or collection.compacting or time.monotonic() < collection.rests_until:
        return False
    points = collection.shard.info().points_count
    changed = max(collection.written, abs(points - collection.metadata.compacted))
    return points >= threshold and changed >= WORTHWHILE * points


async def compact(collection: VectorCollection, *, erase: bool = False) -> int:
    """Compact now and return the number of points. 409 while another compaction of the collection is running.

    With `erase`, the files contain nothing of deleted points afterwards, including the write-ahead log.
    """
    if collection.compacting:
        raise RequestError(409, f"Conflict: a compaction of `{collection.name}` is running already")
    collection.compacting = True
    loop = asyncio.get_running_loop()
    began = loop.time()
    target = collection.folder / collection.next_shard()
    log("compaction_started", collection=collection.name)
    try:
        async with collection.writing:
            collection.check_open()
            collection.flush()
            written = collection.written
            await asyncio.to_thread(_fresh_copy, collection.folder / collection.metadata.shard, target)
            collection.journal = []
            config, layout = collection.metadata.config, _layout(collection)
        await _optimize(target, layout | {"optimizers_config": scrubbing.OPTIMIZERS} if erase else layout, erase=erase)
        async with collection.writing:
            collection.check_open()
            points = await _replay_and_swap(collection, target, config)
            collection.written -= written
        await asyncio.to_thread(_return_memory)
    finally:
        collection.compacting = False
        collection.journal = None
        if collection.metadata.shard != target.name:
            await asyncio.to_thread(remove_folder, target)
    log("compaction_finished", collection=collection.name, points=points, seconds=round(loop.time() - began, 3))
    return points


def _fresh_copy(source: Path, target: Path) -> None:
    """Copy a shard if it fits on the disk twice, since the copy is rewritten: others need what is free, such as Postgres."""
    remove_folder(target)
    needed, free = 2 * size_on_disk(source), shutil.disk_usage(source).free
    if free < needed:
        raise RequestError(
            500,
            f"Service internal error: no room for a compaction: it needs {needed >> 20} MiB for a while, and {free >> 20} MiB are free",
        )
    copy_folder(source, target)


def _layout(collection: VectorCollection) -> dict[str, Any]:
    """Return the collection's configuration, with the graph disabled unless the collection needs one or asked for it."""
    config, points = collection.metadata.config, collection.shard.info().points_count
    return graph_config(config, graph=has_graph(config, points, collection.graph_from))


async def _optimize(target: Path, layout: dict[str, Any], *, erase: bool) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    environment.pop("CONCORDANCE_QDRANT_API_KEY", None)
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "resources.servers.vector.compaction",
        str(target),
        str(os.getpid()),
        json.dumps(layout),
        *(["erase"] if erase else []),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    try:
        _, errors = await child.communicate()
    except asyncio.CancelledError:
        child.kill()
        await child.wait()
        raise
    if child.returncode:
        reason = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise RequestError(
            500, f"Service internal error: compaction stopped with code {child.returncode}: {' '.join(reason)}"
        )


async def _replay_and_swap(collection: VectorCollection, target: Path, compacted_with: dict[str, Any]) -> int:
    config, _ = to_config(collection.metadata.config)
    with ExitStack() as unless_done:
        shard = await in_writing_thread(partial(edge.EdgeShard.load, str(target), config))
        unless_done.callback(shard.close)
        for operation, taken in collection.journal or ():
            try:
                with engine():
                    await in_writing_thread(partial(shard.update, operation))
            except RequestError:
                if taken:
                    raise
        shard.flush()
        await asyncio.to_thread(sync_tree, target)
        points = shard.info().points_count
        # patched meanwhile: the result has the old layout and must be compacted again
        compacted = points if collection.metadata.config == compacted_with else 0
        metadata = msgspec.structs.replace(collection.metadata, shard=target.name, compacted=compacted)
        unless_done.pop_all()
    collection.adopt(shard, metadata)
    return points


def _return_memory() -> None:
    """Give the memory of the former shard back to the system, which glibc keeps: 3 of 4 GB at 300,000 points."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc only
    if trim is not None:
        trim(0)


def _exit_with_parent(parent: int) -> None:
    """Exit together with the server; otherwise this process would still write to a folder that the next start removes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("the server ended before the compaction began")


def main(path: str, parent: int, layout: str, *, erase: bool) -> None:
    """Optimize one shard folder that no other process has open. Runs in the subprocess."""
    _exit_with_parent(parent)
    os.nice(_NICENESS)
    config, _ = to_config(json.loads(layout))
    shard = edge.EdgeShard.load(path, config)
    if erase:
        scrubbing.mark(shard)
    changed = shard.optimize()
    if erase:
        scrubbing.outgrow_log(Path(path), shard)
    shard.flush()
    shard.close()
    sys.stdout.write(json.dumps({"changed": changed}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], erase="erase" in sys.argv[4:])
