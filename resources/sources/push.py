"""The source `push`: documents that programs send over HTTP, for systems without a connector.

They are recorded as uploads are, under a name of a source that the program chose (`wiki`), which is their partition and collection. A
document is identified by its owner, that name and the program's own id for it, so that no one can replace, find or guess the documents of
another owner. The latest version wins, by the time of its last change at the source, if the program states it.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple

from resources.core import permissions as principals
from resources.core.domain import SourceName
from resources.sources.spec import Capabilities, SourceSpec, WaitingWork
from resources.sources.uploads import Uploads, pending
from resources.stores.uploads import LOCK, NewUpload, UploadRecord, UploadTarget, record
from sql import sources as statements

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

Outcome = Literal["created", "updated", "unchanged", "outdated"]
"""What a push did: `unchanged`, everything was stored already; `outdated`, a later version was."""


class PushRecord(NamedTuple):
    """The outcome of a push; `upload` is None if nothing was written."""

    doc_id: str
    outcome: Outcome
    upload: UploadRecord | None = None


def source_id_of(owner: str, collection: str, own_id: str) -> str:
    """Return the id of an owner's document, `OWNER_EMAIL:COLLECTION/ID`."""
    return f"{principals.email(owner)}:{collection}/{own_id}"


def place_of(owner: str, collection: str, own_id: str, link: str | None, modified_at: datetime | None) -> UploadTarget:
    """Return the place of an owner's document in a pushed source, such as `wiki`. `link` is its address at the source."""
    return UploadTarget(SourceName.PUSH, source_id_of(owner, collection, own_id), collection, link, modified_at)


def compare(conn: Connection, document: NewUpload) -> Outcome:
    """Return what pushing the document would do now."""
    place, known = document.target, statements.UploadChanges(conn).pushed(doc_id=document.doc_id)
    if known is None or known.deleted:
        return "created"
    if place.modified_at is not None and known.stated_at is not None and place.modified_at < known.stated_at:
        return "outdated"
    wanted = statements.PushedState(
        content_hash=document.content_hash,
        file_name=document.file_name,
        title=document.title or document.file_name,
        description=document.description,
        mime_type=document.mime_type,
        permissions=list(principals.normalize([document.owner, *document.permissions])),
        tags=dict(document.tags),
        url=place.url,
        modified_at=place.modified_at or known.modified_at,
        stated_at=place.modified_at or known.stated_at,
        deleted=False,
    )
    return "unchanged" if wanted == known else "updated"


def push(conn: Connection, document: NewUpload) -> PushRecord:
    """Record a document whose bytes are in the blob store, unless the same or a later version is recorded.

    A document that was deleted is created again. Runs in its own transaction, or in the caller's. Raises as `record` does.
    """
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        outcome = compare(conn, document)
        if outcome in ("unchanged", "outdated"):
            return PushRecord(document.doc_id, outcome)
        return PushRecord(document.doc_id, outcome, record(conn, document))


def withdraw(conn: Connection, collection: str) -> None:
    """Record that everything pushed under this name was removed, by all owners; `assets.upkeep.removal` removes it from the index."""
    with conn.transaction():
        statements.UploadChanges(conn).lock_changes(key=LOCK)
        statements.UploadChanges(conn).withdraw(source=SourceName.PUSH, partition=collection)


SPEC = SourceSpec(
    name=SourceName.PUSH,
    label="Pushed documents",
    unit=("source", "sources"),
    open=lambda settings, _: Uploads(settings, source=SourceName.PUSH),
    help="Pushed documents need no settings.",
    capabilities=Capabilities(
        change_feed=True,
        private_folders=False,
        own_permissions=True,
        stored_size=True,
        user_supplied=True,
        chosen_users=True,
    ),
    waiting=WaitingWork("waiting_pushed_documents", partial(pending, source=SourceName.PUSH)),
)
