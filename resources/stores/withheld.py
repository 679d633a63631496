"""The collection of the vector index that holds what searches without Postgres must know.

Those searches take permissions from the points of the index. What makes a point too permissive, or a token or person unwelcome, is an
entry here: revoked tokens, people who have left, addresses that others were given, the sources of groups that were read, the remaining
readers of documents, and when each partition's permissions were checked. Every process that answers searches reads it from the index
itself, so that all agree without Postgres and without a shared disk.
Entries are points without vectors. While the collection is missing or was never completed, nothing may be answered from the index alone.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from qdrant_client import models
from qdrant_client.http.exceptions import UnexpectedResponse

from resources.core.errors import AbortSyncError
from resources.stores.qdrant import pages, qdrant_errors

if TYPE_CHECKING:
    from qdrant_client.qdrant_remote import QdrantRemote

    from sql.withheld import HeldDocument, PartitionCheck, Standing

COLLECTION = "withheld"
"""Not named like the collections of passages, which every step over all of them would otherwise include."""
BATCH_POINTS = 500
NOT_FOUND = 404
_NAMESPACE = uuid.UUID("0f2f5a55-9a0b-5f0b-8f6d-6f6d0a8b7c11")
_UNUSED = "unused"
"""An embedded engine's collection needs at least one kind of vectors; no point has any."""
_FIELDS = ("kind", "key", "source", "at", "readers", "until", "since", "checked_at")

COMPLETE, TOKEN, PERSON, FORMER, GROUPS = "complete", "token", "person", "former", "groups"
DOCUMENT, PARTITION, HELD = "document", "partition", "held"


class WithheldEntry(NamedTuple):
    """An entry as it is stored."""

    key: str
    payload: Mapping[str, Any]


