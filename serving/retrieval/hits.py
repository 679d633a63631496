"""The second lock: candidates enter, the passages that the caller may read right now leave, with fresh metadata.

The registry decides, for cached and fresh candidates alike. With Postgres down the index's own payload stands in. Either way, what
has permissions that were not checked recently enough is held back and counted. Permissions of uploads are Postgres's own, so they are
never too old there; the copy of them in a payload ages like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from resources.core.domain import Access, Place, SourceName
from resources.sources import capabilities
from serving.database import Database


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """One passage and its document as they are now."""

    chunk_id: str
    doc_id: str
    chunk_index: int
    chunk_text: str
    text_hash: str
    section_path: list[str]
    anchor: str | None
    page_start: int | None
    page_end: int | None
    title: str
    source_type: str
    source_id: str
    collection_id: str | None
    path: str
    mime_type: str
    url: str | None
    owner: str | None
    tags: dict[str, Any]
    created_at: datetime | None
    modified_at: datetime | None
    acl_checked_at: datetime | None
    start_char: int = 0
    places: list[Place] = []
    sketch: str | None = None
    """A small copy of the vector; see `resources.core.sketch`."""

    def place(self, offset: int) -> Place:
        """Return where the character at `offset` of the text stands: the chunk's own place when it has only one."""
        whole = Place(
            start_char=self.start_char, page=self.page_start, anchor=self.anchor, section_path=tuple(self.section_path)
        )
        begun = (place for place in reversed(self.places) if place.start_char <= self.start_char + offset)
        return next(begun, whole)


class _Row(Hit, frozen=True, kw_only=True):
    """A passage as the registry tells of it; without its text when it is held back."""

    held_back: bool


_ROWS = msgspec.json.Decoder(list[_Row])


class Checked(NamedTuple):
    """Passages that may be shown, by chunk id, and how many documents were held back for the age of their permissions."""

    hits: dict[str, Hit]
    held_back: int


async def recheck(
    database: Database,
    access: Access,
    chunk_ids: Sequence[str],
    fresh_since: datetime,
    *,
    archived: bool,
    collection_ids: Sequence[str],
) -> Checked:
    """Return the chunks that are live, permitted, and were checked since. Raises `ServiceUnavailableError`.

    Without `archived`, documents that are archived are left out: here and not in the vector search, where a second condition means
    that every point is looked at again. With `collection_ids`, a document counts only by a collection whose name the caller may know:
    the vector search narrows by every collection, and would tell who asks which hidden folder holds a document.
    """
    if not chunk_ids:
        return Checked({}, 0)
    # one text: psycopg writes a list element by element
    wanted = {
        "chunk_ids": f"{{{','.join(chunk_ids)}}}",
        "principals": sorted(access.principals),
        "fresh_since": fresh_since,
        "collection_ids": list(collection_ids) or None,
    }
    (answer,) = await database.fetch("recheck", wanted)
    rows = [row for row in _ROWS.decode(answer["hits"]) if archived or row.tags.get("lifecycle") != "archived"]
    hits: dict[str, Hit] = {row.chunk_id: row for row in rows if not row.held_back}
    return Checked(hits, len({row.doc_id for row in rows if row.held_back}))


def from_payloads(
    payloads: Mapping[str, Mapping[str, Any]],
    access: Access,
    fresh_since: datetime,
    narrowed: Mapping[str, frozenset[str]],
    *,
    collection_ids: Sequence[str],
) -> Checked:
    """Return hits made from payloads of points, for those that are permitted and were checked since.

    `narrowed` has who may read a document at most, by doc_id, where that may be fewer than the index knows. Payloads do not say who
    may know the names of folders: paths come without them, and no document is found by one.
    """
    hits: dict[str, Hit] = {}
    held: set[str] = set()
    for chunk_id, payload in payloads.items():
        permitted = access.principals & set(payload.get("permissions") or ())
        if permitted.isdisjoint(narrowed.get(payload["doc_id"], permitted)):
            continue
        if collection_ids and capabilities(payload.get("source_type") or "").private_folders:
            continue
        hit = _from_payload(chunk_id, payload)
        if hit.acl_checked_at is None or hit.acl_checked_at < fresh_since:
            held.add(hit.doc_id)
        else:
            hits[chunk_id] = hit
    return Checked(hits, len(held - {hit.doc_id for hit in hits.values()}))


def _from_payload(chunk_id: str, payload: Mapping[str, Any]) -> Hit:
    collections: Iterable[str] = payload.get("collection_ids") or ()
    source, path = payload.get("source_type") or "", payload.get("path") or ""
    in_folders = capabilities(source).private_folders
    named_by_path = source == SourceName.FILES
    return msgspec.convert(
        {
            "chunk_id": chunk_id,
            "collection_id": None if in_folders else next(iter(collections), None),
            "doc_id": payload["doc_id"],
            "chunk_index": payload["chunk_index"],
            "chunk_text": payload.get("chunk_text") or "",
            "text_hash": payload.get("text_hash") or chunk_id,
            "section_path": payload.get("section_path") or [],
            "start_char": payload.get("start_char") or 0,
            "places": payload.get("places") or [],
            "title": payload.get("title") or "",
            "source_type": source,
            "source_id": payload["doc_id"] if named_by_path else payload.get("source_id") or "",
            "path": path.rpartition("/")[2] if in_folders else path,
            "url": None if named_by_path else payload.get("url"),
            "mime_type": payload.get("mime_type") or "",
            "tags": payload.get("tags") or {},
        }
        | {
            name: payload.get(name)
            for name in (
                "anchor",
                "page_start",
                "page_end",
                "owner",
                "created_at",
                "modified_at",
                "acl_checked_at",
                "sketch",
            )
        },
        Hit,
    )
