"""Rewrite the files in which erased rows and points remain: a deletion only marks them in Postgres and in the vector index.

What our database role, or an external server, does not allow is reported rather than assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import httpx
import psycopg

from resources import http_clients, keys
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.namespace import namespace
from resources.stores.postgres import Connection
from resources.stores.rebuilding import rebuild
from sql.upkeep import Erasure

if TYPE_CHECKING:
    from qdrant_client.qdrant_remote import QdrantRemote

TABLES = (
    "documents", "index_entries", "chunks", "uploads", "answers", "answer_cache", "audit_log", "conversations",
    "feedback", "questions", "sync_errors", "ingest_jobs", "source_memory", "listed_documents", "fetched_contents",
    "held_deletions", "deletion_receipts", "pg_catalog.pg_statistic",
)  # fmt: skip
"""Tables that contain text of documents or of questions."""
SEARCHED = ("documents", "index_entries", "chunks")
"""Large tables that every search reads: they are copied while searches go on. The others are rewritten in place."""
CATALOGUE = ("pg_catalog.pg_statistic",)
"""Tables that our role may rewrite but not lock; nothing else keeps them locked."""
LOCK_SECONDS = 20
COMPACT_SECONDS = 3600
WAL_SEGMENT_BYTES = 16 * 1024 * 1024
STORES = ("postgres.files", "postgres.log", "vectors.files")


class Note(NamedTuple):
    """The result of rewriting a store's files, with the method or the reason why not."""

    done: bool
    detail: str
    external: bool = False
    """Its server rewrites these files by itself; we cannot."""


def rewrite(
    settings: Settings, connection: Connection, client: QdrantRemote, stores: Collection[str]
) -> dict[str, Note]:
    """Rewrite what can be rewritten of these of `STORES`; return a note for each. The connection must be in autocommit mode."""
    ways = (partial(_tables, connection), partial(_log, connection), partial(_vectors, settings, client))
    return {store: way() for store, way in zip(STORES, ways, strict=True) if store in stores}


def _try_lock(connection: Connection, name: str) -> None:
    """Lock a table for a moment. Raises `LockNotAvailable` if it is in use: a VACUUM, which can have no limit of its own, would wait."""
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (f"{LOCK_SECONDS}s",))
        connection.execute(f"LOCK TABLE {name} IN ACCESS EXCLUSIVE MODE".encode())


def _tables(connection: Connection) -> Note:
    """Rewrite tables with their indexes, whatever their size. Postgres does so in bounded memory; a table at a time is there twice."""
    left: list[str] = []
    present = {row.name for row in Erasure(connection).table_bytes(names=list(TABLES)) if row.bytes}
    for name in [name for name in TABLES if name in present]:
        try:
            if name in SEARCHED:
                rebuild(connection, name, lock_seconds=LOCK_SECONDS)
            else:
                if name not in CATALOGUE:
                    _try_lock(connection, name)
                connection.execute(f"VACUUM (FULL, ANALYZE) {name}".encode())
        except psycopg.errors.LockNotAvailable:
            left.append(f"{name} (in use)")
        except psycopg.errors.DependentObjectsStillExist:
            left.append(f"{name} (something else is built on its views)")
        except psycopg.errors.InsufficientPrivilege:
            left.append(f"{name} (belongs to another role)")
        except psycopg.errors.DiskFull:
            left.append(f"{name} (no room on the disk for a second copy)")
    if left:
        return Note(
            done=False,
            detail=f"deleted, but still in the files of: {', '.join(left)}."
            " The daily job tries again; at once: concordance erase --now",
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
            external=True,
            detail="the role may not request a checkpoint (GRANT pg_checkpoint); the server removes older files of its log by itself",
        )
    return Note(done=True, detail="a checkpoint removed the older files of the write-ahead log")


def _vectors(settings: Settings, client: QdrantRemote) -> Note:
    try:
        return _compacted(settings, client)
    except (httpx.HTTPError, ServiceUnavailableError, ValueError) as error:
        reason = str(error) or type(error).__name__
        return Note(
            done=False, detail=f"the vector server did not answer as expected ({reason}). The daily job tries again"
        )


def _compacted(settings: Settings, client: QdrantRemote) -> Note:
    key = keys.qdrant_api_key(settings)
    headers = {"api-key": key} if key else {}
    if not _ours(settings, headers):
        return Note(
            done=False,
            external=True,
            detail="this Qdrant server rewrites its segments by itself; deleted points are marked until then."
            " A lower `deleted_threshold` in the `optimizers_config` of a collection makes it do so earlier",
        )
    for name in qdrant.collections(client):
        with http_clients.outward(timeout=COMPACT_SECONDS) as http:
            answer = http.post(
                f"{settings.qdrant_address}/collections/{namespace(settings).stored(name)}/compact",
                params={"erase": "true"},
                headers=headers,
            )
        if not answer.is_success:
            return Note(done=False, detail=f"{name} could not be compacted: {answer.text[:200]}")
    return Note(done=True, detail="segments and write-ahead log were rewritten")


def _ours(settings: Settings, headers: Mapping[str, str]) -> bool:
    """Return True for the embedded vector server, including one that was started by hand."""
    with http_clients.outward(timeout=qdrant.TIMEOUT_SECONDS) as http:
        answer = http.get(f"{settings.qdrant_address}/", headers=dict(headers)).raise_for_status()
    return "embedded vector server" in str(answer.json().get("title", ""))
