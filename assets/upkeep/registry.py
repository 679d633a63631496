"""Rebuild the registry of a source from the lake, after the loss of Postgres.

The lake holds each document as it was listed last, its permissions included. What it cannot prove to be still so is hidden: a document
of a source with permissions of its own is shown to no one until a sync has listed its partition. Uploads lose the readers that the vector
index knows to have been removed since. Nothing is fetched, parsed or embedded again, because the next sync finds all of it in the lake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import polars as pl

from assets.intake.rows import raw_table
from assets.stages.diff import MAX_ATTEMPTS
from assets.stages.identify import payload_hash
from resources.core.domain import Folder, Item, SourceName, State
from resources.core.tables import RAW
from resources.settings import Settings
from resources.sources import capabilities
from resources.stores.clients import Stores
from resources.stores.lake_sql import scratch_tables
from resources.stores.withheld import DOCUMENT
from resources.syncs.syncing import open_sync
from sql.upkeep import LostRegistry

BATCH_ROWS = 1000


class Rebuilt(msgspec.Struct):
    """What was written of one source."""

    source: SourceName
    documents: int = 0
    deleted: int = 0
    """Documents that are to be erased once their grace period is over."""
    uploads: int = 0
    hidden: bool = True
    """True if the documents are shown to no one until the next sync."""


class _Meta(msgspec.Struct, frozen=True):
    """The column `meta` of a row of the lake."""

    path: str
    url: str | None = None
    author: str | None = None
    size: int | None = None
    collection_ids: tuple[str, ...] = ()
    folders: tuple[Folder, ...] = ()
    tags: dict[str, Any] = {}
    content_key: str | None = None
    locator: str = ""


_meta = msgspec.json.Decoder(_Meta)


def rebuild_registry(settings: Settings, source: SourceName) -> Rebuilt:
    """Write the documents of a source that the lake holds and the registry does not know. Idempotent. Raises `BusyError` during a sync."""
    user_supplied = capabilities(source).user_supplied
    rebuilt = Rebuilt(source, hidden=not capabilities(source).own_permissions)
    with open_sync(settings, source, requested_by="rebuild registry") as job:
        stores = job.stores
        stores.jobs.lists_nothing(job_id=job.job_id)
        statements = LostRegistry(stores.connection, source.value)
        if raw_table(source) not in stores.lake.names():
            return rebuilt
        narrowed, latest = _narrowed(stores, source) if user_supplied else {}, 0
        newest = _newest(
            stores, raw_table(source)
        )  # before the transaction, which Postgres ends if it does nothing for too long
        with stores.connection.transaction():
            for page in _current(stores, raw_table(source), newest):
                latest = max([latest, *page["seq"]])
                known = stores.documents.known(source_ids=page["source_id"].to_list(), attempts=MAX_ATTEMPTS)
                part = page.filter(~pl.col("source_id").is_in([document.source_id for document in known]))
                for partition in part["partition"].unique().sort():  # until a sync, its points are not to be believed
                    stores.withheld.hide_partition(source.value, partition)
                live = part.filter(pl.col("op") == "upsert")
                gone = part.filter(pl.col("op") == "delete")
                rebuilt.documents += _write_live(stores, live, narrowed)
                rebuilt.deleted += _write_gone(stores, statements, gone)
            if user_supplied:
                rebuilt.uploads = statements.restore_uploads()
            # a clock that was ahead may have given numbers of the future
            stores.jobs.next_sequence(clock_ns=latest, reserve=0)
    return rebuilt


def _newest(stores: Stores, name: str) -> pl.DataFrame:
    """Return the number and time of the current change row of each document."""
    written = pl.col("at").alias("written_at")
    with scratch_tables({"changes": {"doc_id": pl.String, "seq": pl.Int64, "written_at": RAW["at"]}}) as tables:
        for page in stores.lake.pages(name, "doc_id", "seq", written):
            tables.add("changes", page)
        return tables.make("newest_changes")


def _current(stores: Stores, name: str, newest: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Yield the current change rows in frames of at most `BATCH_ROWS` rows; an empty one for each page of the lake that has none, so that
    the caller's transaction does something.
    """
    for page in stores.lake.pages(name, pl.all()):
        near = newest.filter(pl.col("seq").is_between(page["seq"].min(), page["seq"].max()))
        current = page.join(near, left_on=["seq", "at"], right_on=["seq", "written_at"], how="semi")
        yield from [current] if current.is_empty() else current.iter_slices(BATCH_ROWS)


def _narrowed(stores: Stores, source: SourceName) -> dict[str, frozenset[str]]:
    """Return the remaining readers of documents that were narrowed or removed, and that no sync had carried into the lake."""
    return {
        entry.key: frozenset(entry.payload["readers"])
        for page in stores.withheld.entries(DOCUMENT, source.value)
        for entry in page
    }


def _write_live(stores: Stores, rows: pl.DataFrame, narrowed: Mapping[str, frozenset[str]]) -> int:
    found = [_live(row, narrowed.get(row["doc_id"])) for row in rows.iter_rows(named=True)]
    if found:
        stores.documents.save_documents(rows=found)
    return len(found)


def _live(row: dict[str, Any], remaining: frozenset[str] | None) -> dict[str, Any]:
    """Return the registry's row of a document: the permissions that the lake has, of `remaining` readers only, unless that is None."""
    meta = _meta.decode(row["meta"])
    given = {name: row[name] for name in Item.__struct_fields__ if name in row and name != "permissions"}
    more = {name: getattr(meta, name) for name in _Meta.__struct_fields__ if name != "content_key"}
    permissions = tuple(one for one in row["permissions"] if remaining is None or one in remaining)
    item = Item(**given, **more, permissions=permissions)
    return {
        **{name: getattr(item, name) for name in Item.__struct_fields__},
        "doc_id": row["doc_id"],
        "payload_hash": payload_hash(item, item.permissions),
        "content_hash": row["content_hash"],
        "content_key": meta.content_key,
        "state": State.LIVE,
        "reason": None,
        "stage": None,
        "attempts": 0,
    }


def _write_gone(stores: Stores, statements: LostRegistry, rows: pl.DataFrame) -> int:
    """Write documents that were deleted and are not erased yet: only what identifies them."""
    found: list[dict[str, Any]] = [
        {
            "doc_id": row["doc_id"], "source_id": row["source_id"], "partition": row["partition"], "title": "", "path": "", "mime_type": "",
            "collection_ids": [], "folders": [], "permissions": [], "tags": {}, "profile": "", "locator": "", "version": "",
            "payload_hash": "", "state": State.DELETED, "attempts": 0,
        }
        for row in rows.iter_rows(named=True)
    ]  # fmt: skip
    if found:
        stores.documents.save_documents(rows=found)
        deleted = [{"doc_id": row["doc_id"], "at": row["at"]} for row in rows.iter_rows(named=True)]
        statements.mark_deleted(rows=deleted)
    return len(found)
