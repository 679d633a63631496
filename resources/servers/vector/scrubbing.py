"""Scrubbing: rewrite a shard so that its files contain nothing of deleted points. Runs in the compaction's subprocess.

Deleting a point only marks it. Its payload and vectors stay in its segment until the segment is rewritten, and in the write-ahead
log until the log has grown past it. The log cannot simply be removed: the engine numbers operations by it and ignores writes with
lower numbers than its segments have seen. So it is filled with no-op operations until the old files are dropped.
"""

import os
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import qdrant_edge as edge

OPTIMIZERS: dict[str, Any] = {"deleted_threshold": 0.0, "vacuum_min_vector_number": 0}
"""Rewrite every segment with at least one deleted point; by default a fifth of a segment must be deleted."""
_FILLER_IDS = 900_000
"""Ids in one operation: 8 MB, a quarter of a log file."""
_MOST_FILLERS = 64
_HEADER_BYTES = 8
"""Log files are preallocated: after this header, one without operations contains zeros."""


def mark(shard: edge.EdgeShard) -> None:
    """Add a deleted point to the segment that takes writes: payloads replaced in place do not count as deletions."""
    point = str(uuid.uuid4())
    shard.update(edge.UpdateOperation.upsert_points([edge.Point(id=point, vector={}, payload={})]))
    shard.update(edge.UpdateOperation.delete_points([point]))


def outgrow_log(path: Path, shard: edge.EdgeShard) -> None:
    """Grow the write-ahead log until every file that contains earlier operations is gone. Raises `RuntimeError`."""
    shard.flush()
    with ExitStack() as files:
        # held open, so that a new file cannot be mistaken for an old one by a reused inode number
        old = [files.enter_context(file.open("rb")) for file in (path / "wal").iterdir() if _holds_operations(file)]
        filler = edge.UpdateOperation.delete_points(list(range(2**62, 2**62 + _FILLER_IDS)))
        for _ in range(_MOST_FILLERS):
            if not any(os.fstat(file.fileno()).st_nlink for file in old):
                return
            shard.update(filler)
            shard.flush()
    raise RuntimeError("the write-ahead log still holds earlier operations")


def _holds_operations(file: Path) -> bool:
    if not file.name.startswith(("open-", "closed-")):
        return False
    with file.open("rb") as data:
        return any(data.read(2 * _HEADER_BYTES)[_HEADER_BYTES:])
