"""The permission audit with real stores: excess grants are revoked at once with an alert, missing ones added; and the audit trail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assets.upkeep.audit import AuditReport, audit
from orchestration.cli import run
from resources.core.domain import SourceName, document_id
from resources.core.errors import AbortSyncError
from resources.stores import qdrant, uploads
from resources.stores.blobs import Blobs
from resources.stores.postgres import session
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf
from tests.fixtures.upkeep import as_environment, do

SLACK = SourceName.SLACK
ADA, BOB, EVE = "ada@x.example", "bob@x.example", "eve@x.example"


def held(installation: Installation) -> dict[str, list[str]]:
    rows = installation.rows("SELECT source_id, permissions FROM documents WHERE state = 'live'")
    return {row["source_id"]: sorted(row["permissions"]) for row in rows}


def indexed(installation: Installation) -> dict[str, list[str]]:
    return {point["source_id"]: sorted(point["permissions"]) for point in installation.points()}


def set_indexed(installation: Installation, name: str, *permissions: str) -> None:
    """Set the permissions in the points of a document."""
    client = qdrant.client(installation.settings)
    qdrant.set_payload(client, qdrant.ALIAS, {document_id(SLACK, name): {"permissions": list(permissions)}})


@pytest.fixture
def shelf(installation: Installation) -> Shelf:
    shelf = Shelf()
    for name in ("a", "b", "c"):
        shelf.put(name, permissions=(ADA, BOB))
    installation.sync(SLACK, port=shelf)
    do(installation, "DELETE FROM grant_audit")
    return shelf


def numbers(report: AuditReport) -> tuple[int, int, int, int, int]:
    excess, missing = report.excess, report.missing
    return excess.postgres, excess.qdrant, missing.postgres, missing.qdrant, report.repaired


def test_nothing_is_done_where_the_rights_agree(installation: Installation, shelf: Shelf) -> None:
    before = installation.rows(
        "SELECT permissions, payload_hash, payload FROM documents JOIN index_entries USING (doc_id)"
    )
    report = audit(installation.settings, SLACK, port=shelf)
    assert (numbers(report), report.checked, report.unlisted) == ((0, 0, 0, 0, 0), 3, {})
    after = installation.rows(
        "SELECT permissions, payload_hash, payload FROM documents JOIN index_entries USING (doc_id)"
    )
    assert after == before
    assert len(shelf.fetched) == 3, "the audit fetches nothing"


def test_rights_too_many_and_too_few_in_the_registry(installation: Installation, shelf: Shelf) -> None:
    do(installation, "UPDATE documents SET permissions = %s WHERE source_id = 'a'", [ADA, BOB, EVE])
    do(installation, "UPDATE documents SET permissions = %s WHERE source_id = 'b'", [ADA])
    do(installation, "DELETE FROM grant_audit")
    (version,) = installation.rows("SELECT version FROM source_versions WHERE source = 'slack'")
    report = audit(installation.settings, SLACK, port=shelf)
    assert numbers(report) == (1, 0, 1, 0, 2)
    assert report.examples == [f"a: {EVE}"]
    assert held(installation) == indexed(installation) == {key: [ADA, BOB] for key in ("a", "b", "c")}
    assert (
        installation.rows("SELECT version FROM source_versions WHERE source = 'slack'")[0]["version"]
        > version["version"]
    )
    trail = "SELECT source_id, principal, change FROM grant_audit JOIN documents USING (doc_id) ORDER BY id"
    assert [tuple(row.values()) for row in installation.rows(trail)] == [("a", EVE, "revoked"), ("b", BOB, "added")]
    installation.sync(SLACK, port=shelf)
    assert installation.rows("SELECT 1 FROM grant_audit WHERE effective_at IS NULL") == []
    assert installation.agrees()


def test_rights_too_many_and_too_few_in_the_index(
    installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    set_indexed(installation, "a", ADA, BOB, EVE)
    set_indexed(installation, "b", ADA)
    set_indexed(installation, "c", EVE)
    report = audit(installation.settings, SLACK, port=shelf)
    assert numbers(report) == (0, 2, 0, 3, 3)
    # where it is logged depends on whether a test before this one has run Dagster in this process
    assert "2 grants that the source does not give" in capsys.readouterr().out + caplog.text
    assert indexed(installation) == held(installation) == {key: [ADA, BOB] for key in ("a", "b", "c")}
    assert numbers(audit(installation.settings, SLACK, port=shelf)) == (0, 0, 0, 0, 0)


def test_the_source_changed_its_mind(installation: Installation, shelf: Shelf) -> None:
    """A change that no feed reported: the next listing agrees with the audit's correction and rewrites it at most once."""
    shelf.put("a", permissions=(ADA,))
    shelf.put("b", permissions=(ADA, BOB, EVE))
    assert numbers(audit(installation.settings, SLACK, port=shelf)) == (1, 1, 1, 1, 2)
    assert held(installation) == indexed(installation) == {"a": [ADA], "b": [ADA, BOB, EVE], "c": [ADA, BOB]}
    run = installation.sync(SLACK, port=shelf, full=False)
    assert run.counts.embedded == 0
    assert installation.agrees()


