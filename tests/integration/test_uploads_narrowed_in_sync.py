"""An upload that its owner narrows or removes while a sync reads it: what the sync has read never gives back what was taken away."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest

from assets import pipeline
from resources.core.domain import Batch, SourceName
from resources.sources import open_source
from resources.stores import uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection, session
from resources.syncs.syncing import open_sync
from tests.fixtures.installation import Installation

ADA, BOB = "ada@acme.example", "bob@acme.example"


def upload(installation: Installation, text: str, *readers: str) -> str:
    blob = Blobs(installation.settings.lake_address).put([text.encode()])
    one = uploads.NewUpload(
        owner=ADA, content_hash=blob.content_hash, size=blob.size, file_name="plan.md", title=None, description=None,
        mime_type="text/markdown", permissions=readers, tags={}, name="plan",
    )  # fmt: skip
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        return uploads.record(connection, one).doc_id


def narrow(connection: Connection, doc_id: str) -> None:
    uploads.revise(
        connection, doc_id=doc_id, owner=ADA, change=lambda own: msgspec.structs.replace(own, permissions=[ADA])
    )


def remove(connection: Connection, doc_id: str) -> None:
    uploads.remove(connection, doc_id=doc_id, owner=ADA)


def found(installation: Installation) -> list[list[str]]:
    return [
        row["permissions"]
        for row in installation.rows("SELECT permissions FROM checked_documents WHERE state = 'live'")
    ]


class ReadSource:
    """A source that is as it is until a batch has been read from it."""

    def __init__(self, installation: Installation, change: Callable[[], None]) -> None:
        self._port, self._change = open_source(installation.settings, SourceName.UPLOAD), change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        for batch in self._port.changes(partition, cursor):
            self._change()
            yield batch


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("change", "left"), [(narrow, [[ADA]]), (remove, [])])
def test_what_an_owner_takes_away_while_a_sync_reads_stays_away(
    installation: Installation,
    known: bool,
    change: Callable[[Connection, str], None],
    left: list[list[str]],
) -> None:
    if known:
        upload(installation, "The plan of the otters.", BOB)
        installation.sync(SourceName.UPLOAD)
    doc_id = upload(installation, "The new plan of the otters.", BOB)

    def take_away() -> None:
        with session(installation.settings.postgres_dsn, autocommit=True) as connection:
            change(connection, doc_id)

    with open_sync(installation.settings, SourceName.UPLOAD) as job:
        pipeline.sync(job, source=ReadSource(installation, take_away))  # type: ignore[arg-type]
    assert found(installation) == left
    assert installation.sync(SourceName.UPLOAD).error is None
    assert found(installation) == left
    assert [sorted(point["permissions"]) for point in installation.points()] == left
    assert installation.agrees()
    counted = "SELECT coalesce(sum(source_count), 0)::int AS documents FROM partitions WHERE source = 'upload'"
    assert installation.rows(counted) == [{"documents": len(left)}]


@pytest.mark.parametrize(("change", "left"), [(narrow, [[ADA]]), (remove, [])])
def test_a_batch_waits_for_an_owner_who_is_just_taking_something_away(
    installation: Installation,
    change: Callable[[Connection, str], None],
    left: list[list[str]],
) -> None:
    doc_id = upload(installation, "The plan of the otters.", BOB)
    installation.sync(SourceName.UPLOAD)
    upload(installation, "The new plan of the otters.", BOB)
    with session(installation.settings.postgres_dsn) as connection:

        def commit() -> None:
            while not ended.is_set() and not installation.rows("SELECT FROM pg_locks WHERE NOT granted"):
                ended.wait(0.01)
            connection.commit()

        ended = threading.Event()
        owner = threading.Thread(target=commit)

        def take_away() -> None:
            connection.execute("SELECT 1")  # begins the transaction
            change(connection, doc_id)
            owner.start()

        with open_sync(installation.settings, SourceName.UPLOAD) as job:
            pipeline.sync(job, source=ReadSource(installation, take_away))  # type: ignore[arg-type]
        ended.set()
        owner.join()
    assert found(installation) == left
