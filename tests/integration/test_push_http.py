"""`PUT` and `DELETE /api/documents/{source}/{id}` and batches: what is stored, for whom, and what others can learn of it."""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import psycopg
import pytest

from orchestration.cli import run
from resources.core.domain import SourceName, document_id
from resources.core.errors import QuotaExceededError, ServiceUnavailableError
from resources.settings import FileRoot, Settings, Widget
from resources.sources.push import PushRecord, source_id_of
from resources.sources.push import push as record
from resources.stores.blobs import Blobs
from resources.stores.postgres import session
from resources.stores.uploads import NewUpload
from serving.identity import api_keys
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Running, Site
from tests.fixtures.upkeep import as_environment
from tests.integration.test_documents_http import MB, _multipart

BOT, OTHER, ANN, EVE = "wiki-bot@acme.com", "jira-bot@acme.com", "ann@acme.com", "eve@elsewhere.org"
TEXT = "The lighthouse keeper counts ships at night."
JANUARY, MARCH = "2026-01-15T08:00:00Z", "2026-03-15T08:00:00Z"


def with_publishers(site: Site) -> Site:
    roles = Settings(_env_file=None, roles=json.dumps({"publisher": [BOT, OTHER]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles})
    return site


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    """The installation with two programs that may push."""
    with with_publishers(site).running() as running:
        yield running


def address(own_id: str = "tea", source: str = "wiki") -> str:
    return f"/api/documents/{source}/{quote(own_id, safe='')}"


def push(running: Running, own_id: str = "tea", who: str = BOT, *, source: str = "wiki", **body: Any) -> Any:
    return running.request("PUT", address(own_id, source), who, json={"content": TEXT, **body})


def pushed(running: Running, own_id: str = "tea", who: str = BOT, **body: Any) -> dict[str, Any]:
    response = push(running, own_id, who, **body)
    assert response.status_code == 200, response.text
    return response.json()


def remove(running: Running, own_id: str = "tea", who: str = BOT, source: str = "wiki") -> Any:
    return running.request("DELETE", address(own_id, source), who)


def batch(running: Running, *documents: dict[str, Any], who: str = BOT, key: str | None = None) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return running.request("POST", "/api/documents/wiki/batch", who, json={"documents": documents}, headers=headers)


def indexed(site: Site, running: Running, *share: str, link: str | None = None) -> str:
    """Push a document and index it as a sync would."""
    doc_id = pushed(running, title="Keeper", share=list(share), **({"link": link} if link else {}))["doc_id"]
    site.add(
        "Keeper", [TEXT], [BOT, *share], source=SourceName.PUSH, source_id=f"{BOT}:wiki/tea", owner=BOT,
        partition="wiki", collection_ids=["wiki"], url=link,
    )  # fmt: skip
    return doc_id


def test_the_same_push_again_changes_nothing(site: Site, running: Running) -> None:
    body = {
        "title": "Tea",
        "link": "https://wiki.example/tea",
        "share": ["domain:acme.com"],
        "tags": {"topic": "ships"},
    }
    first = pushed(running, **body)
    doc_id = document_id(SourceName.PUSH, source_id_of(BOT, "wiki", "tea"))
    assert first == {"id": "tea", "doc_id": doc_id, "status": "created", "job_id": first["job_id"]}
    assert pushed(running, **body) == {"id": "tea", "doc_id": doc_id, "status": "unchanged", "job_id": None}
    assert [call["source"] for call in site.launcher.calls] == ["push"]
    changes: list[dict[str, Any]] = [
        {"title": "Teas"}, {"link": None}, {"share": []}, {"tags": {}}, {"content": "x"}, {"description": "On tea"},
        {"filename": "tea.txt"}, {"modified_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat()},
    ]  # fmt: skip
    for change in changes:
        assert [pushed(running, **body | change)["status"] for _ in range(2)] == ["updated", "unchanged"], change
        body |= change
    assert len(site.launcher.calls) == 1 + len(changes)
    job = running.request("GET", f"/api/ingest/{first['job_id']}", BOT).json()
    assert (job["doc_id"], job["status"]) == (doc_id, "queued")
    assert site.sql("SELECT source, partition, title, url FROM uploads") == [("push", "wiki", "Teas", None)]
    assert len(site.sql("SELECT 1 FROM audit_log WHERE action = 'push'")) == 1 + len(changes)


def test_the_latest_version_wins_by_its_own_time(site: Site, running: Running) -> None:
    assert pushed(running, title="March", modified_at=MARCH)["status"] == "created"
    assert pushed(running, title="January", modified_at=JANUARY)["status"] == "outdated"
    assert pushed(running, title="March, corrected", modified_at=MARCH)["status"] == "updated"
    assert site.sql("SELECT title, modified_at FROM uploads") == [
        ("March, corrected", datetime(2026, 3, 15, 8, tzinfo=UTC))
    ]
    late = push(running, modified_at=(datetime.now(UTC) + timedelta(days=2)).isoformat())
    assert (late.status_code, late.json()["detail"]) == (400, "modified_at: lies in the future.")


def test_a_time_that_was_not_stated_outdates_nothing(site: Site, running: Running) -> None:
    """It is the time of the push, so later than that of any change at the source."""
    pushed(running, share=[ANN])
    assert pushed(running, share=[], modified_at=MARCH)["status"] == "updated"
    assert site.sql("SELECT permissions FROM uploads") == [([BOT],)]
    assert pushed(running, share=[ANN], modified_at=JANUARY)["status"] == "outdated"
    assert pushed(running, title="Tea")["status"] == "updated"
    assert pushed(running, share=[ANN], modified_at=JANUARY)["status"] == "outdated"
    remove(running)
    assert pushed(running, modified_at=JANUARY)["status"] == "created"
    assert pushed(running, modified_at=MARCH)["status"] == "updated"


def test_a_change_of_sharing_does_not_outdate_the_next_push(running: Running) -> None:
    doc_id = pushed(running, title="March", modified_at=MARCH)["doc_id"]
    assert running.request("PATCH", f"/api/documents/{doc_id}", BOT, json={"share": [ANN]}).status_code == 200
    assert running.site.launcher.calls[-1]["source"] == "push"
    assert pushed(running, title="March", modified_at=MARCH)["status"] == "updated"


def test_only_those_with_the_role_may_push(site: Site, running: Running) -> None:
    pushed(running)
    attempts = [
        ("PUT", address(), {"json": {"content": TEXT}}),
        ("PUT", address("absent"), {"json": {"content": TEXT}}),
        ("PUT", address(source="no such name"), {"json": {"content": TEXT}}),
        ("DELETE", address(), {}),
        ("DELETE", address("absent"), {}),
        ("POST", "/api/documents/wiki/batch", {"json": {"documents": [{"id": "tea", "content": "x"}]}}),
    ]
    refused = [running.request(method, path, ANN, **more) for method, path, more in attempts]
    assert {(one.status_code, one.json()["type"], one.json()["detail"]) for one in refused} == {
        (403, "/problems/role-required", refused[0].json()["detail"])
    }
    assert "publisher" in refused[0].json()["detail"]
    assert site.sql("SELECT owner FROM uploads") == [(BOT,)]


def test_a_key_pushes_as_its_user(site: Site, running: Running) -> None:
    with session(site.settings.postgres_dsn) as connection:
        keys = {who: api_keys.create(connection, who) for who in (BOT, ANN)}
    sent = {
        who: running.http.put(address(), headers={"X-API-Key": key}, json={"content": TEXT}).status_code
        for who, key in keys.items()
    }
    assert sent == {BOT: 200, ANN: 403}


def test_another_program_neither_replaces_nor_finds_a_document(site: Site, running: Running) -> None:
    """Whatever another program pushes or deletes under the same name and id is answered as if nothing were there."""
    doc_id = indexed(site, running, ANN)
    first, unknown = remove(running, who=OTHER), remove(running, "absent", who=OTHER)
    assert first.status_code == 404
    assert {**first.json(), "instance": ""} == {**unknown.json(), "instance": ""}
    for method, more in (("GET", {}), ("DELETE", {}), ("PATCH", {"json": {"title": "Mine"}})):
        known, absent = (
            running.request(method, f"/api/documents/{one}", OTHER, **more).json()
            for one in (doc_id, document_id(SourceName.PUSH, "absent"))
        )
        assert {**known, "instance": ""} == {**absent, "instance": ""}
    made, fresh = pushed(running, who=OTHER, title="Theirs"), pushed(running, "absent", who=OTHER, title="Theirs")
    assert made["doc_id"] != doc_id
    assert {*made.items()} - {*fresh.items()} == {("id", "tea"), ("doc_id", made["doc_id"]), ("job_id", made["job_id"])}
    listed = running.request("GET", "/api/documents", OTHER, params={"source_type": "push"}).json()
    collections = running.request("GET", "/api/collections", OTHER).json()
    assert (listed["total"], collections["collections"]) == (0, [])
    assert running.titles("lighthouse keeper", OTHER) == []
    assert running.titles("lighthouse keeper", ANN) == ["Keeper"]
    assert remove(running, who=OTHER).status_code == 200
    assert running.titles("lighthouse keeper", ANN) == ["Keeper"]


def test_a_job_is_its_pushers_alone(running: Running) -> None:
    job = pushed(running)["job_id"]
    assert running.request("GET", f"/api/ingest/{job}", OTHER).status_code == 404


def test_a_push_is_shared_as_an_upload_may_be(site: Site, running: Running) -> None:
    for principal in (EVE, "public", "domain:elsewhere.org", "slack:T1"):
        refused = push(running, share=[principal])
        assert (refused.status_code, refused.json()["type"]) == (403, "/problems/sharing-not-allowed")
    assert push(running, tags={"tenant": "acme"}).status_code == 400
    assert site.sql("SELECT 1 FROM uploads") == []
    by_admin = running.request("PUT", address(), BOT, admin=True, json={"content": TEXT, "share": ["public"]})
    assert by_admin.status_code == 200
    pushed(running, "own")
    assert site.sql("SELECT permissions FROM uploads ORDER BY change") == [(["public", BOT],), ([BOT],)]


def test_narrower_sharing_takes_effect_at_once(site: Site, running: Running) -> None:
    indexed(site, running, ANN)
    assert running.titles("lighthouse keeper", ANN) == ["Keeper"]
    pushed(running, title="Keeper")
    assert (running.titles("lighthouse keeper", ANN), running.titles("lighthouse keeper", BOT)) == ([], ["Keeper"])


def test_a_deleted_document_is_gone_at_once_and_may_come_back(site: Site, running: Running) -> None:
    doc_id = indexed(site, running, ANN)
    response = remove(running)
    assert (response.status_code, response.json()["doc_id"], response.json()["status"]) == (200, doc_id, "deleted")
    assert site.launcher.calls[-1]["source"] == "push"
    assert running.titles("lighthouse keeper", ANN) == running.titles("lighthouse keeper", BOT) == []
    assert running.request("GET", f"/api/documents/{doc_id}", BOT).status_code == 404
    again = remove(running)
    assert (again.status_code, again.json()["doc_id"]) == (200, doc_id)
    assert remove(running, who=OTHER).status_code == 404
    assert pushed(running, modified_at=JANUARY)["status"] == "created"


def test_what_a_curator_takes_down_cannot_be_pushed_again(site: Site, running: Running) -> None:
    doc_id = pushed(running)["doc_id"]
    assert running.request("DELETE", f"/api/documents/{doc_id}", ANN, admin=True).status_code == 200
    assert site.launcher.calls[-1]["source"] == "push"
    again = push(running)
    assert again.status_code == 400
    assert "taken this document down" in again.json()["detail"]
    copy = push(running, "tea-2").json()["detail"]
    assert "one of yours with the same content" in copy


IDS = (
    "a/b", "a//b", "/a", "a/", "/", "original", "original/x", "batch", "batch/x", "=a", "a b", "%2F", "?x=1#y", "Ä",
    "https://wiki.example/x?id=1", "x" * 512,
)  # fmt: skip


def test_an_id_may_be_any_text(site: Site, running: Running) -> None:
    for own_id in IDS:
        assert pushed(running, own_id)["id"] == own_id
    assert {source_id for (source_id,) in site.sql("SELECT source_id FROM uploads")} == {
        f"{BOT}:wiki/{one}" for one in IDS
    }
    assert push(running, "a/b").json()["status"] == "unchanged"
    for own_id in IDS:
        assert remove(running, own_id).status_code == 200, own_id
    for wrong in ("x" * 513, "a\nb", "\x00"):
        assert push(running, wrong).status_code == 400
        assert remove(running, wrong).status_code == 400
    assert running.request("DELETE", "/api/documents/wiki/%FF", BOT).status_code == 400


def test_the_name_of_a_source_is_the_pushers_choice_but_no_connectors(running: Running) -> None:
    assert push(running, source="jira_2-b").status_code == 200
    for name in ("slack", "google-drive", "uploads", "files", "push"):
        refused = push(running, source=name)
        assert (refused.status_code, "is the name of the source" in refused.json()["detail"]) == (400, True)
    for name in ("Wiki", "wi%20ki", "-x", "x" * 64, "w%2Fx"):
        assert running.request("PUT", f"/api/documents/{name}/1", BOT, json={"content": TEXT}).status_code == 400


def test_a_file_is_streamed_and_its_type_checked(site: Site, running: Running) -> None:
    metadata = {"title": "Plan", "link": "https://wiki.example/plan", "modified_at": MARCH, "share": [ANN]}
    form: dict[str, Any] = {"files": {"file": ("plan.md", TEXT.encode())}, "data": {"metadata": json.dumps(metadata)}}
    responses = [running.request("PUT", address("plan"), BOT, **form).json() for _ in range(2)]
    assert [one["status"] for one in responses] == ["created", "unchanged"]
    rows = site.sql("SELECT content_hash, title, url, permissions, mime_type FROM uploads")
    content = hashlib.sha256(TEXT.encode()).hexdigest()
    assert rows == [(content, "Plan", "https://wiki.example/plan", [ANN, BOT], "text/markdown")]
    refused = running.request("PUT", address("x"), BOT, files={"file": ("x.exe", b"MZ")})
    assert (refused.status_code, refused.json()["type"]) == (415, "/problems/unsupported-type")
    wrong = running.request("PUT", address("x"), BOT, files={"file": ("x.md", b"x")}, data={"metadata": '{"lnk": 1}'})
    assert (wrong.status_code, wrong.json()["detail"][:12]) == (400, "metadata.lnk")
    headers = {"Content-Type": "multipart/form-data; boundary=B"}
    large = running.request("PUT", address("x"), BOT, content=_multipart("big.txt", 60 * MB), headers=headers)
    assert (large.status_code, large.json()["type"]) == (413, "/problems/too-large")
    assert len(site.sql("SELECT 1 FROM uploads")) == 1


@pytest.mark.parametrize(
    ("body", "status", "detail"),
    [
        ({}, 400, "content: give one of"),
        ({"content": "x", "content_base64": "eA=="}, 400, "content: give one of"),
        ({"content": " "}, 400, "content: is empty"),
        ({"content": "x", "titel": "y"}, 400, "titel: is not a known field"),
        ({"content": "x", "link": "javascript:alert(1)"}, 400, "link: "),
        ({"content": "x", "link": "https://"}, 400, "link: "),
        ({"content": "x", "link": "https://[HOST]/wiki/plan#s2"}, 400, "link: "),
        ({"content": "x", "link": "https://wiki.example:http/plan"}, 400, "link: "),
        ({"content": "x", "link": "https://wiki.example/plan\n[^2]: Forged"}, 400, "link: "),
        ({"content": "x", "link": "https://wiki.example/the plan"}, 400, "link: "),
        ({"content": "x", "link": "https://wiki.example/\x7f"}, 400, "link: "),
        ({"content": "x", "modified_at": "2026-01-15T08:00:00"}, 400, "modified_at: "),
        ({"content": "x", "share": ["nobody"]}, 400, "'nobody'"),
        ({"content": "x", "tags": {"a": {"b": 1}}}, 400, "tags: "),
        ({"content": "x", "content_type": "application/x-tar"}, 415, "Files of type"),
        ({"content_base64": "TVo=", "filename": "a.exe"}, 415, ""),
        ({"content": "x" * MB}, 413, "A JSON body has at most 1 MB. Send a larger document as a form"),
    ],
)
def test_a_wrong_push_is_refused_alone_and_in_a_batch(
    site: Site, running: Running, body: dict[str, Any], status: int, detail: str
) -> None:
    alone = running.request("PUT", address(), BOT, json=body)
    assert (alone.status_code, alone.json()["detail"][: len(detail)]) == (status, detail)
    if status != 413:
        answer = batch(running, {"id": "a", "content": "A."}, {"id": "tea", **body}, {"id": "b", "content": "B."})
        assert answer.status_code == 200
        good, bad, last = answer.json()["results"]
        assert (good["status"], last["status"], answer.json()["refused"]) == ("created", "created", 1)
        assert (bad["id"], bad["doc_id"], bad["status"], bad["job_id"]) == ("tea", None, None, None)
        assert bad["error"]["type"] == alone.json()["type"]
        assert bad["error"]["detail"].startswith(alone.json()["detail"].removesuffix("."))
        assert site.sql("SELECT source_id FROM uploads ORDER BY change") == [(f"{BOT}:wiki/a",), (f"{BOT}:wiki/b",)]
        assert len(site.launcher.calls) == 1


def test_a_batch_is_stored_in_order_and_bounded(site: Site, running: Running) -> None:
    documents = [
        {"id": "same", "content": "First."},
        {"id": "same", "content": "Second."},
        {"id": "b/c", "content": "B."},
    ]
    first, second = (batch(running, *documents).json() for _ in range(2))
    assert [one["status"] for one in first["results"]] == ["created", "updated", "created"]
    assert [one["status"] for one in second["results"]] == ["updated", "updated", "unchanged"]
    assert remove(running, "b/c").status_code == 200
    for wrong in ([], [{"id": "x", "content": "x"}] * 101):
        assert batch(running, *wrong).status_code == 400
    assert batch(running, {"id": "x", "content": "x" * (9 * MB)}).status_code == 413
    unread = batch(running, {"id": 7, "content": "x"}, {"content": "x"}, {"id": "", "content": "x"}).json()["results"]
    assert [one["id"] for one in unread] == [None, None, None]
    assert site.sql("SELECT count(*) FROM uploads") == [(2,)]


def test_a_body_of_another_type_is_refused(running: Running) -> None:
    for method, path in (("PUT", address()), ("POST", "/api/documents/wiki/batch")):
        sent = running.request(method, path, BOT, content=b"content=x", headers={"Content-Type": "text/plain"})
        assert (sent.status_code, sent.json()["type"]) == (415, "/problems/content-type")


def test_a_push_that_cannot_be_recorded_leaves_no_record_and_works_again(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes come first: without their record they are no document, and a record without its bytes is not made."""

    def refused(*_: object) -> None:
        raise ServiceUnavailableError("Qdrant does not answer.")

    with monkeypatch.context() as away:
        away.setattr("serving.identity.withholding.withhold_documents", refused)
        assert push(running).status_code == 503
    assert (site.sql("SELECT 1 FROM uploads"), site.sql("SELECT 1 FROM ingest_jobs")) == ([], [])
    store = Blobs(site.settings.lake_address)

    def erased(connection: Any, document: NewUpload) -> PushRecord:
        store.delete(document.content_hash)
        return record(connection, document)

    with monkeypatch.context() as late:
        late.setattr("serving.documents.receiver.push", erased)
        assert push(running).status_code == 503
    assert site.sql("SELECT 1 FROM uploads") == []
    assert pushed(running)["status"] == "created"
    assert store.exists(site.sql("SELECT content_hash FROM uploads")[0][0])


@pytest.mark.parametrize(
    ("fault", "slug"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "storage-full"),
        (OSError(errno.EROFS, "Read-only file system"), "storage-read-only"),
        (psycopg.errors.DiskFull("could not extend file"), "storage-full"),
        (QuotaExceededError("You have as many documents as allowed."), "quota-exceeded"),
    ],
)
def test_a_batch_that_a_lasting_fault_cuts_off_says_what_is_stored(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch, fault: Exception, slug: str
) -> None:
    documents = [{"id": name, "content": name} for name in "abc"]
    with monkeypatch.context() as full:
        full.setattr("serving.documents.receiver.check_stored", fails_after_the_first(site, fault))
        answer = batch(running, *documents, key="k")
    assert answer.status_code == 200, answer.text
    first, second, third = answer.json()["results"]
    assert (first["status"], answer.json()["refused"]) == ("created", 2)
    assert running.request("GET", f"/api/ingest/{first['job_id']}", BOT).status_code == 200
    for one, name in ((second, "b"), (third, "c")):
        assert (one["id"], one["job_id"], one["error"]["type"]) == (name, None, f"/problems/{slug}")
    assert len(site.launcher.calls) == 1
    with monkeypatch.context() as full:
        full.setattr("serving.documents.receiver.check_stored", fails_after_the_first(site, fault))
        assert batch(running, *documents[1:]).status_code >= 400, "nothing is stored, so it can be sent again as it is"
    again = batch(running, *documents, key="k")
    assert "idempotent-replayed" not in again.headers, "its key is free"
    assert [one["status"] for one in again.json()["results"]] == ["unchanged", "created", "created"]


def test_a_batch_that_a_passing_fault_cuts_off_fails_as_a_whole_and_is_indexed_as_far_as_it_got(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = [{"id": name, "content": name} for name in "abc"]
    with monkeypatch.context() as away:
        fault = ServiceUnavailableError("Qdrant does not answer.", 1)
        away.setattr("serving.documents.receiver.check_stored", fails_after_the_first(site, fault))
        answer = batch(running, *documents, key="k")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
    assert len(site.launcher.calls) == 1
    again = batch(running, *documents, key="k").json()["results"]
    assert [one["status"] for one in again] == ["unchanged", "created", "created"]


def fails_after_the_first(site: Site, fault: Exception) -> Any:
    def check(*given: Any) -> None:
        if site.sql("SELECT 1 FROM uploads"):
            raise fault

    return check


def test_citations_name_the_source_and_open_the_link(site: Site, running: Running) -> None:
    doc_id = indexed(site, running, ANN, link="https://wiki.example/tea")
    for body in ({}, {"filters": {"source_types": ["push"], "collection_ids": ["wiki"]}}):
        (found,) = running.search("lighthouse keeper", ANN, **body)["results"]
        assert (found["source_type"], found["collection_id"]) == ("push", "wiki")
        assert (found["citation"]["link"], found["citation"]["text"][:18]) == (
            "https://wiki.example/tea",
            "[1] Keeper (wiki, ",
        )
    assert running.titles("lighthouse keeper", ANN, filters={"collection_ids": ["jira"]}) == []
    collections = running.request("GET", "/api/collections", ANN, params={"source_type": "push"}).json()
    assert [(one["collection_id"], one["documents"]) for one in collections["collections"]] == [("wiki", 1)]
    cited = running.request(
        "POST", "/api/citations/format", ANN, json={"doc_ids": [doc_id], "format": "footnote"}
    ).json()
    assert "wiki" in cited["citations"][0]["text"]


@pytest.mark.parametrize(
    ("own_id", "title"), [(".", None), ("..", None), ("foo\\", None), ("\u200b", None), ("x", "..."), ("x", "draft\\.")]
)
def test_any_id_and_title_keeps_the_type_of_the_content(
    site: Site, running: Running, own_id: str, title: str | None
) -> None:
    answer = batch(running, {"id": own_id, "content": "# Tea\n\nAt four.", **({"title": title} if title else {})})
    assert answer.json()["results"][0]["status"] == "created", answer.text
    ((mime_type, name),) = site.sql("SELECT mime_type, file_name FROM uploads")
    assert mime_type == "text/markdown"
    assert name.endswith(".md")
    assert len(name) > len(".md")


def test_a_tag_may_mention_the_escape_of_nul(running: Running) -> None:
    assert pushed(running, tags={"escape": "\\u0000"})["status"] == "created"
    assert push(running, tags={"escape": "\\\0"}).status_code == 400


def test_a_push_goes_through_the_pipeline(
    installation: Installation,
    bundled_model: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ann = "ann@acme.com"
    site = with_publishers(Site(installation.settings, bundled_model))
    with site.running() as running:
        body = {"title": "Keeper", "link": "https://wiki.example/keeper", "share": [ann], "modified_at": JANUARY}
        job = pushed(running, **body)["job_id"]
        batch(
            running,
            {"id": "empty", "content_base64": "JVBERi0xLjQKYnJva2Vu", "filename": "x.pdf"},
            {"id": "b", "content": "Gulls nest."},
        )
        run_ = installation.sync(SourceName.PUSH)
        assert (run_.counts.synced, run_.counts.skipped, run_.counts.embedded) == (2, 1, 2)
        assert installation.agrees()
        assert running.request("GET", f"/api/ingest/{job}", BOT).json()["status"] == "success"
        assert running.titles("lighthouse keeper", ann) == ["Keeper"]
        ledger = installation.rows("SELECT partition, state, count(*) AS n FROM documents GROUP BY 1, 2 ORDER BY 1, 2")
        assert [(row["partition"], row["state"], row["n"]) for row in ledger] == [
            ("wiki", "live", 2),
            ("wiki", "skipped", 1),
        ]
        (sync,) = installation.rows("SELECT job_id::text AS id FROM sync_jobs")
        errors = [
            running.request("GET", f"/api/sync/status/{sync['id']}", who).json()["errors"] for who in (BOT, OTHER)
        ]
        assert [len(one) for one in errors] == [1, 0], "errors of documents are for their pusher"

        assert pushed(running, **body | {"title": "The keeper", "share": []})["status"] == "updated"
        assert installation.sync(SourceName.PUSH).counts.embedded == 0
        assert running.titles("lighthouse keeper", ann) == []
        assert running.titles("lighthouse keeper", BOT)[0] == "The keeper"

        assert remove(running).status_code == 200
        assert "The keeper" not in running.titles("lighthouse keeper", BOT)
        installation.sync(SourceName.PUSH)
        assert installation.agrees()
        (receipt,) = installation.rows(
            "SELECT source, source_id, points_gone_at IS NOT NULL AS gone FROM deletion_receipts"
        )
        assert (receipt["source"], receipt["source_id"], receipt["gone"]) == ("push", f"{BOT}:wiki/tea", True)

        as_environment(installation, monkeypatch)
        capsys.readouterr()
        assert run(["source", "list", "--json"]) == 0
        listed = {one["root"]: one for one in json.loads(capsys.readouterr().out.splitlines()[-1])}
        assert (listed["wiki"]["source"], listed["wiki"]["documents"]) == ("push", 2)
        assert run(["source", "remove", "wiki", "--yes", "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"documents": 2, "roots": ["wiki"]}
        assert running.titles("gulls nest", BOT) == []
        installation.sync(SourceName.PUSH)
        assert installation.agrees()
        assert (installation.points(), installation.rows("SELECT 1 FROM documents WHERE state <> 'deleted'")) == (
            [],
            [],
        )
        assert run(["source", "list", "--json"]) == 0
        assert "wiki" not in capsys.readouterr().out
        assert pushed(running, **body)["status"] == "created"
        installation.sync(SourceName.PUSH)
        assert running.titles("lighthouse keeper", ann) == ["Keeper"]


def test_a_pushed_source_takes_no_name_that_means_something_else(site: Site) -> None:
    widget = Widget(name="help", origins=("https://docs.acme.com",), collection="handbook/product")
    root = FileRoot(name="Company", url="file:///srv/company", tenant="acme", dataset="company", permissions=())
    site.settings = site.settings.model_copy(update={"file_roots": [root], "widgets": (widget,)})
    site.add("Minutes", ["Text."], [ANN], partition="minutes", collection_ids=["minutes"])
    with with_publishers(site).running() as running:
        for name in ("company", "handbook", "minutes", "2026-01-15", "files", "slack"):
            for response in (
                push(running, source=name),
                running.request("POST", f"/api/documents/{name}/batch", BOT, json={"documents": []}),
            ):
                assert response.status_code == 400, (name, response.text)
                assert response.json()["detail"].startswith(f"source: {name} is the name of ")
        assert pushed(running)["status"] == "created"
        site.add(
            "Root", ["Text."], [ANN], partition="wiki", collection_ids=["wiki"]
        )  # a root that takes the name later
        assert push(running, "more").status_code == 400
        assert remove(running).status_code == 200


def test_widgets_and_books_do_not_answer_from_pushed_documents_of_the_same_name(site: Site, running: Running) -> None:
    site.add("Official", ["Ships are counted at dawn."], [ANN], partition="handbook", collection_ids=["handbook"])
    for source in (SourceName.PUSH, SourceName.UPLOAD):
        site.add(
            "Planted", ["Ships are counted by Eve, by night."], [ANN], source=source, source_id=f"{EVE}:handbook/1", owner=EVE,
            partition="handbook", collection_ids=["handbook"], url="https://wiki.example/ships",
        )  # fmt: skip
    asked = running.request("POST", "/ask", ANN, json={"query": "When are ships counted?", "collection_id": "handbook"})
    assert {one["file"] for one in asked.json()["sources"]} == {"Official.md"}
    about = {
        "query": "When?",
        "context": "by night",
        "source_file": "https://wiki.example/ships",
        "collection_id": "handbook",
    }
    assert running.request("POST", "/ask-local", ANN, json=about).status_code == 404
