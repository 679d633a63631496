"""The records of uploads in Postgres: made (`record`), changed (`revise`) and removed (`remove`) by their owner.

The bytes are in the blob store. The next sync of `resources.sources.uploads` follows the records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from resources.core import permissions as principals
from resources.core.domain import SourceName, document_id
from resources.core.errors import InvalidRequestError, RetryLaterError
from resources.core.json import has_nul
from resources.stores.quotas import Quota
from resources.stores.withholding import withhold_documents
from sql import sources as statements
from sql.withheld import WithheldStatements

if TYPE_CHECKING:
    from resources.stores.postgres import Connection
    from resources.stores.withheld import WithheldCollection

LOCK = 0x75706C6F6164
"""Key of the advisory lock that orders changes ("upload" in ASCII)."""


class UploadRecord(NamedTuple):
    """A recorded upload. `created` is False if this owner had already uploaded the same content."""

    doc_id: str
    source_id: str
    created: bool
    change: int
    """Number of the change; a sync whose cursor has reached it has processed it."""
    readers: tuple[str, ...]
    """Who may read it once indexed: the owner and those it is shared with; only the owner if it is a draft."""


class BlobStore(Protocol):
    def exists(self, content_hash: str) -> bool: ...


class Revised(NamedTuple):
    """An upload before and after a change by its owner."""

    before: statements.OwnUpload
    after: statements.OwnUpload
    readers: tuple[str, ...]
    """Who may read it once the change is indexed."""


class Origin(NamedTuple):
    """The managed document that an upload is a copy of: only readers of the original may read the copy."""

    doc_id: str
    via: tuple[str, ...]
    """The owner's principals that give access to the original."""
    readers: tuple[str, ...]


class UploadTarget(NamedTuple):
    """Target of an upload: source, id there, and fields that only sources other than `upload` set."""

    source: SourceName
    source_id: str
    partition: str | None = None
    """None: the day."""
    url: str | None = None
    modified_at: datetime | None = None
    """Last change at the source; None: now."""


class NewUpload(NamedTuple):
    """A document as it is handed in; its bytes are in the blob store when it is recorded."""

    owner: str
    content_hash: str
    size: int
    file_name: str
    title: str | None
    """None: the file name."""
    description: str | None
    mime_type: str
    permissions: Collection[str]
    """Who may read it besides its owner."""
    tags: Mapping[str, Any]
    name: str | None = None
    """The owner's name for it, whatever its content: the latest upload wins. None: the content identifies it."""
    origin: Origin | None = None
    """The managed document that it is a copy of."""
    place: UploadTarget | None = None
    """Its place in another source, which identifies it."""

    @property
    def target(self) -> UploadTarget:
        source_id = source_id_of(principals.email(self.owner), self.content_hash, self.name)
        return self.place or UploadTarget(SourceName.UPLOAD, source_id)

    @property
    def doc_id(self) -> str:
        return document_id(self.target.source, self.target.source_id)


def source_id_of(owner: str, content_hash: str, name: str | None = None) -> str:
    """Return the id of an owner's copy of a content, `OWNER_EMAIL:SHA256`, or of the owner's document with that name."""
    return f"{owner}:{content_hash if name is None else name}"


def record(conn: Connection, upload: NewUpload, quota: Quota | None = None) -> UploadRecord:
    """Record an upload whose bytes are already in the blob store; idempotent for the same owner and content.

    The owner may always read it. Runs in its own transaction, or in the caller's if one is open.

    Raises `InvalidRequestError` for an invalid principal, a NUL in a text, and a document that an administrator has taken down, and what
    `Quota.check` raises.
    """
    owner, target, doc_id, tags = principals.email(upload.owner), upload.target, upload.doc_id, dict(upload.tags)
    readers = principals.normalize([owner, *upload.permissions])
    texts = (upload.file_name, upload.title or "", upload.description or "")
    if any("\0" in text for text in texts) or has_nul(json.dumps(tags)):
        raise InvalidRequestError("file name, title, description and tags must not contain a NUL character.")
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        if quota is not None:
            quota.check(conn, owner=owner, source_id=target.source_id, size=upload.size)
        row = statements.UploadChanges(conn).put_upload(
            source=target.source,
            source_id=target.source_id,
            doc_id=doc_id,
            owner=owner,
            partition=target.partition,
            content_hash=upload.content_hash,
            file_name=upload.file_name,
            title=upload.title or upload.file_name,
            description=upload.description,
            mime_type=upload.mime_type,
            size=upload.size,
            permissions=list(readers),
            tags=tags,
            url=target.url,
            modified_at=target.modified_at,
            origin=upload.origin.doc_id if upload.origin else None,
            origin_via=list(upload.origin.via) if upload.origin else [],
            origin_readers=list(upload.origin.readers) if upload.origin else [],
        )
        if row is None:
            raise InvalidRequestError(
                "file: an administrator has taken this document down, or one of yours with the same content; it cannot be added again."
            )
        # a copy that is now shared with fewer users is hidden from the others at once, not at the next sync
        granted = readers_of(
            statements.Readership(
                owner=owner,
                permissions=list(readers),
                tags=tags,
                origin=row.origin,
                origin_via=row.origin_via,
                origin_readers=row.origin_readers,
            )
        )
        _narrow(conn, doc_id, granted)
    return UploadRecord(doc_id, target.source_id, row.created, row.change, granted)


