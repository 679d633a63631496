"""`PATCH /api/documents/{doc_id}`: what an owner changes of an upload without uploading it again."""

from __future__ import annotations

import json
from typing import Any

from resources.core.domain import SourceName
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Running, Site
from tests.integration.test_documents_http import indexed_upload, upload
from tests.integration.test_withdrawal_http import found, indexed, own_postgres, until_ready

__all__ = ["own_postgres"]

ANN, BOB, EVE = "ann@acme.com", "bob@acme.com", "eve@elsewhere.org"
TEXT = "The lighthouse keeper counts ships at night."


def change(running: Running, doc_id: str, who: str = ANN, *, admin: bool = False, **body: Any) -> Any:
    return running.request("PATCH", f"/api/documents/{doc_id}", who, admin=admin, json=body)


def test_only_what_is_sent_changes(site: Site, running: Running) -> None:
    metadata = '{"title": "Tea", "description": "On tea", "tags": {"topic": "kitchen"}, "share": ["bob@acme.com"]}'
    doc_id = str(upload(running, ANN, "tea.md", b"Tea is served at four.", metadata)["doc_id"])
    body = change(running, doc_id, title=" Tea\n times ").json()
    assert body == {
        "doc_id": doc_id,
        "status": "updated",
        "message": "Changed, indexing in progress",
        "job_id": "00000000-0000-4000-8000-000000000002",
        "title": "Tea times",
        "description": "On tea",
        "tags": {"topic": "kitchen"},
        "share": [BOB],
    }
    assert change(running, doc_id, title=None).json()["title"] == "tea.md"
    assert change(running, doc_id, description=None, tags={}, share=[]).json()["share"] == []
    rows = site.sql("SELECT title, description, tags, permissions FROM uploads")
    assert rows == [("tea.md", None, {}, [ANN])]


def test_long_numbers_that_come_back_from_a_page_as_texts_stay_numbers(site: Site, running: Running) -> None:
    """A script would round them. Other texts are what the owner writes."""
    tags = {"id": 9007199254740993, "ids": ["b", 9007199254740993], "year": 2025}
    doc_id = str(upload(running, ANN, "tea.md", b"Tea.", json.dumps({"tags": tags}))["doc_id"])
    sent = {"id": "9007199254740993", "ids": ["b", "9007199254740993"], "year": "2025", "new": "9007199254740993"}
    told = change(running, doc_id, tags=sent).json()["tags"]
    assert told == tags | {"year": "2025", "new": "9007199254740993"}
    assert site.sql("SELECT tags FROM uploads") == [(told,)]


def test_a_change_is_audited_once_and_repeating_it_does_nothing(site: Site, running: Running) -> None:
    doc_id = str(upload(running, ANN, "tea.md", b"Tea is served at four.")["doc_id"])
    wanted = {"title": "Tea", "tags": {"topic": "kitchen"}, "share": ["domain:acme.com"]}
    first, again = (change(running, doc_id, **wanted).json() for _ in range(2))
    assert (again["message"], again["job_id"]) == ("Nothing changed", None)
    assert {**again, "message": "", "job_id": ""} == {**first, "message": "", "job_id": ""}
    assert len(site.launcher.calls) == 2
    ((email, doc_ids, detail),) = site.sql(
        "SELECT email, doc_ids::text[], detail FROM audit_log WHERE action = 'change'"
    )
    assert (email, doc_ids) == (ANN, [doc_id])
    assert detail == {
        "fields": ["permissions", "tags", "title"],
        "permissions": [ANN, "domain:acme.com"],
        "added": ["domain:acme.com"],
        "removed": [],
    }


def test_a_reader_who_is_left_out_loses_access_at_once(site: Site, running: Running) -> None:
    doc_id = indexed_upload(site, running, ANN, TEXT, (BOB,))
    assert running.titles("lighthouse keeper", BOB) == ["Upload"]
    assert change(running, doc_id, share=["carol@acme.com"]).status_code == 200
    assert running.titles("lighthouse keeper", BOB) == []
    assert running.request("GET", f"/api/documents/{doc_id}", BOB).status_code == 404
    assert running.titles("lighthouse keeper", "carol@acme.com") == [], "the next sync gives access"
    assert running.titles("lighthouse keeper", ANN) == ["Upload"]


def test_a_draft_is_its_owners_alone_at_once(site: Site, running: Running) -> None:
    doc_id = indexed_upload(site, running, ANN, TEXT, (BOB,))
    assert change(running, doc_id, tags={"lifecycle": "draft"}, share=[BOB]).json()["share"] == [BOB]
    assert (running.titles("lighthouse keeper", ANN), running.titles("lighthouse keeper", BOB)) == (["Upload"], [])


