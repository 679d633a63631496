"""`GET /api/why` and `concordance why`: traces by id and link, the same for hidden and missing documents, and the operator's view."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from orchestration.cli import run
from resources.core.domain import SourceName
from serving.search.trace import trace
from sql.serving_rows import RegistryEntry
from tests.fixtures.desk import ADA, Desk
from tests.fixtures.serving import PUBLIC_URL, Running, Site

ANN, EVE = "ann@acme.com", "eve@other.com"
NOTHING = {
    "found": False,
    "state": None,
    "reason": None,
    "stages": {"seen": False, "parsed": False, "chunked": 0, "embedded": 0, "indexed": False},
    "notes": [],
    "permitted": False,
    "rank": None,
    "shared_with": None,
    "access_by": None,
}
TEXT = "The heron gauge measures the level of rivers with radar."


def why(running: Running, who: str, source: str, admin: bool = False, **more: str) -> dict[str, Any]:
    response = running.request("GET", "/api/why", who, admin=admin, params={"source": source, **more})
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def gauge(site: Site) -> str:
    site.add("Soup", ["The canteen serves soup."], [ANN])
    return site.add("Heron", [TEXT], [ANN], source_id="root/heron.md", url="https://book.example/docs/heron")


def test_a_document_that_is_found_is_traced_to_its_rank(gauge: str, running: Running) -> None:
    told = why(running, ANN, "root/heron.md", query="heron gauge radar")
    assert told == {
        "found": True,
        "state": "live",
        "reason": None,
        "stages": {"seen": True, "parsed": True, "chunked": 1, "embedded": 1, "indexed": True},
        "notes": [],
        "permitted": True,
        "rank": 1,
        "shared_with": None,
        "access_by": None,
    }
    for source in (
        gauge,
        "files:root/heron.md",
        f"{PUBLIC_URL}/documents/{gauge}?chunk=0#place",
        "https://book.example/docs/heron/#radar",
    ):
        assert why(running, ANN, source) == told | {"rank": None}


def test_the_rank_is_that_of_a_search_for_the_query(gauge: str, site: Site, running: Running) -> None:
    for query, rank in (
        ("heron gauge type:md", 1),
        ("heron gauge type:pdf", None),
        ("heron gauge -radar", None),
        ("heron gauge of the last week", 1),
        ("what is 🚀 qwxzvk", None),
        ("heron gauge messuring river", 1),
    ):
        assert why(running, ANN, gauge, query=query)["rank"] == rank, query
    assert why(running, ANN, gauge, query="heron gauge type:pdf -radar")["reason"] == (
        "The query does not find it among the first 50 documents. Its parts that narrow the search are: type:pdf, -radar."
    )
    running.settle()
    assert ("heron gauge -radar",) in site.sql("SELECT query FROM audit_log WHERE action = 'why'")


def test_the_owner_alone_learns_whom_a_document_is_shared_with(site: Site, running: Running) -> None:
    shared = [ANN, EVE, "group:eng@acme.com", "domain:acme.com"]
    doc_id = site.add("Heron", [TEXT], shared, source_id="root/heron.md", owner=ANN)
    mine = why(running, ANN, doc_id)
    assert (mine["shared_with"], mine["access_by"]) == (sorted(shared), [ANN, "domain:acme.com"])
    for who in (EVE, "bob@acme.com"):
        told = why(running, who, doc_id, admin=True)
        assert (told["found"], told["shared_with"], told["access_by"]) == (True, None, None)
    site.sql("UPDATE documents SET permissions = %s WHERE doc_id = %s", [EVE], doc_id)
    assert why(running, ANN, doc_id) == NOTHING


def test_hidden_and_missing_documents_give_the_same_trace_for_administrators_too(
    gauge: str, site: Site, running: Running
) -> None:
    site.add("Stale", ["An old note."], [EVE], partition="old", acl_checked_at=datetime.now(UTC) - timedelta(days=3))
    for source in (
        "root/heron.md",
        gauge,
        "https://book.example/docs/heron",
        "root/Stale.md",
        "root/nothing.md",
        "https://x.example/",
    ):
        for admin in (False, True):
            assert why(running, EVE, source, admin=admin, query="heron gauge radar") == NOTHING
    assert running.request("GET", "/api/why", params={"source": gauge}).status_code == 401
    assert running.request("GET", "/api/why", ANN, params={"source": " "}).status_code == 400


def test_every_state_has_its_reason(gauge: str, site: Site, running: Running) -> None:
    site.sql("UPDATE documents SET tags = '{\"lifecycle\": \"archived\"}' WHERE source_id = 'root/heron.md'")
    assert "archived" in str(why(running, ANN, gauge)["reason"])
    site.sql("UPDATE documents SET tags = '{}' WHERE source_id = 'root/heron.md'")
    assert why(running, ANN, gauge)["reason"] is None
    site.sql(
        "UPDATE documents SET state = 'failed', stage = 'chunked', reason = 'It broke.' WHERE source_id = 'root/heron.md'"
    )
    told = why(running, ANN, gauge)
    assert (told["state"], told["reason"], told["stages"]["parsed"], told["stages"]["indexed"]) == (
        "failed",
        "It broke.",
        True,
        False,
    )
    site.sql(
        "UPDATE documents SET state = 'skipped', stage = 'raw', reason = 'Its type.' WHERE source_id = 'root/heron.md'"
    )
    assert why(running, ANN, gauge)["reason"] == "Its type."
    site.sql("UPDATE documents SET state = 'deleted', permissions = '{}' WHERE source_id = 'root/heron.md'")
    assert why(running, ANN, gauge) == NOTHING


def test_reasons_for_a_query_that_does_not_match_and_an_index_that_is_down() -> None:
    row = RegistryEntry(
        doc_id="d",
        state="live",
        reason=None,
        stage=None,
        notes=[],
        chunks=2,
        indexed=True,
        permitted=True,
        stale=False,
        archived=False,
    )
    age = timedelta(hours=24)
    assert "first 50" in str(trace(row, points=2, asked=True, rank=None, max_age=age).reason)
    assert "does not answer" in str(trace(row, points=None, asked=False, rank=None, max_age=age).reason)
    assert "not complete" in str(trace(row, points=1, asked=False, rank=None, max_age=age).reason)
    stale = msgspec.structs.replace(row, stale=True)
    assert "24 h" in str(trace(stale, points=2, asked=False, rank=None, max_age=age).reason)


def test_links_of_drive_and_slack_lead_to_their_documents(site: Site, running: Running) -> None:
    began = datetime(2023, 11, 13, 14, 40, 0, 100, tzinfo=UTC)
    drive = site.add("Plan", ["The plan."], [ANN], source=SourceName.GOOGLE_DRIVE, source_id="1XyZabc_-9")
    mime = "application/vnd.concordance.conversation+json"
    site.add(
        "window", ["Lunch?"], [ANN], source=SourceName.SLACK, source_id="T0/C01ABC123/1699886400.000100", partition="C01ABC123",
        created_at=began, modified_at=began + timedelta(minutes=20), tags={"thread": False}, mime_type=mime,
    )  # fmt: skip
    site.add(
        "thread", ["Yes."], [ANN], source=SourceName.SLACK, source_id="T0/C01ABC123/1699887000.000200", partition="C01ABC123",
        created_at=began + timedelta(minutes=10), modified_at=began + timedelta(days=1), tags={"thread": True}, mime_type=mime,
    )  # fmt: skip
    slack = "https://workspace.slack.com/archives/C01ABC123"
    found = [
        "https://docs.google.com/document/d/1XyZabc_-9/edit?usp=drivesdk",
        "https://drive.google.com/file/d/1XyZabc_-9/view",
        "https://drive.google.com/open?id=1XyZabc_-9",
        "google-drive:1XyZabc_-9",
        drive,
        f"{slack}/p1699886400000100",
        f"{slack}/p1699887300000000",
        f"{slack}/p1699999999000300?thread_ts=1699887000.000200&cid=C01ABC123",
        "T0/C01ABC123/1699887000.000200",
    ]
    assert [source for source in found if not why(running, ANN, source)["found"]] == []
    missing = [f"{slack}/p1600000000000100", "https://workspace.slack.com/archives/C09/p1699886400000100"]
    assert [source for source in missing if why(running, ANN, source) != NOTHING] == []


def test_an_upload_waits_for_its_sync(site: Site, running: Running) -> None:
    kept = running.request("POST", "/api/upload", ANN, files={"file": ("a.md", b"# A\n")}).json()
    told = why(running, ANN, kept["doc_id"])
    assert (told["found"], told["state"], told["permitted"]) == (True, "queued", True)
    assert why(running, EVE, kept["doc_id"], admin=True) == NOTHING


def test_the_operator_sees_the_state_and_for_whom_it_is_permitted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = desk.site.settings
    monkeypatch.setenv("CONCORDANCE_HOME", str(settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", settings.postgres_dsn)
    monkeypatch.setenv("CONCORDANCE_QDRANT_URL", settings.qdrant_address)
    monkeypatch.setenv("CONCORDANCE_HTTP_PORT", desk.running.url.rpartition(":")[2])

    def ask(*more: str) -> dict[str, Any]:
        assert run(["why", "docs/zebras.md", *more, "--json"]) == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    mine = ask("--as", ADA, "--query", "What do zebras need every morning?")
    assert (mine["found"], mine["state"], mine["permitted"], mine["rank"], mine["reason"]) == (
        True,
        "live",
        True,
        1,
        None,
    )
    assert mine["stages"]["indexed"]
    assert set(mine["access_by"]) <= set(mine["shared_with"])
    assert mine["access_by"]
    hers = ask("--as", EVE)
    assert (hers["shared_with"], hers["access_by"]) == (mine["shared_with"], [])
    assert (hers["found"], hers["state"], hers["permitted"], hers["rank"]) == (True, "live", False, None)
    assert hers["reason"] == "This user has no read permission."
    assert run(["why", "docs/none.md", "--as", ADA]) == 1
    assert "docs/none.md was not found in any source" in capsys.readouterr().out
    assert run(["why", "docs/zebras.md", "--as", "nobody"]) == 2
