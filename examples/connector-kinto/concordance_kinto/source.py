"""The connector. A partition is a collection; the bucket's history is the change feed.

The first sync lists a collection page by page and remembers in its cursor when it began and which page is next. From then on, the
history of the bucket (Kinto's plug-in `history`) names the records that changed, were deleted or were given other permissions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from functools import cache, cached_property
from typing import Any
from urllib.parse import quote

import httpx
import msgspec

from concordance_kinto import NAME, KintoSettings
from concordance_kinto.client import BATCH, Client
from concordance_kinto.readers import Permissions, permissions_of, readers
from resources.core.domain import Batch, Folder, Item, SourceName
from resources.core.errors import AbortSyncError, ChangedDocumentError, LostPartitionError, SkipDocumentError
from resources.core.ports import Source
from resources.core.retrying import Tally
from resources.settings import Settings


class Cursor(msgspec.Struct, frozen=True):
    """`since`: timestamp up to which the history was followed. `page`: the next page of a listing, while one is under way."""

    since: int
    page: str | None = None


class Kinto(Source):
    """`resources.core.ports.Source` over one bucket. `page` is the number of records in one batch."""

    fetchers = 8

    def __init__(
        self,
        settings: Settings,
        own: KintoSettings,
        *,
        page: int = BATCH,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._client = Client(own, settings.retry_seconds, transport)
        self._bucket = f"/buckets/{quote(own.bucket)}"
        self._root = (own.url or "").rstrip("/")
        self._limit = page
        self._history = cache(self._history_since)
        self._permissions = cache(self._permissions_of)
        self._members = cache(self._members_of)

    @property
    def name(self) -> SourceName:
        """The source's name."""
        return NAME

    @property
    def tally(self) -> Tally:
        """Calls by method and last part of the path."""
        return self._client.tally

    def partitions(self) -> list[str]:
        """Return the collections of the bucket."""
        return self._collections

    def retired(self, known: list[str]) -> list[str]:
        """Return the known collections that were deleted."""
        return sorted(set(known) - set(self._collections))

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield all records of a collection without a cursor, or if its history does not reach back to it; else what changed."""
        if partition not in self._collections:
            raise LostPartitionError(f"Kinto has no collection {partition!r} in {self._bucket}.")
        at = msgspec.json.decode(cursor, type=Cursor) if cursor else None
        if at is None or at.page is not None or self._relists(partition, at.since):
            at = yield from self._list(partition, at if at is not None and at.page is not None else None)
        yield from self._follow(partition, at.since)

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield the text of a record, or the record as JSON if it has no field `content`."""
        (body,) = self._client.records([item.locator])
        if body is None:
            raise SkipDocumentError("The record was deleted meanwhile.")
        data = body["data"]
        if str(data["last_modified"]) != item.version:
            raise ChangedDocumentError
        text = data.get("content")
        yield (text if isinstance(text, str) else json.dumps(data, ensure_ascii=False, indent=1)).encode()

    def look_again(self, item: Item) -> Item | None:
        """Return the record as it is now."""
        (body,) = self._client.records([item.locator])
        return None if body is None else self._item(item.partition, item.locator, body)

    def _list(self, partition: str, at: Cursor | None) -> Iterator[Batch]:
        """Yield pages of a collection, oldest records first: one that changes meanwhile comes again later."""
        path = self._records(partition)
        if at is None:
            at = Cursor(self._history_now()[1])
            self._permissions.cache_clear()  # what changed before `since` is in no history that is followed
            self._members.cache_clear()
            body, following, _ = self._client.get(path, _sort="last_modified", _limit=self._limit)
        else:
            body, following, _ = self._client.get(at.page or path)
        while True:
            seen, _ = self._items(partition, [record["id"] for record in body["data"]])
            if following is None:
                yield self._batch(partition, Cursor(at.since), seen=seen, listing="complete")
                return Cursor(at.since)
            yield self._batch(partition, Cursor(at.since, following), seen=seen, listing="page")
            body, following, _ = self._client.get(following)

    def _follow(self, partition: str, since: int) -> Iterator[Batch]:
        """Yield the records that the history names; one batch at least, which says that permissions are up to date.

        The cursor stays if permissions of more than records changed while the collection was listed: the next sync lists it again.
        """
        entries = [one for one in self._history(since) if one.get("collection_id") == partition and "record_id" in one]
        ids = list(dict.fromkeys(entry["record_id"] for entry in entries))
        for start in range(0, len(ids) or 1, self._limit):
            seen, gone = self._items(partition, ids[start : start + self._limit])
            last = start + self._limit >= len(ids)
            ends = last and not self._changed_above(partition, since)
            reached = max((one["last_modified"] for one in self._history(since)), default=since) if ends else since
            yield self._batch(partition, Cursor(reached), seen=seen, deleted=gone, listing="delta")

    def _relists(self, partition: str, since: int) -> bool:
        """Return True if permissions of more than records changed, or if entries after `since` may have been removed."""
        oldest, _ = self._history_now()
        return oldest is None or oldest > since or self._changed_above(partition, since)

    def _changed_above(self, partition: str, since: int) -> bool:
        """Return True if permissions of more than records, or groups, changed after `since`."""
        wide = [entry for entry in self._history(since) if "record_id" not in entry]
        return any(entry.get("collection_id") in (None, partition) for entry in wide)

    def _items(self, partition: str, ids: Collection[str]) -> tuple[list[Item], list[str]]:
        """Return the items of these records, and the source ids of those that do not exist."""
        paths = [f"{self._records(partition)}/{id_}" for id_ in ids]
        found = self._client.records(paths)
        seen = [self._item(partition, path, body) for path, body in zip(paths, found, strict=True) if body is not None]
        return seen, [_source_id(path) for path, body in zip(paths, found, strict=True) if body is None]

    def _item(self, partition: str, path: str, body: dict[str, Any]) -> Item:
        data = body["data"]
        above = map(self._permissions, (self._bucket, path.rpartition("/records/")[0]))
        who = readers([*above, permissions_of(body)], self._members)
        title = str(data.get("title") or data["id"])
        changed = datetime.fromtimestamp(data["last_modified"] / 1000, UTC)
        collection = _source_id(self._records(partition))
        return Item(
            source_id=_source_id(path),
            partition=partition,
            title=title,
            path=f"{partition}/{title}",
            mime_type="text/markdown" if isinstance(data.get("content"), str) else "application/json",
            version=str(data["last_modified"]),
            permissions=who,
            url=f"{self._root}{path}",
            modified_at=changed,
            collection_ids=(collection,),
            folders=(Folder(id=collection, name=partition, readers=who),),
            locator=path,
        )

    def _batch(self, partition: str, cursor: Cursor, **what: Any) -> Batch:
        return Batch(partition=partition, cursor=msgspec.json.encode(cursor).decode(), title=partition, **what)

    def _records(self, partition: str) -> str:
        return f"{self._bucket}/collections/{quote(partition)}/records"

    @cached_property
    def _collections(self) -> list[str]:
        try:
            return sorted(one["id"] for one in self._client.pages(f"{self._bucket}/collections"))
        except LostPartitionError as error:
            raise AbortSyncError(f"{error} CONCORDANCE_KINTO_BUCKET names the bucket.") from None

    def _permissions_of(self, path: str) -> Permissions:
        return permissions_of(self._client.get(path)[0])

    def _members_of(self, group: str) -> Collection[str]:
        (body,) = self._client.records([group])
        return body["data"]["members"] if body is not None else ()

    def _history_now(self) -> tuple[int | None, int]:
        """Return the timestamps of the oldest entry of the history, if there is one, and of now."""
        try:
            body, _, now = self._client.get(f"{self._bucket}/history", _sort="last_modified", _limit=1)
        except LostPartitionError as error:
            raise AbortSyncError(f"{error} The server needs Kinto's plug-in history: kinto.plugins.history.") from None
        return next((entry["last_modified"] for entry in body["data"]), None), now

    def _history_since(self, since: int) -> list[dict[str, Any]]:
        return list(self._client.pages(f"{self._bucket}/history", _since=since))


def _source_id(path: str) -> str:
    """Return `BUCKET/COLLECTION/RECORD` of a record's path."""
    return "/".join(path.split("/")[2::2])
