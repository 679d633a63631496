"""Reconciliation with real stores: each kind of difference is found, counted, shown and repaired; nothing else changes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from qdrant_client import models
from structlog.testing import capture_logs

from assets.intake.listing_record import ListingRecord
from assets.intake.rows import raw_table
from assets.upkeep.reconcile import ReconcileReport, reconcile
from orchestration.cli import run
from orchestration.reconciliation import sweep_all
from resources.core.domain import SourceName, chunk_id, document_id
from resources.core.errors import AbortSyncError, AuthorizationError, BusyError
from resources.core.ports import Source
from resources.core.tables import table
from resources.stores import qdrant, uploads
from resources.stores.blobs import Blobs
from resources.stores.lake import Lake
from resources.stores.postgres import session
from resources.syncs.jobs import create_job, hold
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf
from tests.fixtures.upkeep import as_environment, do

FILES, SLACK = SourceName.FILES, SourceName.SLACK


@pytest.fixture
def filled(installation: Installation) -> Installation:
    for number in range(3):
        installation.write(
            f"doc{number}.txt", f"Note {number}: the otter of river number {number} sleeps until noon.\n"
        )
    installation.sync()
    return installation


def counts(report: ReconcileReport) -> dict[str, int]:
    """Return the counts that are not zero."""
    found = {f"orphans.{side}": getattr(report.orphans, side) for side in ("lake", "postgres", "qdrant")}
    found |= {f"missing.{side}": getattr(report.missing, side) for side in ("lake", "postgres", "qdrant")}
    return {name: number for name, number in found.items() if number}


def states(installation: Installation) -> dict[str, str]:
    return {row["source_id"]: row["state"] for row in installation.rows("SELECT source_id, state FROM documents")}


def lake_orphan(installation: Installation) -> None:
    """Delete a document from the registry and the source, but not from the lake."""
    (installation.root / "doc0.txt").unlink()
    do(installation, "DELETE FROM documents WHERE source_id = 'docs/doc0.txt'")
    client = qdrant.client(installation.settings)
    qdrant.delete_documents(client, qdrant.ALIAS, [document_id(FILES, "docs/doc0.txt")])


def postgres_orphan(installation: Installation) -> None:
    (installation.root / "doc0.txt").unlink()


def qdrant_orphan(installation: Installation) -> None:
    """Add points without a document, of a document with another chunk, and of no source; one of them in an old collection."""
    client = qdrant.client(installation.settings)
    (point, *_), _ = client.scroll(qdrant.ALIAS, limit=1, with_vectors=True, with_payload=True)
    strangers = {
        chunk_id(document_id(FILES, "docs/never.txt"), "1", 0): {
            **(point.payload or {}),
            "doc_id": document_id(FILES, "docs/never.txt"),
        },
        chunk_id(document_id(FILES, "docs/doc1.txt"), "0", 7): point.payload,
        chunk_id(document_id(FILES, "docs/doc1.txt"), "0", 8): {"doc_id": document_id(FILES, "docs/doc1.txt")},
    }
    for stranger, payload in strangers.items():
        client.upsert(qdrant.ALIAS, [models.PointStruct(id=stranger, vector=point.vector, payload=payload)])
    qdrant.create_collection(client, "documents_older_4", 4)
    old = {**(point.payload or {}), "doc_id": document_id(FILES, "docs/gone.txt")}
    client.upsert(
        "documents_older_4",
        [models.PointStruct(id=document_id(FILES, "docs/gone.txt"), vector={"dense": [1.0, 0, 0, 0]}, payload=old)],
    )


def lake_row_missing(installation: Installation) -> None:
    add_tombstone(installation, 1)


def add_tombstone(installation: Installation, later: int) -> None:
    """Add a row to the lake by which a document was deleted `later` than it was written."""
    lake = Lake(installation.settings.lake_address)
    name = raw_table(FILES)
    row = lake.latest(name).filter(pl.col("source_id") == "docs/doc1.txt").collect()
    tombstone = row.with_columns(op=pl.lit("delete"), seq=pl.col("seq") + later).select(table(name).schema.names())
    lake.append(name, tombstone)


def blob_missing(installation: Installation) -> None:
    (row,) = installation.rows("SELECT content_hash FROM documents WHERE source_id = 'docs/doc1.txt'")
    Blobs(installation.settings.lake_address).delete(row["content_hash"])


def postgres_missing(installation: Installation) -> None:
    installation.write("new.txt", "A new note: the otter of the northern river sleeps until evening.\n")


def postgres_chunks_missing(installation: Installation) -> None:
    """Delete chunk rows: their points are orphans, and the document counts as missing once."""
    do(installation, "DELETE FROM chunks WHERE doc_id = %s", document_id(FILES, "docs/doc1.txt"))


def qdrant_missing(installation: Installation) -> None:
    client = qdrant.client(installation.settings)
    qdrant.delete_documents(client, qdrant.ALIAS, [document_id(FILES, "docs/doc1.txt")])


def collection_missing(installation: Installation) -> None:
    client = qdrant.client(installation.settings)
    name = qdrant.current_collection(client)
    assert name is not None
    client.delete_collection(name)


def lake_missing(installation: Installation) -> None:
    shutil.rmtree(installation.settings.home / "lake" / "tables" / raw_table(FILES))


DIFFERENCES: list[tuple[Callable[[Installation], None], dict[str, int]]] = [
    (lake_orphan, {"orphans.lake": 1}),
    (postgres_orphan, {"orphans.postgres": 1}),
    (qdrant_orphan, {"orphans.qdrant": 4}),
    (lake_row_missing, {"missing.lake": 1}),
    (blob_missing, {"missing.lake": 1}),
    (lake_missing, {"missing.lake": 3}),
    (postgres_missing, {"missing.postgres": 1}),
    (postgres_chunks_missing, {"missing.postgres": 1, "orphans.qdrant": 1}),
    (qdrant_missing, {"missing.qdrant": 1}),
    (collection_missing, {"missing.qdrant": 3}),
]


@pytest.mark.parametrize(("damage", "found"), DIFFERENCES, ids=[damage.__name__ for damage, _ in DIFFERENCES])
def test_each_difference_is_found_and_repaired(
    filled: Installation, damage: Callable[[Installation], None], found: dict[str, int]
) -> None:
    damage(filled)
    look = reconcile(filled.settings, FILES, apply=False)
    assert counts(look) == found
    assert (look.repaired, look.clean()) == (0, False)
    assert set(look.examples) == set(found)
    again = reconcile(filled.settings, FILES, apply=False)
    assert counts(again) == found, "a report without --apply changes nothing"
    repaired = reconcile(filled.settings, FILES, apply=True)
    assert counts(repaired) == found
    assert (repaired.repaired, repaired.clean(), repaired.error) == (sum(found.values()), True, None)
    after = reconcile(filled.settings, FILES, apply=False)
    assert (counts(after), after.clean()) == ({}, True)
    run = filled.sync()
    assert run.counts.embedded == 0
    assert filled.agrees()
    texts = len(list(filled.root.iterdir()))
    assert len(filled.points()) == texts


def test_an_agreeing_index_is_left_as_it_is(filled: Installation) -> None:
    state = "SELECT indexed_at, changed_at, version FROM documents JOIN index_entries USING (doc_id) ORDER BY doc_id"
    before = filled.rows(state)
    report = reconcile(filled.settings, FILES, apply=True)
    assert (counts(report), report.checked, report.repaired, report.clean()) == ({}, 3, 0, True)
    assert filled.rows(state) == before
    jobs = filled.rows("SELECT status, embedded FROM sync_jobs WHERE requested_by = 'reconcile'")
    assert jobs == [{"status": "success", "embedded": 0}]


def test_the_newest_row_of_the_lake_counts_whatever_their_order(filled: Installation) -> None:
    add_tombstone(filled, -1)
    report = reconcile(filled.settings, FILES, apply=False)
    assert (counts(report), report.checked) == ({}, 3)


def test_missing_points_are_written_without_parsing_or_embedding(filled: Installation) -> None:
    qdrant_missing(filled)
    reconcile(filled.settings, FILES, apply=True)
    assert filled.rows("SELECT embedded FROM sync_jobs WHERE requested_by = 'reconcile'") == [{"embedded": 0}]
    assert len(filled.points()) == 3


def test_a_mass_deletion_waits_for_approval(installation: Installation) -> None:
    for number in range(30):
        installation.write(
            f"doc{number}.txt", f"Note {number}: the otter of river number {number} sleeps until noon.\n"
        )
    installation.sync()
    for number in range(25):
        (installation.root / f"doc{number}.txt").unlink()
    report = reconcile(installation.settings, FILES, apply=True)
    assert (counts(report), report.repaired, report.waiting, report.clean()) == ({"orphans.postgres": 25}, 0, 25, False)
    assert list(states(installation).values()).count("live") == 30
    later = reconcile(installation.settings, FILES, apply=False)
    assert (counts(later), later.waiting, later.clean()) == ({}, 25, True)


def test_a_partition_that_cannot_be_listed_is_reported_and_left_alone(installation: Installation) -> None:
    shelf = Shelf()
    for name in ("a", "b"):
        shelf.put(name)
    shelf.put("c", "lake")
    installation.sync(SLACK, port=shelf)
    del shelf.items["pond"]["b"]
    del shelf.items["lake"]["c"]
    shelf.faults["pond"] = AbortSyncError("The listing broke off.")
    look = reconcile(installation.settings, SLACK, apply=False, port=shelf)
    assert counts(look) == {"orphans.postgres": 1}
    assert look.examples["orphans.postgres"] == ["c"]
    assert look.unlisted == {"pond": "The listing broke off."}
    report = reconcile(installation.settings, SLACK, apply=True, port=shelf)
    assert (report.repaired, report.unlisted, report.clean()) == (1, look.unlisted, False)
    assert states(installation) == {"a": "live", "b": "live", "c": "deleted"}


@pytest.mark.parametrize("error", [AbortSyncError("Nobody answers."), AuthorizationError("The token is revoked.")])
def test_a_source_that_refuses_stops_only_what_depends_on_it(installation: Installation, error: Exception) -> None:
    shelf = Shelf()
    for name in ("a", "b"):
        shelf.put(name)
    installation.sync(SLACK, port=shelf)
    qdrant.delete_documents(qdrant.client(installation.settings), qdrant.ALIAS, [document_id(SLACK, "a")])
    do(installation, "DELETE FROM documents WHERE source_id = 'b'")
    shelf.refuses = error
    report = reconcile(installation.settings, SLACK, apply=True, port=shelf)
    assert counts(report) == {"orphans.lake": 1, "orphans.qdrant": 1, "missing.qdrant": 1}
    assert report.repaired == 2, "the lake may be right, so its row is kept"
    assert report.unlisted == {"*": str(error)}
    assert report.error == str(error)
    assert [point["source_id"] for point in installation.points()] == ["a"]
    assert states(installation) == {"a": "live"}


def test_what_came_back_or_was_forgotten_is_taken_in(installation: Installation) -> None:
    shelf = Shelf()
    for name in ("a", "b"):
        shelf.put(name)
    installation.sync(SLACK, port=shelf)
    do(installation, "DELETE FROM documents WHERE source_id = 'a'")
    do(installation, "UPDATE documents SET state = 'deleted', deleted_at = now() WHERE source_id = 'b'")
    report = reconcile(installation.settings, SLACK, apply=True, port=shelf)
    assert counts(report) == {"orphans.lake": 2, "orphans.qdrant": 2, "missing.postgres": 2}
    assert (report.repaired, report.clean()) == (6, True)
    assert states(installation) == {"a": "live", "b": "live"}
    installation.sync(SLACK, port=shelf)
    assert installation.agrees()
    assert len(installation.points()) == 2


def test_uploads(installation: Installation) -> None:
    blobs = Blobs(installation.settings.lake_address)
    kept = {}
    for name in ("one", "two"):
        blob = blobs.put([f"Upload {name}: the otter of river {name} sleeps until noon.\n".encode()])
        with session(installation.settings.postgres_dsn, autocommit=True) as connection:
            upload = uploads.NewUpload(
                owner="ada@acme.example", content_hash=blob.content_hash, size=blob.size, file_name=f"{name}.txt", title=None,
                description=None, mime_type="text/plain", permissions=[], tags={},
            )  # fmt: skip
            kept[name] = uploads.record(connection, upload)
    installation.sync(SourceName.UPLOAD)
    assert counts(reconcile(installation.settings, SourceName.UPLOAD, apply=False)) == {}
    do(installation, "DELETE FROM documents WHERE doc_id = %s", kept["one"].doc_id)
    report = reconcile(installation.settings, SourceName.UPLOAD, apply=True)
    assert counts(report) == {"orphans.lake": 1, "missing.postgres": 1, "orphans.qdrant": 1}
    assert report.clean()
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        assert uploads.remove(connection, doc_id=kept["two"].doc_id, owner="ada@acme.example")
    installation.sync(SourceName.UPLOAD)
    assert counts(reconcile(installation.settings, SourceName.UPLOAD, apply=False)) == {}


def test_an_upload_that_the_registry_has_lost_stays_in_the_lake(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its source lists it from the registry, so it says nothing about what the registry has lost."""
    blob = Blobs(installation.settings.lake_address).put([b"The otter of the river sleeps until noon.\n"])
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        upload = uploads.NewUpload(
            owner="ada@acme.example", content_hash=blob.content_hash, size=blob.size, file_name="a.txt", title=None,
            description=None, mime_type="text/plain", permissions=[], tags={},
        )  # fmt: skip
        uploads.record(connection, upload)
    installation.sync(SourceName.UPLOAD)
    do(installation, "TRUNCATE documents, uploads, partitions CASCADE")
    as_environment(installation, monkeypatch)
    report = reconcile(installation.settings, SourceName.UPLOAD, apply=True)
    assert (counts(report), report.forgotten, report.clean()) == ({"orphans.qdrant": 1}, 1, False)
    assert run(["reconcile", "upload", "--apply"]) == 1
    shown = capsys.readouterr()
    assert "Orphans: none. Missing: none." in shown.out
    assert "concordance rebuild registry upload" in shown.err
    assert "--apply" not in shown.err
    assert run(["rebuild", "registry", "upload"]) == 0
    shown = capsys.readouterr().out
    assert "upload: 1 documents, 1 with their records, 0 deleted." in shown
    assert "files: " not in shown


