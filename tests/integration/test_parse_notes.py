"""Notes of the parser follow the text: they are shown to its readers, and only their kinds are counted elsewhere."""

from __future__ import annotations

import json
from email.message import EmailMessage
from typing import Any

import dagster as dg
import pytest

from orchestration.cli import run
from resources.core.domain import SourceName, document_id
from tests.fixtures.dagster_runs import DagsterRuns
from tests.fixtures.desk import ADA, Desk

MALLORY, ROOT = "mallory@other.example", "root@acme.example"
OLD = "Die Zebras schlafen in Gänserndorf, die Wärter wohnen nebenan und grüßen jeden Morgen.\n".encode("cp1252")
DECODED = {"kind": "decoding", "text": "The file is not UTF-8; it was read as cp1252."}
NAME = "layoffs.exe"


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"] = "Zebra list"
    message["From"] = ADA
    message.set_content("The list of zebras is attached.\n")
    message.add_attachment(b"MZ\x90\x00", maintype="application", subtype="octet-stream", filename=NAME)
    return message.as_bytes()


def asked(desk: Desk, path: str, who: str, *, admin: bool = False, **params: str) -> Any:
    response = desk.running.request("GET", path, who, admin=admin, params=params)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture
def noted(desk: Desk) -> Desk:
    """A text in an old encoding and a mail with an attachment that is not read, besides a document without notes."""
    desk.installation.write("old.txt", OLD)
    desk.installation.write("list.eml", mail())
    desk.installation.sync()
    return desk


def test_notes_are_shown_to_the_readers_of_the_document(noted: Desk) -> None:
    old, letter = (document_id(SourceName.FILES, f"docs/{name}") for name in ("old.txt", "list.eml"))
    assert asked(noted, f"/api/documents/{old}", ADA)["notes"] == [DECODED]
    assert asked(noted, "/api/why", ADA, source=old)["notes"] == [DECODED]
    assert asked(noted, "/api/why", ADA, source="files:docs/zebras.md")["notes"] == []
    (attached,) = asked(noted, f"/api/documents/{letter}", ADA)["notes"]
    assert (attached["kind"], NAME in attached["text"]) == ("not_read", True)
    listed = {one["doc_id"]: one["notes"] for one in asked(noted, "/api/documents", ADA)["documents"]}
    assert (listed[old], listed[letter]) == ([DECODED], [attached])
    page = noted.running.request("GET", f"/documents/{letter}", ADA).text
    assert "Notes on this text (1)" in page
    assert attached["text"] in page


def test_nobody_else_learns_of_them(noted: Desk, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    letter = document_id(SourceName.FILES, "docs/list.eml")
    hidden = asked(noted, "/api/why", MALLORY, admin=True, source=letter)
    assert (hidden["found"], hidden["notes"]) == (False, [])
    assert noted.running.request("GET", f"/api/documents/{letter}", MALLORY, admin=True).status_code == 404
    settings = noted.site.settings
    monkeypatch.setenv("CONCORDANCE_HOME", str(settings.home))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", settings.postgres_dsn)
    monkeypatch.setenv("CONCORDANCE_QDRANT_URL", settings.qdrant_address)
    for who, count in ((MALLORY, 0), (ADA, 1)):
        assert run(["why", letter, "--as", who, "--json"]) == 0
        told = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (told["state"], told["permitted"], len(told["notes"])) == ("live", bool(count), count)


def test_operators_see_how_many_documents_have_notes_of_a_kind(noted: Desk) -> None:
    sources = asked(noted, "/api/sources", ROOT, admin=True)["sources"]
    (root,) = next(one for one in sources if one["source"] == "files")["partitions"]
    assert root["notes"] == [{"kind": "decoding", "count": 1}, {"kind": "not_read", "count": 1}]
    assert NAME not in json.dumps(sources)
    mine = next(one for one in asked(noted, "/api/sources", ADA)["sources"] if one["source"] == "files")
    assert "partitions" not in mine
    page = noted.running.request("GET", "/sources", ROOT, admin=True).text
    assert "decoded by a guess of their encoding" in page
    assert NAME not in page


def test_notes_change_with_the_text(noted: Desk) -> None:
    noted.installation.write("old.txt", OLD.decode("cp1252"))
    noted.installation.sync()
    old = document_id(SourceName.FILES, "docs/old.txt")
    assert asked(noted, f"/api/documents/{old}", ADA)["notes"] == []


def test_dagster_shows_their_number_by_kind_and_nothing_of_them(dagster_runs: DagsterRuns) -> None:
    dagster_runs.installation.write("old.txt", OLD)
    dagster_runs.installation.write("list.eml", mail())
    dagster_runs.sync()
    event = dagster_runs.instance.get_latest_materialization_event(dg.AssetKey(["files", "parsed"]))
    assert event is not None
    assert event.asset_materialization is not None
    found = event.asset_materialization.metadata
    counts = {name: value.value for name, value in found.items() if "notes" in name}
    assert counts == {"run/notes_decoding": 1, "run/notes_not_read": 1}
    assert NAME not in str(found)
