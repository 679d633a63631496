"""The permission check after retrieval: of the candidates found, return the passages that the caller may read right now.

The registry in Postgres decides, for cached and fresh candidates alike. While Postgres is down, the payloads of the index stand in. Either
way, documents whose permissions were not checked recently are held back and counted. Permissions of uploads are kept in Postgres itself, so
they are never too old there; without Postgres they age like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from resources.core.domain import Access
from resources.sources import capabilities
from resources.stores.withheld import WithheldNow
from serving.http.database import Database
from serving.identity.withheld import partition_of
from serving.search.retrieval.cache import Candidates
from serving.search.retrieval.passage import Neighbour, Passage
from serving.search.retrieval.query import SearchQuery
from serving.search.retrieval.respell import MOST_PASSAGES
from sql.serving import WebReads
from sql.serving_rows import Holder


class _CheckedPassage(Passage, frozen=True, kw_only=True):
    """A passage as the registry returns it; without its text when it is held back."""

    held_back: bool


_ROWS = msgspec.json.Decoder(list[_CheckedPassage])
_COPIED = (
    "anchor",
    "page_start",
    "page_end",
    "owner",
    "author",
    "language",
    "created_at",
    "modified_at",
    "sketch",
)


KEPT = 64
"""Callers whose principals are kept as texts."""


class Checked(NamedTuple):
    """Passages that may be shown, by chunk id, and the documents that were held back for the age of their permissions."""

    passages: Mapping[str, Passage]
    held_back: frozenset[str]


class Registry:
    """Reads passages from Postgres."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def readable(self, query: SearchQuery, candidates: Candidates, fresh_since: datetime) -> Checked:
        """Return the live candidates that the caller may read, of documents checked since. Raises `ServiceUnavailableError`."""
        return await recheck(
            self._database,
            query.access,
            [one.chunk_id for one in candidates.ranked],
            fresh_since,
            collection=candidates.collection,
            archived=query.narrowing.include_archived,
            collection_ids=query.narrowing.collection_ids,
        )

    async def words(
        self, forms: Collection[str], lexemes: str, access: Access, fresh_since: datetime, collection: str | None
    ) -> list[Holder]:
        """Return passages that the caller may read and that hold any of the words."""
        return await WebReads(self._database).readable_words(
            forms=" | ".join(sorted(forms)),
            lexemes=lexemes,
            principals=_object_of(access.principals),
            fresh_since=fresh_since,
            collection=collection,
            most=MOST_PASSAGES,
        )

    async def stale_partitions(self, fresh_since: datetime) -> tuple[tuple[str, str], ...]:
        """Return (source, partition) of all documents whose permissions were checked before."""
        found = await WebReads(self._database).stale_partitions(fresh_since=fresh_since)
        return tuple((one.source, one.partition) for one in found)

    async def neighbours(
        self,
        access: Access,
        passages: Sequence[Passage],
        distance: int,
        fresh_since: datetime,
        *,
        collection: str | None,
    ) -> list[Passage]:
        """Return the passages with the chunks around them in this collection, up to `distance` away."""
        rows = await WebReads(self._database).neighbours(
            doc_ids=[one.doc_id for one in passages],
            chunk_indexes=[one.chunk_index for one in passages],
            collection=collection,
            distance=distance,
            principals=sorted(access.principals),
            fresh_since=fresh_since,
        )
        around: dict[tuple[str, int], list[Neighbour]] = {}
        for row in rows:
            found = Neighbour(row.chunk_id, row.chunk_index, row.chunk_text, row.page_start, row.page_end)
            around.setdefault((row.doc_id, row.around), []).append(found)
        return [
            msgspec.structs.replace(one, neighbours=around.get((one.doc_id, one.chunk_index), [])) for one in passages
        ]


async def recheck(
    database: Database,
    access: Access,
    chunk_ids: Sequence[str],
    fresh_since: datetime,
    *,
    collection: str | None = None,
    archived: bool,
    collection_ids: Sequence[str],
) -> Checked:
    """Return the live chunks that the caller may read, of documents checked since. Raises `ServiceUnavailableError`.

    They are read from `collection`, the one that was searched; None is the active one.
    Without `archived`, archived documents are left out here and not in the vector search, where a second condition makes Qdrant look at
    every point again. With `collection_ids`, a document counts only by a collection whose name the caller may know: the vector search
    filters by every collection, and would reveal which hidden folder holds a document.
    """
    if not chunk_ids:
        return Checked({}, frozenset())
    hits = await WebReads(database).recheck(
        chunk_ids=f"{{{','.join(chunk_ids)}}}",
        collection=collection,
        principals=_array_of(access.principals),
        fresh_since=fresh_since,
        collection_ids=list(collection_ids) or None,
    )
    rows = [row for row in _ROWS.decode(hits) if archived or row.tags.get("lifecycle") != "archived"]
    readable = {row.chunk_id: row for row in rows if not row.held_back}
    return Checked(readable, frozenset(row.doc_id for row in rows if row.held_back))


@lru_cache(KEPT)
def _array_of(principals: frozenset[str]) -> str:
    """Return a text that Postgres reads as an array. Written as a parameter, 5,000 take 8 ms."""
    quoted = (one.replace("\\", "\\\\").replace('"', '\\"') for one in sorted(principals))
    return "{" + ",".join(f'"{one}"' for one in quoted) + "}"


@lru_cache(KEPT)
def _object_of(principals: frozenset[str]) -> str:
    """Return a JSON object whose keys are the principals."""
    return msgspec.json.encode(dict.fromkeys(sorted(principals), 0)).decode()


def from_payloads(
    payloads: Mapping[str, Mapping[str, Any]],
    access: Access,
    fresh_since: datetime,
    withheld: WithheldNow,
    *,
    collection_ids: Sequence[str],
) -> Checked:
    """Return passages made from payloads of points, for those that are permitted and were checked since.

    `withheld` says what has been taken away since, and when the permissions of partitions were checked. Payloads do not say who may know
    names of folders, so paths are left out, and no document is found by a folder.
    """
    readable: dict[str, Passage] = {}
    held: set[str] = set()
    for chunk_id, payload in payloads.items():
        permitted = access.principals & set(payload.get("permissions") or ())
        partition = partition_of(payload)
        if not withheld.permits(payload["doc_id"], partition, permitted):
            continue
        if collection_ids and capabilities(payload.get("source_type") or "").private_folders:
            continue
        checked = withheld.checked_at(payload["doc_id"], partition)
        passage = _from_payload(chunk_id, payload, None if checked is None else datetime.fromtimestamp(checked, UTC))
        if passage.acl_checked_at is None or passage.acl_checked_at < fresh_since:
            held.add(passage.doc_id)
        else:
            readable[chunk_id] = passage
    return Checked(readable, frozenset(held - {passage.doc_id for passage in readable.values()}))


def _from_payload(chunk_id: str, payload: Mapping[str, Any], checked_at: datetime | None) -> Passage:
    collections: Iterable[str] = payload.get("collection_ids") or ()
    source, path = payload.get("source_type") or "", payload.get("path") or ""
    offers = capabilities(source)
    in_folders, named_by_path = offers.private_folders, offers.private_folders and offers.named_by_path
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
            "partition": payload.get("partition"),
            "source_id": payload["doc_id"] if named_by_path else payload.get("source_id") or "",
            "path": path.rpartition("/")[2] if in_folders else path,
            "url": None if named_by_path else payload.get("url"),
            "mime_type": payload.get("mime_type") or "",
            "tags": payload.get("tags") or {},
            "acl_checked_at": checked_at,
        }
        | {name: payload.get(name) for name in _COPIED},
        Passage,
    )
