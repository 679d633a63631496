"""Build registry and lake rows from fetched, rewritten and refused documents."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec
import polars as pl

from assets.intake.fetching import Fetched
from assets.stages.diff import GONE, MAX_ATTEMPTS
from assets.stages.grant import effective_permissions
from assets.stages.identify import content_key, payload_hash
from assets.stages.plan import is_reported, refused_item
from resources.core.domain import Item, Refusal, SourceName, State, document_id
from resources.core.tables import table
from resources.stores.clients import Stores
from resources.syncs.syncing import SyncJob
from sql.rows import Known, Permitted

_json = msgspec.json.Encoder()


def raw_table(source: SourceName) -> str:
    """Return the lake table that holds a source's change rows."""
    return f"raw_{source.value}"


def _row(source: SourceName, item: Item, **desired: Any) -> dict[str, Any]:
    permissions = effective_permissions(item)
    return {
        **{name: getattr(item, name) for name in Item.__struct_fields__},
        "doc_id": document_id(source, item.source_id),
        "permissions": permissions,
        "payload_hash": payload_hash(item, permissions),
        "reason": None,
        "stage": None,
        "attempts": 0,
        **desired,
    }


def fetched_row(job: SyncJob, result: Fetched, before: Known | None) -> dict[str, Any]:
    """Return the row of a document whose bytes were asked for. A failure is recorded `MAX_ATTEMPTS` times, or if it changes the state.

    Its number of attempts is that of failures in a row, of which those that may pass are counted apart: their number is negative.
    """
    stores = job.stores
    item = result.item
    if result.content_hash is not None:
        key = content_key(item, result.content_hash)
        size = result.size if item.size is None else item.size
        return _row(stores.source, item, content_hash=result.content_hash, content_key=key, state=State.LIVE, size=size)
    counts = before is not None and before.stage == "raw" and not _gave_up_on_another(before, item)
    earlier = before.attempts if before is not None and counts else 0
    attempts = -abs(earlier) - 1 if result.passing else max(earlier, 0) + 1
    row = _unread_row(stores, result, before, attempts)
    again = before is not None and before.state == row["state"] and abs(attempts) > MAX_ATTEMPTS
    if result.skipped or job.full or not again:
        job.fault(item.source_id, "raw", result.error or "unknown", skipped=result.skipped)
    return row


def _gave_up_on_another(before: Known, item: Item) -> bool:
    """Return True if another version failed often. The version of a live document is the indexed one, whatever failed since."""
    return before.state != State.LIVE and before.version != item.version and abs(before.attempts) >= MAX_ATTEMPTS


def _unread_row(stores: Stores, result: Fetched, before: Known | None, attempts: int) -> dict[str, Any]:
    item = result.item
    fault = {"reason": result.error, "stage": "raw", "attempts": attempts}
    if result.skipped:
        return _row(stores.source, item, content_hash=None, content_key=None, state=State.SKIPPED, **fault)
    if before is not None and before.state == State.LIVE and (result.passing or attempts < MAX_ATTEMPTS):
        # The indexed version stays searchable while the new bytes are retried, without readers who have come with these.
        kept = {"content_hash": before.content_hash, "content_key": before.content_key, "version": before.version}
        row = _row(stores.source, item, state=State.LIVE, **kept, **fault)
        if not set(row["permissions"]).issubset(before.permissions):
            row["permissions"] = tuple(one for one in row["permissions"] if one in before.permissions)
            row["payload_hash"] = ""
        return row
    return _row(stores.source, item, content_hash=None, content_key=None, state=State.FAILED, **fault)


def rewritten_row(stores: Stores, item: Item, before: Known) -> dict[str, Any]:
    """Return the row of a document whose metadata or permissions changed, or that is back, with unchanged bytes.

    The parse outcome is kept unless it depends on title and description.
    """
    key = content_key(item, before.content_hash) if before.content_hash else None
    same = key == before.content_key and before.state not in GONE
    return _row(
        stores.source,
        item,
        content_hash=before.content_hash,
        content_key=key,
        state=before.state if same else State.LIVE,
        reason=before.reason if same else None,
        stage=before.stage if same else None,
        attempts=before.attempts if same else 0,
    )


def refusal_row(job: SyncJob, refusal: Refusal, before: Known | None) -> dict[str, Any]:
    """Return the row of a document that the source refuses to provide, and record the reason if it is new."""
    if not is_reported(refusal, before):
        job.fault(refusal.source_id, "raw", refusal.reason, skipped=True)
    fault = {"reason": refusal.reason, "stage": "raw", "attempts": 1}
    return _row(
        job.stores.source, refused_item(refusal), content_hash=None, content_key=None, state=State.SKIPPED, **fault
    )


def append(stores: Stores, stored: Iterable[dict[str, Any]], gone: Iterable[tuple[str, str]]) -> None:
    """Append change rows to the lake: current documents and tombstones."""
    now = datetime.now(UTC)
    rows = [
        {
            "op": "upsert",
            "doc_id": row["doc_id"],
            **{name: row[name] for name in _LAKE_FIELDS},
            "permissions": list(row["permissions"]),
            "meta": _json.encode({name: row[name] for name in _META_FIELDS}).decode(),
        }
        for row in stored
    ]
    for source_id, partition in gone:
        tombstone = {"op": "delete", "doc_id": document_id(stores.source, source_id), "source_id": source_id}
        rows.append(dict.fromkeys((*_LAKE_FIELDS, "permissions", "meta")) | tombstone | {"partition": partition})
    if not rows:
        return
    first = stores.next_sequence(len(rows))
    for number, row in enumerate(rows):
        row |= {"seq": first + number, "at": now}
    stores.lake.append(raw_table(stores.source), pl.DataFrame(rows, schema=table(raw_table(stores.source)).schema))


def item_of(row: Permitted, permissions: tuple[str, ...]) -> Item:
    """Return the item of a registry row with different permissions. Not for uploads and pushed documents, the only `owner_scoped` items."""
    elsewhere = ("title", "permissions", "collection_ids", "folders", "owner_scoped")
    return Item(
        title=row.source_title,
        permissions=permissions,
        collection_ids=tuple(row.collection_ids),
        **{name: getattr(row, name) for name in Item.__struct_fields__ if name not in elsewhere},
    )


_LAKE_FIELDS = (
    "source_id",
    "partition",
    "version",
    "content_hash",
    "mime_type",
    "profile",
    "title",
    "description",
    "owner",
    "created_at",
    "modified_at",
)
_META_FIELDS = ("path", "url", "author", "size", "collection_ids", "folders", "tags", "content_key", "locator")
