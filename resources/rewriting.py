"""Rewrite the files in which erased rows and points remain: a deletion only marks them in Postgres and in the vector index.

What our database role, or an external server, does not allow is reported rather than assumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import httpx
import psycopg

from resources import keys, qdrant
from resources.postgres import Connection
from resources.settings import Settings
from sql import queries

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

TABLES = (
    "documents", "chunks", "chunks_beside", "index_entries", "uploads", "answers", "answer_cache", "search_cache", "audit_log",
    "conversations", "feedback", "questions", "sync_errors", "ingest_jobs", "source_memory", "listed_documents", "fetched_contents",
    "held_deletions", "deletion_receipts", "pg_catalog.pg_statistic",
)  # fmt: skip
"""Tables that contain text of documents or of questions."""
QUICK_BYTES = 256 * 1024 * 1024
"""A table up to this size is rewritten at once, which blocks its readers for some seconds."""
LOCK_SECONDS = 20
COMPACT_SECONDS = 3600
WAL_SEGMENT_BYTES = 16 * 1024 * 1024
STORES = ("postgres.files", "postgres.log", "vectors.files")


class Note(NamedTuple):
    """Whether a store's files were rewritten, and how, or why not."""

    done: bool
    detail: str


def rewrite(settings: Settings, connection: Connection, client: QdrantClient, *, thorough: bool) -> dict[str, Note]:
    """Rewrite what can be rewritten; return a note per store. The connection must be in autocommit mode."""
    return {
        "postgres.files": _tables(connection, thorough=thorough),
        "postgres.log": _log(connection),
        "vectors.files": _vectors(settings, client),
    }


def _tables(connection: Connection, *, thorough: bool) -> Note:
    """Rewrite tables with their indexes; large ones only if `thorough`, since it blocks their readers."""
    left: list[str] = []
    sizes = {row["name"]: row["bytes"] for row in queries("upkeep").table_bytes(connection, names=list(TABLES))}
    connection.execute("SELECT set_config('lock_timeout', %s, FALSE)", (f"{LOCK_SECONDS}s",))
    for name, size in sizes.items():
        if size is None:
            continue
        try:
            if thorough or size <= QUICK_BYTES:
                connection.execute(f"VACUUM (FULL, ANALYZE) {name}".encode())
                continue
            connection.execute(f"VACUUM (ANALYZE) {name}".encode())
        except (psycopg.errors.LockNotAvailable, psycopg.errors.InsufficientPrivilege) as error:
            left.append(f"{name} ({type(error).__name__})")
            continue
        left.append(name)
    connection.execute("SELECT set_config('lock_timeout', '0', FALSE)")
    if left:
        named = ", ".join(left)
        return Note(
            done=False,
            detail=f"freed, but not rewritten, since they are large or in use: {named}. See: concordance erase --now",
        )
    return Note(done=True, detail="tables and indexes were rewritten")


def _log(connection: Connection) -> Note:
    """Advance the write-ahead log past what was erased, and let a checkpoint remove its older files."""
    try:
        connection.execute("SELECT pg_logical_emit_message(FALSE, 'erase', repeat(' ', %s))", (WAL_SEGMENT_BYTES + 1,))
        connection.execute("CHECKPOINT")
    except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFunction):
        return Note(
            done=False,
            detail="the role may not request a checkpoint (GRANT pg_checkpoint); the server removes older files of its log by itself",
        )
    return Note(done=True, detail="a checkpoint removed the older files of the write-ahead log")


def _vectors(settings: Settings, client: QdrantClient) -> Note:
    if not _ours(settings):
        return Note(
            done=False,
            detail="this Qdrant server rewrites its segments by itself; deleted points are marked until then",
        )
    for name in qdrant.collections(client):
        key = keys.qdrant_api_key(settings)
        answer = httpx.post(
            f"{settings.qdrant_address}/collections/{name}/compact",
            params={"erase": "true"},
            headers={"api-key": key} if key else {},
            timeout=COMPACT_SECONDS,
            verify=qdrant.tls(),
        )
        if not answer.is_success:
            return Note(done=False, detail=f"{name} could not be compacted: {answer.text[:200]}")
    return Note(done=True, detail="segments and write-ahead log were rewritten")


def _ours(settings: Settings) -> bool:
    """Return True for the embedded vector server, including one that was started by hand."""
    answer = httpx.get(f"{settings.qdrant_address}/", timeout=qdrant.TIMEOUT_SECONDS, verify=qdrant.tls())
    return "embedded vector server" in str(answer.json().get("title", ""))