def test_a_narrowed_share_holds_without_postgres(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    with site.running() as running:
        until_ready(running)
        doc_id = indexed(site, running)
        assert change(running, doc_id, share=[]).status_code == 200
        process.stop()
        assert (found(running, ANN), found(running, BOB)) == (["Upload"], [])


def test_only_the_owner_may_change_an_upload(site: Site, running: Running) -> None:
    doc_id = indexed_upload(site, running, ANN, TEXT, (BOB,))
    file = site.add("File", ["A file of a root."], [ANN])
    absent = "00000000-0000-4000-8000-00000000dead"
    answers = [
        {**change(running, one, who, admin=admin, title="Mine").json(), "instance": ""}
        for one, who, admin in [(doc_id, BOB, False), (doc_id, BOB, True), (file, ANN, False), (absent, BOB, False)]
    ]
    assert answers[0]["status"] == 404
    assert all(one == answers[0] for one in answers)
    assert site.sql("SELECT title FROM uploads") == [("u.txt",)]
    assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 200
    assert change(running, doc_id, title="Back").status_code == 404


def test_a_change_may_not_share_more_widely_than_an_upload(site: Site, running: Running) -> None:
    doc_id = str(upload(running, ANN, "tea.md", b"Tea is served at four.")["doc_id"])
    for principal in (EVE, "public", "domain:elsewhere.org", "slack:T1"):
        refused = change(running, doc_id, share=[principal])
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/sharing-not-allowed")
    assert site.sql("SELECT permissions FROM uploads") == [([ANN],)]
    assert change(running, doc_id, admin=True, share=[EVE]).status_code == 200
    assert change(running, doc_id, share=[EVE, BOB]).json()["share"] == [BOB, EVE], "what was granted may stay"


def test_reserved_tags_stay(site: Site, running: Running) -> None:
    body = {"content": "Tea", "doc_id": "tea", "tags": {"tenant": "ann", "dataset": "x", "topic": "kitchen"}}
    doc_id = running.request("POST", "/api/ingest", ANN, json=body).json()["doc_id"]
    kept = {"tenant": "ann", "dataset": "x", "external_id": "tea"}
    assert change(running, doc_id, tags={"topic": "tea"}).json()["tags"] == {**kept, "topic": "tea"}
    assert change(running, doc_id, tags=kept).json()["tags"] == kept
    for name in (*kept, "source"):
        refused = change(running, doc_id, tags={name: "other"})
        assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (400, f"tags.{name}")
    assert change(running, doc_id, admin=True, tags={"dataset": "y"}).json()["tags"] == {**kept, "dataset": "y"}
    assert change(running, doc_id, admin=True, tags={"external_id": "y"}).status_code == 400


def test_a_wrong_change_names_its_field(site: Site, running: Running) -> None:
    doc_id = str(upload(running, ANN, "tea.md", b"Tea is served at four.")["doc_id"])
    for body, says in (
        ({"title": 7}, "title: "),
        ({"name": "x"}, "name: is not a known field; allowed: title, description, tags, share"),
        ({"share": ["everyone!"]}, "'everyone!' is not a principal"),
        ({"tags": {"x": {"y": 1}}}, "tags: the tag 'x' must be"),
    ):
        refused = change(running, doc_id, **body)
        assert refused.status_code == 400
        assert refused.json()["detail"].startswith(says)


def test_the_index_follows_without_embedding(installation: Installation, bundled_model: Any) -> None:
    with Site(installation.settings, bundled_model).running() as running:
        file = {"file": ("tea.md", b"# Tea\n\nTea is served at four in the kitchen.")}
        doc_id = running.request("POST", "/api/upload", "ada@acme.example", files=file).json()["doc_id"]
        assert installation.sync(SourceName.UPLOAD).counts.embedded == 1
        wanted = {"title": "Tea times", "tags": {"topic": "kitchen"}, "share": ["bob@acme.example"]}
        assert change(running, doc_id, "ada@acme.example", **wanted).status_code == 200
    run = installation.sync(SourceName.UPLOAD)
    assert (run.counts.synced, run.counts.embedded) == (1, 0)
    (point,) = installation.points()
    assert (point["title"], point["tags"]["topic"]) == ("Tea times", "kitchen")
    assert point["permissions"] == ["ada@acme.example", "bob@acme.example"]
    assert json.dumps(point).count("tea.md") == 1, "the file keeps its name"
    assert installation.agrees()