def point_id(kind: str, key: str) -> str:
    """Return the id of the point that holds an entry."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}:{key}"))


def partition_key(source: str, partition: str) -> str:
    return f"{source}:{partition}"


class WithheldCollection:
    """Writes the entries. Raises `ServiceUnavailableError` when the vector index does not answer. Blocking."""

    def __init__(self, qdrant: QdrantRemote) -> None:
        self._qdrant = qdrant

    def is_complete(self) -> bool:
        """Return True if the collection has once received everything that Postgres knows."""
        try:
            with qdrant_errors("read what is withheld"):
                return bool(self._qdrant.retrieve(COLLECTION, [point_id(COMPLETE, "")], with_payload=False))
        except AbortSyncError:
            return False

    def complete(self) -> None:
        """Record that the collection has everything, from which on the index may answer alone."""
        self._put([_point(COMPLETE, "")])

    def tokens(self, expires: Mapping[str, float]) -> None:
        """Refuse tokens, by id, until they expire (Unix time)."""
        self._put([_point(TOKEN, token_id, until=until) for token_id, until in expires.items()])

    def people(self, emails: Iterable[str]) -> None:
        """Refuse people."""
        self._put([_point(PERSON, email) for email in emails])

    def former(self, since: Mapping[str, float]) -> None:
        """Refuse tokens made for the former holders of addresses: those from before a Unix time, by email."""
        self._put([_point(FORMER, email, since=at) for email, at in since.items()])

    def groups(self, sources: Iterable[str]) -> None:
        """Record that groups come from these sources, so that those in tokens made here may no longer count."""
        self._put([_point(GROUPS, source) for source in sources])

    def documents(self, standing: Iterable[Standing]) -> None:
        """Limit documents to these readers, of those that their points name."""
        self._put([_point(DOCUMENT, one.doc_id, source=one.source, readers=one.readers) for one in standing])

    def held(self, documents: Iterable[HeldDocument]) -> None:
        """Record since when the permissions of documents are unchecked."""
        self._put(
            [_point(HELD, one.doc_id, source=one.source, checked_at=one.held_at.timestamp()) for one in documents]
        )

    def checked(self, checks: Iterable[PartitionCheck]) -> None:
        """Record when the permissions of partitions were checked, as the points have them."""
        self._put(
            [
                _point(
                    PARTITION,
                    partition_key(one.source, one.partition),
                    source=one.source,
                    checked_at=one.checked_at.timestamp(),
                )
                for one in checks
            ]
        )

    def hide_partition(self, source: str, partition: str) -> None:
        """Withhold all documents of a partition until its permissions are checked again."""
        self._put([_point(PARTITION, partition_key(source, partition), source=source, checked_at=None)])

    def entries(self, kind: str, source: str | None = None) -> Iterator[list[WithheldEntry]]:
        """Yield the entries of a kind, one page at a time; none if there is no collection."""
        conditions: list[models.Condition] = [
            models.FieldCondition(key="kind", match=models.MatchValue(value=kind)),
            *([models.FieldCondition(key="source", match=models.MatchValue(value=source))] if source else []),
        ]
        try:
            for records in pages(self._qdrant, COLLECTION, models.Filter(must=conditions), _FIELDS):
                yield [WithheldEntry(str(payload["key"]), payload) for one in records if (payload := one.payload)]
        except AbortSyncError:
            return

    def remove(self, kind: str, keys: Sequence[str]) -> None:
        """Remove entries."""
        if keys:
            with qdrant_errors("remove what is no longer withheld"):
                ids: list[Any] = [point_id(kind, key) for key in keys]
                self._qdrant.delete(COLLECTION, models.PointIdsList(points=ids), wait=True)

    def _put(self, points: list[models.PointStruct]) -> None:
        for start in range(0, len(points), BATCH_POINTS):
            part = points[start : start + BATCH_POINTS]
            with qdrant_errors("write what is withheld"):
                try:
                    self._qdrant.upsert(COLLECTION, part, wait=True)
                except UnexpectedResponse as error:
                    if error.status_code != NOT_FOUND:
                        raise
                    self.create()
                    self._qdrant.upsert(COLLECTION, part, wait=True)

    def create(self) -> None:
        """Create the collection unless it exists."""
        with qdrant_errors(f"create the collection {COLLECTION}"):
            if not self._qdrant.collection_exists(COLLECTION):
                try:
                    self._qdrant.create_collection(
                        COLLECTION, vectors_config={}, sparse_vectors_config={_UNUSED: models.SparseVectorParams()}
                    )
                except UnexpectedResponse:  # another process was faster
                    if not self._qdrant.collection_exists(COLLECTION):
                        raise
            for field in ("kind", "source"):
                self._qdrant.create_payload_index(COLLECTION, field, models.PayloadSchemaType.KEYWORD, wait=True)


def _point(kind: str, key: str, **fields: Any) -> models.PointStruct:
    return models.PointStruct(
        id=point_id(kind, key), vector={}, payload={"kind": kind, "key": key, "at": time.time(), **fields}
    )


def wanted_ids(
    *,
    tokens: Iterable[str] = (),
    people: Iterable[str] = (),
    groups: Iterable[str] = (),
    documents: Iterable[str] = (),
    partitions: Collection[str] = (),
) -> list[str]:
    """Return the ids of the entries that say something of these, and of the one that says that the collection is complete."""
    ids = [point_id(COMPLETE, "")]
    ids += [point_id(TOKEN, one) for one in tokens]
    for one in people:
        ids += [point_id(PERSON, one), point_id(FORMER, one)]
    ids += [point_id(GROUPS, one) for one in groups]
    for one in documents:
        ids += [point_id(DOCUMENT, one), point_id(HELD, one)]
    return ids + [point_id(PARTITION, one) for one in partitions]


class WithheldNow(NamedTuple):
    """What the collection says of some documents: times are Unix times."""

    readers: Mapping[str, frozenset[str]]
    """Of documents that have fewer readers than their points say, by doc_id."""
    checked: Mapping[str, float | None]
    """When the permissions of partitions were checked, by `partition_key`; None: hidden. A missing partition is unchecked."""
    held: Mapping[str, float]
    """Since when the permissions of documents are unchecked, by doc_id."""

    def checked_at(self, doc_id: str, partition: str) -> float | None:
        """Return when the permissions of a document were checked; None if that is not known."""
        checked = self.checked.get(partition)
        return None if checked is None else min(checked, self.held.get(doc_id, checked))

    def permits(self, doc_id: str, partition: str, permitted: frozenset[str]) -> bool:
        """Return True if none of this takes the document from a caller who has these of its principals."""
        hidden = partition in self.checked and self.checked[partition] is None
        return not hidden and not permitted.isdisjoint(self.readers.get(doc_id, permitted))
