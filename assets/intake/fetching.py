"""Fetch the bytes of documents in parallel. An error of one document does not affect the others.

Each document fetched over a network is recorded at once, so that a killed sync does not fetch it again.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

import msgspec

from assets.intake.admission import admitted_item
from assets.stages.profiles import profile_names
from resources.core.domain import Item
from resources.core.errors import (
    ChangedDocumentError,
    DeferredDocumentError,
    DocumentError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.ports import Source
from resources.core.retrying import Tally, call_with_retry
from resources.core.texts import storable
from resources.stores.clients import Stores
from resources.stores.room import check_room
from resources.syncs.syncing import SyncJob

LOOKS = 3
"""How often a document that changes while it is read is looked at again."""


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """One document's bytes in the blob store, or the error."""

    item: Item
    content_hash: str | None = None
    size: int | None = None
    error: str | None = None
    skipped: bool = False
    passing: bool = False
    """True if the document itself may be read later: it kept changing, or the source did not send it for now."""


def fetch_all(job: SyncJob, source: Source, items: Sequence[Item]) -> Iterator[Fetched]:
    """Fetch several items at a time and yield each as it completes.

    Raises `AbortSyncError` if the source refuses all requests, and `CapacityError` if there is too little room for them.
    """
    if items:
        check_room(job.stores.settings)
    if source.costly and items:
        fetched_before = _fetched_before(job.stores, items)
        yield from fetched_before.values()
        items = [item for item in items if item.source_id not in fetched_before]
    if len(items) < source.fetchers:
        for item in items:
            yield _fetch(job, source, item)
        return
    pool = ThreadPoolExecutor(source.fetchers, thread_name_prefix="fetch")
    try:
        for future in as_completed([pool.submit(_fetch, job, source, item) for item in items]):
            job.progress("raw")
            yield future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _fetched_before(stores: Stores, items: Sequence[Item]) -> dict[str, Fetched]:
    versions = {item.source_id: item for item in items}
    return {
        row.source_id: Fetched(item=versions[row.source_id], content_hash=row.content_hash, size=row.size)
        for row in stores.partitions.fetched(source_ids=list(versions))
        if row.version == versions[row.source_id].version and stores.blobs.exists(row.content_hash)
    }


def _fetch(job: SyncJob, source: Source, item: Item) -> Fetched:
    """Fetch one item. One that changed after it was listed is described anew, since its readers may have become fewer before."""
    stores = job.stores
    looks = LOOKS

    def put() -> Any:
        nonlocal item, looks
        while True:
            try:
                return stores.blobs.put(source.fetch(item))
            except ChangedDocumentError:
                now = source.look_again(item) if looks else None
                if now is None:
                    raise
                looks -= 1
                item = admitted_item(now, profile_names(stores.settings))

    try:
        blob = call_with_retry(put, job.tally, waits=stores.settings.retry_seconds)
    except SkipDocumentError as error:
        return Fetched(item=item, error=storable(str(error)), skipped=True)
    except (DeferredDocumentError, RetryLaterError) as error:
        return Fetched(item=item, error=storable(str(error)), passing=True)
    except DocumentError as error:
        return Fetched(item=item, error=storable(str(error)))
    if source.costly:  # here and not in the consumer: a document recorded late is fetched twice after a crash
        stores.partitions.note_fetched(
            source_id=item.source_id,
            version=item.version,
            content_hash=blob.content_hash,
            size=blob.size,
        )
    return Fetched(item=item, content_hash=blob.content_hash, size=blob.size)


def merged(tallies: Sequence[Tally]) -> dict[str, Any]:
    """Return calls by method, retries, failed retries and seconds waited, summed over several tallies."""
    calls: dict[str, int] = {}
    for tally in tallies:
        for method, number in tally.calls.items():
            calls[method] = calls.get(method, 0) + number
    return {
        "calls": calls,
        "retries": sum(tally.retries for tally in tallies),
        "retries_failed": sum(tally.gave_up for tally in tallies),
        "waited": sum(tally.waited for tally in tallies),
    }
