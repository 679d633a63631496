"""QuickRAG: `POST /api/ingest` and its job, metadata by precedence, the allow-list, and a pipeline that does the work."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resources.core.domain import SourceName
from resources.sources.files import Files
from tests.fixtures.desk import ADA, ZEBRAS, Desk
from tests.fixtures.serving import Running

BOB, EVE = "bob@acme.example", "eve@other.example"
TAGS = {"tenant": "acme", "dataset": "notes"}
OTTERS = "Otters hold hands while they sleep, so that the current does not part them.\n"


def ingest(running: Running, who: str, **body: Any) -> dict[str, Any]:
    response = running.request("POST", "/api/ingest", who, json=body)
    assert response.status_code == 202, response.text
    return response.json()


def refused(running: Running, who: str, **body: Any) -> tuple[int, str]:
    response = running.request("POST", "/api/ingest", who, json=body)
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["detail"]


def job(running: Running, who: str, job_id: str) -> dict[str, Any]:
    response = running.request("GET", f"/api/ingest/{job_id}", who)
    assert response.status_code == 200, response.text
    return response.json()


def test_from_queued_to_success_and_found(desk: Desk) -> None:
    reply = ingest(desk.running, BOB, content=OTTERS, filename="otters.md", doc_id="otters", tags=TAGS)
    assert set(reply) == {"job_id", "doc_id", "status"}
    assert reply["status"] == "queued"
    queued = job(desk.running, BOB, reply["job_id"])
    assert set(queued) == {"job_id", "doc_id", "status", "stage", "counts", "error"}
    assert (queued["status"], queued["stage"], queued["error"]) == ("queued", None, None)
    desk.installation.sync(SourceName.UPLOAD)
    done = job(desk.running, BOB, reply["job_id"])
    assert (done["status"], done["stage"], done["counts"]["chunks"]) == ("success", "indexed", 1)
    (found,) = [
        one for one in desk.running.search("Why do otters hold hands?", BOB)["results"] if "tters" in one["title"]
    ]
    assert found["doc_id"] == reply["doc_id"]
    assert found["tags"] == {**TAGS, "external_id": "otters"}
    assert reply["doc_id"] not in json.dumps(desk.running.search("Why do otters hold hands?", ADA))
    for path in (f"/api/ingest/{reply['job_id']}", "/api/ingest/nothing", f"/api/ingest/{reply['doc_id']}"):
        assert desk.running.request("GET", path, ADA, admin=True).status_code == 404


def test_the_same_doc_id_is_replaced_within_its_tenant_and_owner(desk: Desk) -> None:
    first = ingest(desk.running, BOB, content=OTTERS, doc_id="page-1", tags=TAGS)
    desk.installation.sync(SourceName.UPLOAD)
    again = ingest(desk.running, BOB, content="Badgers dig setts of forty rooms.", doc_id="page-1", tags=TAGS)
    assert again["doc_id"] == first["doc_id"]
    assert job(desk.running, BOB, again["job_id"])["status"] == "queued"
    desk.installation.sync(SourceName.UPLOAD)
    assert job(desk.running, BOB, again["job_id"])["status"] == "success"
    texts = [one["chunk_text"] for one in desk.running.search("badgers and otters", BOB)["results"]]
    assert any("Badgers" in text for text in texts)
    assert not any("Otters" in text for text in texts)
    elsewhere = ingest(desk.running, BOB, content=OTTERS, doc_id="page-1", tags=TAGS | {"tenant": "globex"})
    hers = ingest(desk.running, ADA, content=OTTERS, doc_id="page-1", tags=TAGS)
    assert len({first["doc_id"], elsewhere["doc_id"], hers["doc_id"]}) == 3


def test_a_blob_of_a_root_body_over_sidecar_over_path_over_defaults(desk: Desk) -> None:
    desk.installation.write(
        "hr/rules.md", OTTERS, title="The rules", topic="sidecar", department="hr", permissions=["domain:acme.example"]
    )
    reply = ingest(desk.running, BOB, blob_path="docs/hr/rules.md", tags={"topic": "body"})
    same = ingest(
        desk.running, BOB, blob_path=(desk.installation.root / "hr" / "rules.md").as_uri(), tags={"topic": "body"}
    )
    assert reply["doc_id"] == same["doc_id"]
    row = desk.installation.rows("SELECT title, tags, permissions, file_name FROM uploads")[0]
    assert row["tags"] == {"source": "files", "tenant": "acme", "dataset": "docs", "topic": "body", "department": "hr"}
    assert (row["title"], row["permissions"], row["file_name"]) == ("The rules", [BOB], "rules.md")
    shared = {"blob_path": "docs/hr/rules.md", "share": [ADA]}
    ingest(desk.running, BOB, **shared)
    status, detail = refused(desk.running, BOB, **shared | {"share": ["public"]})
    assert (status, detail) == (400, "share: public may not read the original; a copy is never shared wider.")


@pytest.mark.parametrize("change", [lambda file: file.write_text("Later text."), lambda file: file.unlink()])
def test_a_blob_that_changes_while_it_is_read_is_asked_for_again(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    file = desk.installation.write("log.md", "First text.")
    look = Files.look

    def looked(files: Files, *place: str) -> Any:
        found = look(files, *place)
        change(file)
        return found

    monkeypatch.setattr(Files, "look", looked)
    status, detail = refused(desk.running, BOB, blob_path="docs/log.md")
    assert (status, detail) == (503, "blob_path: the file changed while it was read. Send the request again.")
    assert desk.installation.rows("SELECT 1 FROM uploads") == []


def test_what_one_may_not_read_is_as_if_it_were_not_there(desk: Desk) -> None:
    desk.installation.write("secret.md", "The moonstone lies under the stairs.", permissions=[ADA])
    desk.installation.write("broken.md", "text", permissions="everybody")
    answers = {refused(desk.running, BOB, blob_path=f"docs/{name}.md") for name in ("secret", "missing", "broken")}
    answers |= {
        refused(desk.running, EVE, blob_path=path) for path in ("docs/zebras.md", "nowhere/x.md", "/docs/zebras.md")
    }
    assert answers == {(404, "blob_path: there is no such file in the file roots, or you may not read it.")}
    assert refused(desk.running, EVE, blob_path="docs/secret.md", share=[EVE])[0] == 404
    assert desk.installation.rows("SELECT 1 FROM uploads") == []


def test_a_reader_who_may_not_know_the_folders_cannot_confirm_a_path(desk: Desk) -> None:
    desk.installation.write("layoffs/note.md", "A note for a guest.", permissions=[EVE])
    desk.installation.write("note.md", "Another note for a guest.", permissions=[EVE])
    reply = {refused(desk.running, EVE, blob_path=f"docs/{folder}/note.md") for folder in ("layoffs", "hiring")}
    assert reply == {(404, "blob_path: there is no such file in the file roots, or you may not read it.")}
    assert ingest(desk.running, EVE, blob_path="docs/note.md")["status"]


OUTSIDE = [
    "https://evil.example/x.md",
    "http://127.0.0.1:8080/x.md",
    "ftp://host/x.md",
    "//host/share/x.md",
    "data:text/plain,x.md",
    "docs/../../etc/passwd.md",
    "docs/./zebras.md",
    "file:///srv/../etc/passwd.md",
    "file:///srv/%2e%2e/etc/passwd.md",
    "../docs/zebras.md",
]


def test_external_addresses_and_escapes_are_refused(running: Running) -> None:
    for blob_path in OUTSIDE:
        status, detail = refused(running, ADA, blob_path=blob_path)
        assert status == 400
        assert detail.startswith("blob_path: ")


def test_links_and_our_own_state_are_no_blobs(desk: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text(ZEBRAS)
    (desk.installation.root / "link.md").symlink_to(outside)
    (desk.installation.root / "up").symlink_to(tmp_path)
    (desk.installation.root / ".hidden.md").write_text(ZEBRAS)
    for path in ("docs/link.md", "docs/up/outside.md", "docs/.hidden.md", "docs/zebras.md/x.md"):
        assert refused(desk.running, ADA, blob_path=path)[0] == 404


WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({}, 400, "one of blob_path, content and content_base64"),
    ({"content": "x", "blob_path": "docs/x.md"}, 400, "one of blob_path"),
    ({"content": " ", "tags": TAGS}, 400, "content"),
    ({"content": "x", "tags": {"tenant": "acme"}}, 400, "tags.dataset"),
    ({"content": "x", "tags": TAGS | {"tenant": 1}}, 400, "tenant"),
    ({"content": "x", "tags": TAGS | {"deep": {"er": 1}}}, 400, "deep"),
    ({"content": "x", "tags": TAGS, "doc_id": "a/b"}, 400, "doc_id"),
    ({"content": "x", "tags": TAGS, "share": ["everyone"]}, 400, "everyone"),
    ({"content": "x", "tags": TAGS, "owner": "eve@other.example"}, 400, "owner"),
    ({"content": "x", "tags": TAGS, "filename": "x.exe"}, 415, ".exe"),
    ({"content": "no picture", "tags": TAGS, "filename": "x.png"}, 415, "x.png"),
    ({"content": "x", "tags": TAGS, "content_type": "video/mp4"}, 415, "video/mp4"),
]


def test_what_is_wrong_is_named(running: Running) -> None:
    for body, status, named in WRONG:
        code, detail = refused(running, ADA, **body)
        assert code == status
        assert named in detail
        assert running.request("POST", "/api/ingest", json=body).status_code == 401


def test_bytes_a_failure_and_a_document_taken_back(desk: Desk) -> None:
    data = base64.b64encode(b"%PDF-1.7 nothing more").decode()
    reply = ingest(desk.running, BOB, content_base64=data, filename="broken.pdf", tags=TAGS)
    note = ingest(
        desk.running, BOB, content_base64=base64.b64encode(OTTERS.encode()).decode(), title="A note", tags=TAGS
    )
    desk.installation.sync(SourceName.UPLOAD)
    failed = job(desk.running, BOB, reply["job_id"])
    assert (failed["status"], failed["stage"]) == ("failed", "parsed")
    assert failed["error"]
    assert job(desk.running, BOB, note["job_id"])["status"] == "success"
    desk.running.request("DELETE", f"/api/documents/{note['doc_id']}", BOB)
    gone = job(desk.running, BOB, note["job_id"])
    assert (gone["status"], gone["error"]) == ("failed", "Its owner has taken it back.")