def test_who_came_with_a_later_version_does_not_read_the_one_that_is_stored(
    installation: Installation, shelf: Shelf
) -> None:
    shelf.put("a", version="2", permissions=(ADA, EVE))
    assert numbers(audit(installation.settings, SLACK, port=shelf)) == (1, 1, 0, 0, 1)
    assert held(installation)["a"] == indexed(installation)["a"] == [ADA]


def test_drafts_stay_their_owners(installation: Installation, shelf: Shelf) -> None:
    shelf.put("a", permissions=(ADA, BOB), owner=ADA, tags={"lifecycle": "draft"})
    assert numbers(audit(installation.settings, SLACK, port=shelf))[:4] == (1, 1, 0, 0)
    assert held(installation)["a"] == indexed(installation)["a"] == [ADA]


def test_rights_of_a_whole_partition_need_one_page(installation: Installation, shelf: Shelf) -> None:
    shelf.rights["pond"] = (ADA, "slack:T0TEAM")
    shelf.asked.clear()
    report = audit(installation.settings, SLACK, port=shelf)
    assert numbers(report) == (3, 3, 3, 3, 3)
    assert shelf.asked["pond"] == 1
    assert held(installation) == indexed(installation) == {key: [ADA, "slack:T0TEAM"] for key in ("a", "b", "c")}


def test_what_cannot_be_listed_is_reported(installation: Installation, shelf: Shelf) -> None:
    shelf.put("d", "lake", permissions=(EVE,))
    shelf.faults["pond"] = AbortSyncError("The listing broke off.")
    do(installation, "UPDATE documents SET permissions = %s WHERE source_id = 'a'", [ADA, BOB, EVE])
    report = audit(installation.settings, SLACK, port=shelf)
    assert report.unlisted == {"pond": "The listing broke off."}
    assert numbers(report)[0] == 1, "what it said before counts"
    shelf.refuses = AbortSyncError("Nobody answers.")
    report = audit(installation.settings, SLACK, port=shelf)
    assert (report.checked, report.unlisted) == (0, {"*": "Nobody answers."})
    assert held(installation)["a"] == [ADA, BOB]


def test_uploads_are_widened_by_their_own_sync(installation: Installation) -> None:
    """Owners may change permissions at any moment: the audit must not restore a grant that was just revoked."""
    blob = Blobs(installation.settings.lake_address).put([b"The otter of the southern river sleeps until noon.\n"])
    with session(installation.settings.postgres_dsn, autocommit=True) as connection:
        upload = uploads.NewUpload(
            owner=ADA, content_hash=blob.content_hash, size=blob.size, file_name="otter.txt", title=None, description=None,
            mime_type="text/plain", permissions=[BOB], tags={},
        )  # fmt: skip
        uploads.record(connection, upload)
    installation.sync(SourceName.UPLOAD)
    do(installation, "UPDATE documents SET permissions = %s", [ADA, EVE])
    report = audit(installation.settings, SourceName.UPLOAD)
    assert (report.excess.postgres, report.missing.postgres) == (1, 1)
    assert list(held(installation).values()) == [[ADA]]
    installation.sync(SourceName.UPLOAD)
    assert list(held(installation).values()) == list(indexed(installation).values()) == [[ADA, BOB]]


def test_the_commands(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_environment(installation, monkeypatch)

    def answer(*arguments: str) -> Any:
        assert run(["audit", *arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    installation.write("a.txt", "The otter of the river sleeps until noon.\n", permissions=[ADA, BOB])
    installation.sync()
    installation.write("a.txt.meta.json", json.dumps({"permissions": [ADA]}))
    installation.sync()
    assert answer("run")["files"]["checked"] == 1
    trail = answer("grants", "--since", "1h")
    assert [(row["change"], row["principal"]) for row in trail] == [("added", ADA), ("added", BOB), ("revoked", BOB)]
    assert set(trail[0]) == {"at", "source", "doc_id", "source_id", "title", "principal", "change", "effective_at"}
    assert all(row["effective_at"] for row in trail)
    assert len(answer("grants", "--principal", "Bob@X.example")) == 2
    assert len(answer("grants", "--document", "docs/a.txt")) == 3
    assert answer("grants", "--document", "docs/b.txt") == []
    do(installation, "UPDATE documents SET permissions = permissions || %s", [EVE])
    assert run(["audit", "run", "files"]) == 1
    assert "Excess grants: 1" in capsys.readouterr().out
    assert run(["audit", "grants", "--principal", "group:"]) == 2