def test_an_unexpected_error_of_one_source_leaves_no_other_unswept(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled.sync(SourceName.UPLOAD)
    seen: list[SourceName] = []

    def breaks(_settings: object, source: SourceName) -> dict[str, int]:
        seen.append(source)
        if len(seen) == 1:
            raise ValueError("canary")
        return {}

    monkeypatch.setattr("assets.upkeep.sweep.sweep", breaks)
    with capture_logs() as logs:
        reports = sweep_all(filled.settings)
    assert len(seen) > 1
    assert reports[seen[0].value] == {"error": "Unexpected ValueError: its stack trace is in the log."}
    assert [entry["event"] for entry in logs if entry.get("exc_info")] == ["unexpected_error"]


def test_a_sync_waits_while_the_stores_are_looked_at(filled: Installation) -> None:
    with hold(filled.settings, FILES):
        job = create_job(filled.settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test")
        with pytest.raises(BusyError):
            create_job(filled.settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test")
        do(filled, "UPDATE sync_jobs SET started_at = now() - interval '1 hour' WHERE job_id = %s", job.job_id)
        with pytest.raises(BusyError):
            create_job(filled.settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test")
    later = create_job(filled.settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test")
    assert later.job_id == job.job_id, "a job that no process has begun is taken over"


def test_the_record_forwards_every_part_of_a_source() -> None:
    shelf = Shelf(source=FILES)
    recorded = ListingRecord(shelf).source
    assert recorded.name is FILES
    for member in [name for name in vars(Source) if not name.startswith("_")]:
        getattr(recorded, member)


def test_the_command(filled: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    as_environment(filled, monkeypatch)

    def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
        status = run(["reconcile", *arguments, "--json"])
        return status, json.loads(capsys.readouterr().out.splitlines()[-1])

    none = {"lake": 0, "postgres": 0, "qdrant": 0}
    status, said = answer()
    assert status == 0
    assert set(said.pop("sources")) == {"upload", "push", "files"}
    assert said == {"checked": 3, "orphans": none, "missing": none, "forgotten": 0, "repaired": 0, "mended": 0}
    qdrant_missing(filled)
    status, said = answer("files")
    assert (status, said["missing"], said["repaired"]) == (1, {**none, "qdrant": 1}, 0)
    status, said = answer("files", "--apply")
    assert (status, said["missing"], said["repaired"]) == (0, {**none, "qdrant": 1}, 1)
    assert answer("files")[0] == 0
    postgres_missing(filled)
    assert run(["reconcile", "files"]) == 1
    shown = capsys.readouterr()
    assert "Missing: 1 in postgres" in shown.out
    assert "docs/new.txt" in shown.err
    assert "reconcile --apply" in shown.err
    assert run(["reconcile", "slack"]) == 2
    assert "CONCORDANCE_SLACK_BOT_TOKEN" in capsys.readouterr().err


def test_points_from_before_a_lost_database_are_reported_and_removed(filled: Installation) -> None:
    """Replace the database by an empty one and keep the vector server and the lake."""
    (filled.root / "doc0.txt").unlink()
    do(filled, "TRUNCATE documents, partitions, index_collections, source_memory, source_states CASCADE")
    with capture_logs() as logs:
        filled.sync(full=True)
    assert [(log["points"], log["bring_back_with"]) for log in logs if log["event"] == "collection_unknown_points"] == [
        (3, "concordance rebuild registry")
    ]
    assert len(filled.points()) == 3
    reconcile(filled.settings, FILES, apply=True)
    assert {point["doc_id"] for point in filled.points()} == {
        document_id(FILES, f"docs/doc{number}.txt") for number in (1, 2)
    }
    filled.sync()
    assert filled.agrees(), filled.last
