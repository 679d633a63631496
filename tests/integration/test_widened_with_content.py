"""A document that gets other content and more readers at once: nobody reads the former content who was not one of its readers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from assets import pipeline
from resources.core.domain import Item, SourceName
from resources.core.ports import Source
from resources.stores import uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import connect
from resources.syncs.syncing import open_sync
from sql.sources import UploadChanges
from sql.upkeep import PermissionAudit
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf

ADA, BOB, CYD = "ada@acme.example", "bob@acme.example", "cyd@acme.example"


def write(installation: Installation, text: str, *readers: str) -> None:
    """Write a note with its readers; without an owner, who would be one of them."""
    installation.write("note.md", f"# Note\n\n{text}\n", permissions=list(readers), owner=readers[0])


def list_only(installation: Installation, source: SourceName = SourceName.FILES, port: Source | None = None) -> None:
    """Do what a sync does first, and no more, as if it were killed or the embedding model were away."""
    with open_sync(installation.settings, source, requested_by="test") as job:
        job.planned = {"raw"}
        job.run("raw", partial(pipeline.raw, job, source=port))


def document(installation: Installation) -> dict[str, Any]:
    (row,) = installation.rows("SELECT doc_id::text, permissions, next_permissions, payload_hash FROM documents")
    return {
        **row,
        "permissions": set(row["permissions"]),
        "next": row["next_permissions"] and set(row["next_permissions"]),
    }


def in_points(installation: Installation) -> set[tuple[str, ...]]:
    return {tuple(sorted(point["permissions"])) for point in installation.points()}


def test_who_comes_with_new_content_does_not_read_the_former_one(installation: Installation) -> None:
    write(installation, "The secret is 4711.", ADA)
    installation.sync()
    write(installation, "The secret was removed.", ADA, BOB)
    list_only(installation)
    assert document(installation)["permissions"] == {ADA}
    assert document(installation)["next"] == {ADA, BOB}
    list_only(installation)
    assert document(installation)["permissions"] == {ADA}, "another listing does not widen it"
    installation.sync(compare=True)
    found = document(installation)
    assert (found["permissions"], found["next"]) == ({ADA, BOB}, None)
    assert in_points(installation) == {(ADA, BOB)}
    assert installation.agrees()
    installation.sync()
    assert installation.last["indexed"]["documents"] == 0


def test_readers_who_leave_with_the_former_content_leave_at_once(installation: Installation) -> None:
    write(installation, "The first plan.", ADA, BOB)
    installation.sync()
    write(installation, "The second plan.", ADA, CYD)
    list_only(installation)
    assert document(installation)["permissions"] == {ADA}
    installation.sync()
    assert (document(installation)["permissions"], in_points(installation)) == ({ADA, CYD}, {(ADA, CYD)})


def test_more_readers_of_the_same_content_read_it_at_once(installation: Installation) -> None:
    write(installation, "The same plan.", ADA)
    installation.sync()
    write(installation, "The same plan.", ADA, BOB)
    list_only(installation)
    assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA, BOB}, None)


def test_a_sync_killed_before_it_let_new_readers_in_is_made_up_for(installation: Installation) -> None:
    write(installation, "A plan.", ADA)
    installation.sync()
    installation.rows("UPDATE documents SET next_permissions = %s RETURNING 1", [ADA, BOB])
    installation.sync(compare=True)
    assert (document(installation)["permissions"], in_points(installation)) == ({ADA, BOB}, {(ADA, BOB)})
    assert installation.agrees()


class Versions(Shelf):
    """A source whose documents say which version they are."""

    def fetch(self, item: Item) -> Iterator[bytes]:
        yield f"The plan, version {item.version}.".encode()


def test_who_leaves_a_channel_meanwhile_is_not_let_in(installation: Installation) -> None:
    """The document itself is not listed again: all of the channel's have its members as readers."""
    channel = Versions()

    def see(version: str, *members: str, wait: bool = False) -> None:
        channel.put("plan", version=version, permissions=members)
        channel.rights["pond"] = members
        if wait:
            list_only(installation, SourceName.SLACK, channel)
        else:
            installation.sync(SourceName.SLACK, port=channel)

    see("1", ADA)
    installation.rows("UPDATE partitions SET cursor = NULL RETURNING 1")
    see("2", ADA, BOB, wait=True)
    assert document(installation)["next"] == {ADA, BOB}
    see("2", ADA)
    assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA}, None)


def test_copies_follow_once_the_new_readers_are_let_in(installation: Installation) -> None:
    write(installation, "The first plan.", ADA)
    installation.sync()
    (original,) = installation.rows("SELECT doc_id::text FROM documents")
    blob = Blobs(installation.settings.lake_address).put([b"A plan."])
    copy = uploads.NewUpload(
        owner=ADA, content_hash=blob.content_hash, size=blob.size, file_name="copy.md", title=None, description=None,
        mime_type="text/markdown", permissions=[BOB], tags={}, origin=uploads.Origin(original["doc_id"], (ADA,), (ADA,)),
    )  # fmt: skip
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        uploads.record(connection, copy)
    write(installation, "The second plan.", ADA, BOB)
    installation.sync()
    installation.sync(SourceName.UPLOAD)
    (copied,) = installation.rows("SELECT permissions FROM documents WHERE source = 'upload'")
    assert set(copied["permissions"]) == {ADA, BOB}


def test_a_document_that_is_deleted_meanwhile_has_no_readers(installation: Installation) -> None:
    write(installation, "The first plan.", ADA)
    installation.sync()
    write(installation, "The second plan.", ADA, BOB)
    list_only(installation)
    for path in ("note.md", "note.md.meta.json"):
        (installation.root / path).unlink()
    list_only(installation)
    assert (document(installation)["permissions"], document(installation)["next"]) == (set(), None)
    installation.sync()
    assert installation.points() == []


def test_who_is_named_with_a_later_content_does_not_wait_for_the_one_before(installation: Installation) -> None:
    """An owner who replaces an upload narrows what the index has of it at once, to the readers of the new content."""
    write(installation, "The first plan.", ADA)
    installation.sync()
    write(installation, "The second plan.", ADA, BOB)
    list_only(installation)
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        UploadChanges(connection).narrow_document(doc_id=document(installation)["doc_id"], permissions=[ADA, CYD])
    assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA}, {ADA})


def test_what_is_narrowed_meanwhile_is_not_widened_later(installation: Installation) -> None:
    write(installation, "The first plan.", ADA, BOB)
    installation.sync()
    write(installation, "The second plan.", ADA, BOB, CYD)
    list_only(installation)
    waiting = document(installation)
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        UploadChanges(connection).narrow_document(doc_id=waiting["doc_id"], permissions=[ADA, BOB])
        assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA, BOB}, {ADA, BOB})
        audit = PermissionAudit(connection, SourceName.FILES.value)
        audit.grant(rows=[{"doc_id": waiting["doc_id"], "permissions": [ADA, BOB, CYD]}])
        assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA, BOB}, {ADA, BOB, CYD})
        (stored,) = audit.granted(source_ids=["docs/note.md"])
        assert set(stored.permissions) == {ADA, BOB, CYD}, "the audit does not report that they are missing"
        audit.narrow(rows=[{"doc_id": waiting["doc_id"], "permissions": [ADA]}])
        assert (document(installation)["permissions"], document(installation)["next"]) == ({ADA}, {ADA})
