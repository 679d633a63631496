"""The deletion sweep with real stores: deleted documents are gone everywhere, and each deletion has a complete receipt."""

from __future__ import annotations

import json

import pytest
from qdrant_client import models

from assets.upkeep.sweep import sweep
from orchestration.cli import run
from resources.core.domain import SourceName, document_id
from resources.stores import qdrant
from tests.fixtures.installation import Installation
from tests.fixtures.upkeep import as_environment, do

FILES = SourceName.FILES


@pytest.fixture
def deleted(installation: Installation) -> Installation:
    """Create two documents, one deleted by a sync, and a deleted one that was never indexed."""
    for name in ("kept", "gone"):
        installation.write(f"{name}.txt", f"The {name} otter of the river sleeps until noon.\n")
    installation.write("never.xyz", b"\x00\x01\x02")
    installation.sync()
    (installation.root / "gone.txt").unlink()
    (installation.root / "never.xyz").unlink()
    installation.sync()
    return installation


def receipts(installation: Installation) -> dict[str, dict[str, object]]:
    return {row["source_id"]: row for row in installation.rows("SELECT * FROM deletion_receipts")}


def test_every_deletion_gets_a_complete_receipt(deleted: Installation) -> None:
    assert receipts(deleted)["docs/gone.txt"]["verified_at"] is None
    report = sweep(deleted.settings, FILES)
    assert (report.documents, report.points, report.chunks, report.receipts) == (2, 0, 0, 2)
    found = receipts(deleted)
    assert set(found) == {"docs/gone.txt", "docs/never.xyz"}
    for receipt in found.values():
        for moment in ("source_time", "tombstone_at", "points_gone_at", "caches_gone_at", "verified_at"):
            assert receipt[moment] is not None
    assert [found[f"docs/{name}"]["points_deleted"] for name in ("gone.txt", "never.xyz")] == [1, 0]
    again = sweep(deleted.settings, FILES)
    assert (again.documents, again.receipts) == (2, 0)
    assert receipts(deleted) == found
    assert [point["source_id"] for point in deleted.points()] == ["docs/kept.txt"]


def test_leftovers_go_from_every_collection(deleted: Installation) -> None:
    client = qdrant.client(deleted.settings)
    gone = document_id(FILES, "docs/gone.txt")
    qdrant.create_collection(client, "documents_older_4", 4)
    old = models.PointStruct(
        id=gone, vector={"dense": [1.0, 0, 0, 0]}, payload={"doc_id": gone, "source_type": "files"}
    )
    client.upsert("documents_older_4", [old])
    (kept,), _ = client.scroll(qdrant.ALIAS, limit=1, with_vectors=True)
    client.upsert(qdrant.ALIAS, [models.PointStruct(id=gone, vector=kept.vector, payload={"doc_id": gone})])
    do(
        deleted,
        "WITH entry AS (INSERT INTO index_entries (collection, doc_id) SELECT name, %s FROM index_collections RETURNING *)"
        " INSERT INTO chunks (collection, chunk_id, doc_id, chunk_index, chunk_text, text_hash, start_char, end_char, tokens)"
        " SELECT collection, doc_id, doc_id, 0, 'left over', '', 0, 9, 2 FROM entry",
        gone,
    )
    report = sweep(deleted.settings, FILES)
    assert (report.points, report.chunks) == (2, 1)
    assert deleted.rows("SELECT 1 FROM chunks WHERE doc_id = %s", gone) == []
    assert [qdrant.count_points(client, name, [gone]) for name in qdrant.collections(client)] == [0, 0]
    assert qdrant.count_points(client, qdrant.ALIAS) == 1


def test_a_deletion_that_no_sync_finished_is_finished(installation: Installation) -> None:
    installation.write("gone.txt", "The otter of the river sleeps until noon.\n")
    installation.write("lost.txt", "The beaver of the river sleeps until noon.\n")
    installation.sync()
    do(installation, "UPDATE documents SET state = 'deleted', deleted_at = now() WHERE source_id = 'docs/gone.txt'")
    do(installation, "UPDATE documents SET state = 'lost_access' WHERE source_id = 'docs/lost.txt'")
    report = sweep(installation.settings, FILES)
    assert (report.documents, report.points, report.chunks, report.receipts) == (2, 2, 2, 1)
    assert installation.points() == []
    assert receipts(installation)["docs/gone.txt"]["points_deleted"] == 1
    assert installation.rows("SELECT 1 FROM index_entries") == installation.rows("SELECT 1 FROM chunks") == []


def test_unneeded_notes_are_deleted(deleted: Installation) -> None:
    do(deleted, "INSERT INTO partitions (source, partition, cursor) VALUES ('files', 'going on', 'page 3')")
    for partition in ("docs", "unknown", "going on"):
        do(deleted, "INSERT INTO listed_documents VALUES ('files', %s, 'x')", partition)
    do(deleted, "INSERT INTO fetched_contents VALUES ('files', 'x', '1', 'hash', 1), ('slack', 'x', '1', 'hash', 1)")
    report = sweep(deleted.settings, FILES)
    assert report.notes == 3
    assert deleted.rows("SELECT partition FROM listed_documents") == [{"partition": "going on"}]
    assert deleted.rows("SELECT source FROM fetched_contents") == [{"source": "slack"}]
    do(deleted, "INSERT INTO fetched_contents VALUES ('files', 'x', '1', 'hash', 1)")
    do(deleted, "INSERT INTO sync_jobs (source, status) VALUES ('files', 'failed')")
    do(deleted, "INSERT INTO sync_jobs (source, status, lists) VALUES ('files', 'success', FALSE)")
    assert sweep(deleted.settings, FILES).notes == 0, "the next sync takes up what the failed one had"


def test_contents_recorded_for_a_batch_are_forgotten_with_their_document(installation: Installation) -> None:
    """Otherwise its bytes are not erased while the latest full sync has failed."""
    file = installation.write("gone.txt", "The plan is a secret.")
    installation.sync()
    do(
        installation,
        "INSERT INTO fetched_contents SELECT source, source_id, version, content_hash, 1 FROM documents",
    )
    file.unlink()
    installation.sync()
    assert installation.rows("SELECT source_id FROM fetched_contents") == []


def test_the_command(
    deleted: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_environment(deleted, monkeypatch)
    sweep(deleted.settings, FILES)

    def answer(*arguments: str) -> list[dict[str, object]]:
        assert run(["receipts", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    (gone,) = answer("--document", "docs/gone.txt")
    assert gone == answer("--document", document_id(FILES, "docs/gone.txt").upper())[0]
    assert set(gone) == {
        "doc_id", "source", "source_id", "source_time", "source_time_is_exact", "tombstone_at", "points_deleted",
        "points_gone_at", "caches_gone_at", "verified_at", "erased_at", "stores", "seconds_to_invisible",
    }  # fmt: skip
    assert gone["points_deleted"] == 1
    assert isinstance(gone["seconds_to_invisible"], float)
    assert len(answer("--since", "1h")) == 2
    do(deleted, "UPDATE deletion_receipts SET tombstone_at = tombstone_at - interval '30 days'")
    assert answer() == []
    assert run(["receipts", "--since", "60d"]) == 0
    assert "docs/gone.txt" in capsys.readouterr().out
