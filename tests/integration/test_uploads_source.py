"""The source `upload` over a real Postgres: records, order of changes, removal and sharing."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from resources.core.domain import Batch, Item, SourceName, document_id
from resources.core.errors import FailedDocumentError, InvalidRequestError
from resources.core.permissions import normalize
from resources.settings import Settings
from resources.sources.uploads import Uploads, pending
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection, connect
from resources.stores.uploads import NewUpload, Origin, UploadRecord, record, remove, revise, take_down

ADA, BOB = "ada@acme.com", "bob@acme.com"


@pytest.fixture
def conn(database: str) -> Iterator[Connection]:
    with connect(database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def uploads(database: str, tmp_path: Path) -> Uploads:
    return Uploads(Settings(_env_file=None, home=tmp_path, postgres_url=database))


def put(conn: Connection, text: str = "hello", **more: Any) -> UploadRecord:
    fields: dict[str, Any] = {
        "owner": ADA,
        "content_hash": hashlib.sha256(text.encode()).hexdigest(),
        "size": len(text),
        "file_name": "plan.md",
        "title": None,
        "description": None,
        "mime_type": "text/markdown",
        "permissions": [],
        "tags": {},
    }
    return record(conn, NewUpload(**{**fields, **more}))


def changes(uploads: Uploads, cursor: str | None = None) -> tuple[list[Item], list[str], str | None]:
    """Return what the only day reports since a cursor, and the next cursor."""
    (day,) = uploads.partitions()
    batches: list[Batch] = list(uploads.changes(day, cursor))
    assert {batch.listing for batch in batches} == {"delta"}
    seen = [item for batch in batches for item in batch.seen]
    return seen, [gone for batch in batches for gone in batch.deleted], batches[-1].cursor


def share(conn: Connection, *, doc_id: str, owner: str, permissions: list[str]) -> bool:
    """Share an upload with these principals and its owner; returns False if the owner has no such upload."""
    readers = list(normalize([owner, *permissions]))
    changed = revise(
        conn, doc_id=doc_id, owner=owner, change=lambda one: msgspec.structs.replace(one, permissions=readers)
    )
    return changed is not None


def live(conn: Connection, upload: UploadRecord, permissions: list[str]) -> None:
    """Write the document to the registry, as a sync does."""
    conn.execute(
        "INSERT INTO documents (doc_id, source, source_id, partition, source_title, state, permissions, payload_hash)"
        " VALUES (%s, 'upload', %s, 'day', 't', 'live', %s, 'indexed')",
        (upload.doc_id, upload.source_id, permissions),
    )


def registered(conn: Connection, upload: UploadRecord) -> dict[str, Any]:
    row = conn.execute(
        "SELECT state, permissions, payload_hash, deleted_at FROM documents WHERE doc_id = %s", (upload.doc_id,)
    ).fetchone()
    assert row is not None
    return row


def test_an_upload_becomes_an_item(conn: Connection, uploads: Uploads, tmp_path: Path) -> None:
    blob = Blobs((tmp_path / "lake").as_uri()).put([b"hello"])
    made = put(conn, title="The plan", description="Ours.", permissions=["Group:Eng@acme.com"], tags={"topic": "x"})
    assert made.created
    assert made.source_id == f"{ADA}:{blob.content_hash}"
    assert made.doc_id == document_id(SourceName.UPLOAD, made.source_id)
    (item,), deleted, _ = changes(uploads)
    assert not deleted
    assert item.source_id == made.source_id
    assert item.collection_ids == (item.partition,) == tuple(uploads.partitions())
    assert (item.title, item.path, item.mime_type, item.size) == ("The plan", "plan.md", "text/markdown", 5)
    assert (item.owner, item.description, item.tags) == (ADA, "Ours.", {"topic": "x"})
    assert item.permissions == (ADA, "group:eng@acme.com")
    assert item.version == item.locator == blob.content_hash
    assert item.created_at is not None
    assert item.created_at.utcoffset() is not None
    assert b"".join(uploads.fetch(item)) == b"hello"


def test_missing_bytes_are_reported(conn: Connection, uploads: Uploads) -> None:
    put(conn)
    (item,), _, _ = changes(uploads)
    with pytest.raises(FailedDocumentError, match="upload the file again"):
        list(uploads.fetch(item))


def test_without_shares_the_uploader_alone_may_read(conn: Connection, uploads: Uploads) -> None:
    put(conn, owner="Ada@Acme.com")
    assert changes(uploads)[0][0].permissions == (ADA,)


def test_a_draft_is_its_owners_alone(conn: Connection, uploads: Uploads) -> None:
    put(conn, permissions=["public"], tags={"lifecycle": "draft"})
    assert changes(uploads)[0][0].permissions == (ADA,)


def test_a_wrong_principal_keeps_nothing(conn: Connection, uploads: Uploads) -> None:
    with pytest.raises(InvalidRequestError):
        put(conn, permissions=["everyone"])
    assert uploads.partitions() == []


@pytest.mark.parametrize("field", [{"title": "a\0"}, {"file_name": "a\0.md"}, {"tags": {"a": ["\0"]}}])
def test_a_nul_is_refused_with_a_reason(conn: Connection, uploads: Uploads, field: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequestError, match="NUL"):
        put(conn, **field)
    assert uploads.partitions() == []


def test_the_same_content_again_is_the_same_record(conn: Connection, uploads: Uploads) -> None:
    first = put(conn, title="Old")
    (before,), _, cursor = changes(uploads)
    again = put(conn, title="New", file_name="renamed.md")
    assert (again.doc_id, again.created) == (first.doc_id, False)
    (after,), _, _ = changes(uploads, cursor)
    assert (after.title, after.path) == ("New", "renamed.md")
    assert (after.created_at, after.partition) == (before.created_at, before.partition)
    assert after.modified_at is not None
    assert before.modified_at is not None
    assert after.modified_at > before.modified_at


def test_the_same_content_of_two_people_are_two_documents(conn: Connection, uploads: Uploads) -> None:
    assert put(conn).doc_id != put(conn, owner=BOB).doc_id
    assert sorted(item.permissions for item in changes(uploads)[0]) == [(ADA,), (BOB,)]


def test_changes_come_in_order_from_a_cursor_and_an_empty_batch_keeps_it(conn: Connection, uploads: Uploads) -> None:
    put(conn, "one")
    put(conn, "two")
    seen, _, cursor = changes(uploads)
    assert [item.size for item in seen] == [3, 3]
    assert changes(uploads, cursor) == ([], [], cursor)
    put(conn, "three")
    seen, _, later = changes(uploads, cursor)
    assert [item.size for item in seen] == [5]
    assert int(later or 0) > int(cursor or 0)


def test_pages_leave_nothing_out(conn: Connection, uploads: Uploads, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resources.sources.uploads.PAGE", 2)
    made = [put(conn, f"text {number}").source_id for number in range(4)]
    seen, _, cursor = changes(uploads)
    assert [item.source_id for item in seen] == made
    assert changes(uploads, cursor)[0] == []


def test_taking_back_is_visible_at_once_and_reported(conn: Connection, uploads: Uploads) -> None:
    upload = put(conn)
    live(conn, upload, [ADA])
    _, _, cursor = changes(uploads)
    assert remove(conn, doc_id=upload.doc_id, owner=ADA)
    assert registered(conn, upload)["state"] == "deleted"
    assert registered(conn, upload)["permissions"] == []
    assert registered(conn, upload)["deleted_at"] is not None
    assert changes(uploads, cursor)[:2] == ([], [upload.source_id])
    assert not remove(conn, doc_id=upload.doc_id, owner=ADA)
    back = put(conn)
    assert (back.doc_id, back.created) == (upload.doc_id, False)
    assert [item.source_id for item in changes(uploads, cursor)[0]] == [upload.source_id]


@pytest.mark.parametrize("who", [BOB, "ada@acme.org"])
def test_only_the_owner_takes_back_or_shares(conn: Connection, uploads: Uploads, who: str) -> None:
    upload = put(conn, permissions=["public"])
    live(conn, upload, [ADA, "public"])
    assert not remove(conn, doc_id=upload.doc_id, owner=who)
    assert not share(conn, doc_id=upload.doc_id, owner=who, permissions=[who])
    assert registered(conn, upload)["state"] == "live"
    assert changes(uploads)[0][0].permissions == (ADA, "public")


def test_rights_are_taken_at_once_and_given_by_the_next_sync(conn: Connection, uploads: Uploads) -> None:
    upload = put(conn, permissions=[BOB, "domain:acme.com"])
    live(conn, upload, [ADA, BOB, "domain:acme.com"])
    assert share(conn, doc_id=upload.doc_id, owner=ADA, permissions=[BOB, "group:eng@acme.com"])
    row = registered(conn, upload)
    assert sorted(row["permissions"]) == [ADA, BOB]
    assert row["payload_hash"] == ""
    assert changes(uploads)[0][0].permissions == (ADA, BOB, "group:eng@acme.com")


def test_a_share_that_only_adds_leaves_the_document_as_it_is(conn: Connection) -> None:
    upload = put(conn)
    live(conn, upload, [ADA])
    assert share(conn, doc_id=upload.doc_id, owner=ADA, permissions=["public"])
    assert registered(conn, upload) == {
        "state": "live",
        "permissions": [ADA],
        "payload_hash": "indexed",
        "deleted_at": None,
    }


def test_a_change_without_a_difference_is_no_change(conn: Connection, uploads: Uploads) -> None:
    upload = put(conn, permissions=[BOB])
    _, _, cursor = changes(uploads)
    assert share(conn, doc_id=upload.doc_id, owner=ADA, permissions=[BOB])
    assert changes(uploads, cursor)[0] == []


def test_a_copy_is_shared_with_readers_of_its_original_only(conn: Connection, uploads: Uploads) -> None:
    upload = put(conn, origin=Origin(str(uuid.uuid4()), (ADA,), (ADA, BOB)))
    with pytest.raises(InvalidRequestError, match=r"eve@acme\.com may not read the original"):
        share(conn, doc_id=upload.doc_id, owner=ADA, permissions=["eve@acme.com"])
    assert share(conn, doc_id=upload.doc_id, owner=ADA, permissions=[BOB])
    assert changes(uploads)[0][0].permissions == (ADA, BOB)


def test_uploading_again_with_fewer_readers_narrows_at_once(conn: Connection) -> None:
    upload = put(conn, permissions=["public"])
    live(conn, upload, [ADA, "public"])
    put(conn)
    assert registered(conn, upload)["permissions"] == [ADA]


def test_pending_follows_the_saved_cursors(conn: Connection, uploads: Uploads) -> None:
    assert not pending(conn)
    upload = put(conn)
    assert pending(conn)
    _, _, cursor = changes(uploads)
    conn.execute(
        "INSERT INTO partitions (source, partition, cursor) VALUES ('upload', %s, %s)",
        (uploads.partitions()[0], cursor),
    )
    assert not pending(conn)
    remove(conn, doc_id=upload.doc_id, owner=ADA)
    assert pending(conn)


def test_nothing_is_kept_when_the_callers_transaction_fails(conn: Connection, uploads: Uploads) -> None:
    def handle() -> None:
        with conn.transaction():
            put(conn)
            conn.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        handle()
    assert uploads.partitions() == []


def test_a_change_is_never_numbered_below_one_that_was_already_read(
    conn: Connection, database: str, uploads: Uploads
) -> None:
    done = threading.Event()

    def second() -> None:
        with connect(database, autocommit=True) as other:
            put(other, "second")
        done.set()

    with conn.transaction():
        put(conn, "first")
        thread = threading.Thread(target=second)
        thread.start()
        with connect(database, autocommit=True) as watcher:
            waiting = "SELECT count(*) AS n FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            deadline = threading.Event()
            for _ in range(1000):
                row = watcher.execute(waiting).fetchone()
                if row and row["n"]:
                    break
                deadline.wait(0.01)
            else:
                pytest.fail("the second writer does not wait for the first")
        assert not done.is_set()
        assert uploads.partitions() == []
    thread.join(30)
    assert done.is_set()
    assert [item.size for item in changes(uploads)[0]] == [5, 6]


def test_no_day_is_ever_retired(uploads: Uploads) -> None:
    assert (uploads.name, uploads.retired(["2025-11-10"])) == (SourceName.UPLOAD, [])


def test_what_was_taken_down_cannot_be_handed_in_again_under_another_name(conn: Connection) -> None:
    taken = put(conn, "secret", name="a")
    put(conn, "other", name="kept")
    copy = put(conn, "secret", name="copy")
    assert take_down(conn, doc_id=taken.doc_id) is not None
    for name in ("a", "b", None, "kept"):
        with pytest.raises(InvalidRequestError, match="taken this document down"):
            put(conn, "secret", name=name)
    assert put(conn, "secret", name="copy").change > copy.change, "it was there before, and can be taken down itself"
    assert put(conn, "other", name="b").created
    assert put(conn, "secret", owner=BOB).created