def check_stored(blobs: BlobStore, content_hash: str) -> None:
    """Raise `RetryLaterError` if an erasure removed the bytes between their upload and its record.

    Call it after `record`, in the same transaction: an erasure waits for that transaction.
    """
    if not blobs.exists(content_hash):
        raise RetryLaterError("The same content was just being erased. Send the file again.", 1)


def put_ingest_job(conn: Connection, kept: UploadRecord, *, owner: str, job_id: str) -> None:
    """Record the job of an ingest request in the caller's transaction."""
    statements.UploadChanges(conn).put_ingest_job(
        job_id=job_id, doc_id=kept.doc_id, owner=principals.email(owner), change=kept.change
    )


def revise(
    conn: Connection,
    *,
    doc_id: str,
    owner: str,
    change: Callable[[statements.OwnUpload], statements.OwnUpload],
) -> Revised | None:
    """Change title, description, tags and readers of an upload, as `change` returns them. Return None if the owner has no such upload.

    Readers who are left out lose access at once, new ones get it with the next sync; nothing is embedded again. Without a difference,
    nothing is written. Runs in its own transaction, or in the caller's. Raises `InvalidRequestError` for a reader who may not read the
    original of a copy.
    """
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        before = statements.UploadChanges(conn).own_upload(doc_id=doc_id, owner=principals.email(owner))
        if before is None:
            return None
        after = change(before)
        readers = readers_of(after)
        if after != before:
            for principal in set(after.permissions) - set(before.permissions):
                if after.origin is not None and not principals.covers(after.origin_readers, principal):
                    raise InvalidRequestError(
                        f"share: {principal} may not read the original; a copy is never shared wider."
                    )
            statements.UploadChanges(conn).revise_upload(
                doc_id=doc_id,
                title=after.title,
                description=after.description,
                tags=after.tags,
                permissions=after.permissions,
            )
            _narrow(conn, doc_id, readers)
    return Revised(before, after, readers)


def follow_origins(conn: Connection, withheld: WithheldCollection, origins: list[str] | None = None) -> None:
    """Narrow at once the permissions of copies whose originals' were narrowed; the next sync of uploads writes the rest.

    `origins`: only copies of these documents. Call it last in the transaction that changes their readers, or by itself.
    """
    changes = statements.UploadChanges(conn)
    if origins is not None and not changes.has_copies(origins=origins):
        return
    with conn.transaction():
        changes.lock_changes(key=LOCK)
        rows = changes.follow_origins(origins=origins)
        copies = [str(row.doc_id) for row in rows]
        WithheldStatements(conn).lock(doc_ids=copies)
        for row in rows:
            _narrow(conn, str(row.doc_id), readers_of(row))
        withhold_documents(conn, withheld, copies)


def narrow_read(conn: Connection, rows: Collection[dict[str, Any]], read: int) -> set[str]:
    """Narrow registry rows of uploads that have changed since a sync read them, up to the change `read`. Return the ids of removed ones.

    Call it in the transaction that writes the rows, before anything else: it waits for owners who are changing or removing one.
    """
    statements.UploadChanges(conn).lock_changes(key=LOCK)
    changed = statements.UploadChanges(conn).changed_since(doc_ids=[row["doc_id"] for row in rows], change=read)
    now = {str(one.doc_id): () if one.deleted else readers_of(one) for one in changed}
    for row in rows:
        if (readers := now.get(row["doc_id"])) is not None:
            kept = tuple(one for one in row["permissions"] if one in readers)
            row |= {"permissions": kept, "payload_hash": ""}  # the next sync writes what else has changed
    return {str(one.doc_id) for one in changed if one.deleted}


def take_down(conn: Connection, *, doc_id: str) -> statements.TakenDown | None:
    """Remove an upload for good, as an administrator; its owner cannot hand it in again. Return its source and owner, or None."""
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        taken = statements.UploadChanges(conn).take_down(doc_id=doc_id)
        if taken is None:
            return None
        statements.UploadChanges(conn).hide_document(doc_id=doc_id)
    return taken


def remove(conn: Connection, *, doc_id: str, owner: str) -> SourceName | None:
    """Remove an upload: invisible on return, its points deleted by the next sync. Return its source, or None if there is none.

    Only the owner can; other callers learn nothing. Runs in its own transaction, or in the caller's.
    """
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        source = statements.UploadChanges(conn).delete_upload(doc_id=doc_id, owner=principals.email(owner))
        if source is None:
            return None
        statements.UploadChanges(conn).hide_document(doc_id=doc_id)
    return SourceName(source)


def removed(conn: Connection, *, doc_id: str, owner: str, curator: bool) -> SourceName | None:
    """Return the source of an upload that its owner has removed, or with `curator` one that was taken down, until it is erased."""
    source = statements.UploadChanges(conn).removed_upload(
        doc_id=doc_id, owner=principals.email(owner), curator=curator
    )
    return None if source is None else SourceName(source)


def readers_of(row: statements.Readership) -> tuple[str, ...]:
    """Return who may read an upload: those its owner shares it with; for a copy, only readers of the original."""
    wanted = principals.granted(row.permissions, row.owner, row.tags)
    if row.origin is None:
        return wanted
    readers = set(row.origin_readers)
    still = not readers.isdisjoint(row.origin_via)
    return tuple(one for one in wanted if principals.covers(readers, one) or (one == row.owner and still))


def _narrow(conn: Connection, doc_id: str, readers: Iterable[str]) -> None:
    statements.UploadChanges(conn).narrow_document(doc_id=doc_id, permissions=list(readers))
