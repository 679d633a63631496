"""Uploads, deletions, opened documents, citations, syncs and sign-in over real HTTP and Postgres."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import jwt
import pytest

from resources.core.errors import NotRunningError
from resources.stores.blobs import Blobs
from resources.stores.postgres import session
from serving.identity import api_keys
from tests.fixtures.serving import PUBLIC_URL, Running, Site

ANN, BOB, ROOT = "ann@acme.com", "bob@acme.com", "root@acme.com"
MB = 1024 * 1024


def upload(running: Running, who: str, name: str, content: bytes, metadata: str | None = None) -> dict[str, object]:
    data = {"metadata": metadata} if metadata else {}
    response = running.request("POST", "/api/upload", who, files={"file": (name, content)}, data=data)
    assert response.status_code == 202, response.text
    return response.json()


def test_an_upload_is_kept_for_its_owner_and_starts_a_sync(site: Site, running: Running) -> None:
    body = upload(
        running,
        ANN,
        "../Notes.md",
        b"# Hello\n",
        '{"title": "My notes", "description": "On hello", "share": ["Bob@acme.com"]}',
    )
    assert set(body) == {"doc_id", "job_id", "status", "message", "known"}
    assert (body["status"], body["message"]) == ("processing", "File uploaded, indexing in progress")
    assert body["job_id"] == "00000000-0000-4000-8000-000000000001"
    assert site.launcher.calls[0]["source"] == "upload"
    rows = site.sql(
        "SELECT owner, file_name, title, description, mime_type, size, permissions, doc_id::text FROM uploads"
    )
    assert rows == [(ANN, "Notes.md", "My notes", "On hello", "text/markdown", 8, [ANN, BOB], body["doc_id"])]


def test_the_same_content_by_the_same_owner_is_one_document(site: Site, running: Running) -> None:
    first, again = (upload(running, ANN, name, b"same\n") for name in ("a.txt", "b.txt"))
    other = upload(running, BOB, "a.txt", b"same\n")
    assert first["doc_id"] == again["doc_id"] != other["doc_id"]
    assert [one["known"] for one in (first, again, other)] == [False, True, False]
    assert site.sql("SELECT count(*) FROM uploads") == [(2,)]


def test_an_upload_asks_the_object_store_in_threads_of_its_own(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slow bucket occupies neither those that look up names nor those of transactions."""
    threads: dict[str, str] = {}

    def seen(call: Callable[..., Any]) -> Callable[..., Any]:
        def look(*given: Any) -> Any:
            threads[call.__name__] = threading.current_thread().name.partition("_")[0]
            return call(*given)

        return look

    for call in (Blobs.keep, Blobs.exists):
        monkeypatch.setattr(Blobs, call.__name__, seen(call))
    upload(running, ANN, "a.txt", b"one\n")
    assert threads == {"keep": "lake", "exists": "lake"}


def test_an_upload_waits_when_no_sync_can_start(site: Site, running: Running) -> None:
    site.launcher.error = NotRunningError("Dagster does not answer.")
    body = upload(running, ANN, "a.txt", b"one\n")
    assert body["job_id"] is None
    assert "when the sync service runs again" in str(body["message"])
    site.launcher.busy = "11111111-1111-4111-8111-111111111111"
    assert upload(running, ANN, "b.txt", b"two\n")["job_id"] == site.launcher.busy


def _multipart(name: str, size: int) -> Iterator[bytes]:
    yield f'--B\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    for _ in range(size // MB):
        yield b"words " * (MB // 6) + b"    "
    yield b"\r\n--B--\r\n"


@pytest.mark.parametrize("announced", [True, False])
def test_sixty_megabytes_are_refused_however_they_come(site: Site, running: Running, announced: bool) -> None:
    size = sum(map(len, _multipart("big.txt", 60 * MB)))
    headers = {"Content-Type": "multipart/form-data; boundary=B"} | ({"Content-Length": str(size)} if announced else {})
    response = running.request("POST", "/api/upload", ANN, content=_multipart("big.txt", 60 * MB), headers=headers)
    assert (response.status_code, response.json()["type"]) == (413, "/problems/too-large")
    assert "50 MB" in response.json()["detail"]
    assert site.sql("SELECT count(*) FROM uploads") == [(0,)]
    assert [path for path in (site.settings.home / "lake").rglob("*") if path.is_file()] == []


def test_what_is_not_what_it_says_is_refused(site: Site, running: Running, subtests: pytest.Subtests) -> None:
    for name, content, status, says in [
        ("setup.pdf", b"MZ\x90\x00\x03" + b"\x00" * 9000, 415, ".docx"),
        ("tool.exe", b"MZ\x90\x00", 415, ".pdf"),
        ("empty.txt", b"", 400, "empty"),
        ("image.png", b"not a picture", 415, ".png"),
    ]:
        with subtests.test(name=name, content=content, status=status, says=says):
            response = running.request("POST", "/api/upload", ANN, files={"file": (name, content)})
            assert response.status_code == status, response.text
            assert says in response.json()["detail"]
            assert site.sql("SELECT count(*) FROM uploads") == [(0,)]


def test_a_parameter_that_no_route_has_is_refused_and_never_ignored(running: Running) -> None:
    """`source` for `source_type` listed the documents of all sources."""
    refused = running.request("GET", "/api/documents?source=slack&limit=3", ANN)
    assert (refused.status_code, refused.json()["detail"][:63]) == (
        400,
        "source: is not a known parameter; allowed: source_type, mime_ty",
    )
    assert running.request("GET", "/api/documents?source_type=slack&tag=a:1&tag=b:2", ANN).status_code == 200
    assert running.request("GET", "/?utm_source=mail", ANN).status_code == 200


def test_a_wrong_form_says_what_is_wrong(running: Running, subtests: pytest.Subtests) -> None:
    for more, says in [
        ({"json": {"file": "x"}}, "multipart/form-data"),
        ({"files": {"other": (None, "x")}}, "file: is missing"),
        ({"files": {"file": ("a.txt", b"x")}, "data": {"metadata": '{"share": ["everyone!"]}'}}, "everyone!"),
        ({"files": [("file", ("a.txt", b"x")), ("file", ("b.txt", b"y"))]}, "one file"),
    ]:
        with subtests.test(more=more, says=says):
            response = running.request("POST", "/api/upload", ANN, **more)
            assert response.status_code == 400
            assert says in response.json()["detail"]


def indexed_upload(site: Site, running: Running, who: str, text: str, share: tuple[str, ...] = ()) -> str:
    """An upload that went through the pipeline, whose points the index still holds whatever happens later."""
    import hashlib

    content = text.encode()
    doc_id = upload(running, who, "u.txt", content)["doc_id"]
    source_id = f"{who}:{hashlib.sha256(content).hexdigest()}"
    from resources.core.domain import SourceName

    assert site.add("Upload", [text], [who, *share], source=SourceName.UPLOAD, source_id=source_id, owner=who) == doc_id
    return str(doc_id)


def test_a_deletion_hides_at_once_though_the_index_still_holds_the_points(site: Site, running: Running) -> None:
    doc_id = indexed_upload(site, running, ANN, "The lighthouse keeper counts ships at night.", (BOB,))
    assert running.titles("lighthouse keeper", BOB) == ["Upload"]
    assert running.request("DELETE", f"/api/documents/{doc_id}", BOB).status_code == 404
    assert running.titles("lighthouse keeper", ANN) == ["Upload"]
    gone = running.request("DELETE", f"/api/documents/{doc_id}", ANN)
    assert (gone.status_code, gone.json()["status"]) == (200, "deleted")
    assert site.qdrant.count(site.collection).count == 1
    for who in (ANN, BOB):
        assert running.titles("lighthouse keeper", who) == []
        assert running.request("GET", f"/api/documents/{doc_id}?chunk=0", who).status_code == 404
    again = running.request("DELETE", f"/api/documents/{doc_id}", ANN)
    assert (again.status_code, again.json()["status"]) == (200, "deleted")
    assert running.request("DELETE", f"/api/documents/{doc_id}", BOB).status_code == 404
    assert running.request("DELETE", f"/api/documents/{doc_id}", ROOT, admin=True).status_code == 404
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'delete'") == [(1,)]


def test_a_take_down_that_is_sent_again_is_answered_alike_and_only_to_curators(site: Site, running: Running) -> None:
    doc_id = indexed_upload(site, running, ANN, "The lighthouse keeper counts ships at night.")
    for _ in range(2):
        taken = running.request("DELETE", f"/api/documents/{doc_id}", ROOT, admin=True)
        assert (taken.status_code, taken.json()["status"]) == (200, "deleted")
    assert running.request("DELETE", f"/api/documents/{doc_id}", ANN).status_code == 404
    assert site.sql("SELECT count(*) FROM audit_log WHERE action = 'take_down'") == [(1,)]


def test_what_is_hidden_and_what_is_not_there_are_answered_alike(site: Site, running: Running) -> None:
    hidden = site.add("Secret", ["The secret plan."], [ANN])
    absent = "00000000-0000-4000-8000-00000000dead"
    for method, path in (
        ("GET", "/api/documents/{}"),
        ("GET", "/api/documents/{}?chunk=0"),
        ("DELETE", "/api/documents/{}"),
    ):
        answers = []
        for doc_id in (hidden, absent, "no-id"):
            response = running.request(method, path.format(doc_id), BOB)
            answers.append((response.status_code, {**response.json(), "instance": None}, sorted(response.headers)))
        assert answers[0] == answers[1] == answers[2]
        assert answers[0][0] == 404
    pages = [running.request("GET", f"/documents/{doc_id}", BOB) for doc_id in (hidden, absent)]
    assert pages[0].text == pages[1].text
    cited = running.request("POST", "/api/citations/format", BOB, json={"doc_ids": [hidden, absent]})
    assert cited.json() == {"citations": []}


def test_an_opened_document_shows_the_cited_place_in_its_text(site: Site, running: Running) -> None:
    texts = ["First passage.", "Second passage, the cited one.", "Third passage."]
    doc_id = site.add("Report", texts, [BOB], places=[{}, {"page_start": 2, "page_end": 2, "section_path": ["A", "B"]}])
    body = running.request("GET", f"/api/documents/{doc_id}?chunk=1&context=8", BOB).json()
    place, text, begins = body["place"], body["text"], body["text_start"]
    assert text[place["start"] - begins : place["end"] - begins] == texts[1]
    assert text == "ssage.\n\n" + texts[1] + "\n\nThird "
    assert (place["page_start"], place["section_path"], place["chunk_index"]) == (2, ["A", "B"], 1)
    assert running.request("GET", f"/api/documents/{doc_id}?chunk=9", BOB).status_code == 404
    assert running.request("GET", f"/api/documents/{doc_id}?start=5&end=1", BOB).status_code == 400
    assert (
        running.request("GET", f"/api/documents/{doc_id}?chunk=-1", BOB).json()["type"] == "/problems/invalid-request"
    )
    running.settle()
    audited = "SELECT 1 FROM audit_log WHERE action = 'open' AND email = %s AND %s = ANY(doc_ids::text[])"
    assert site.sql(audited, BOB, doc_id)


def test_the_viewer_signs_a_browser_in_and_escapes_what_it_shows(site: Site, running: Running) -> None:
    doc_id = site.add("<script>alert(1)</script>", ["Before.", "<img src=x onerror=alert(2)>"], [BOB])
    page = f"/documents/{doc_id}?chunk=1"
    refused = running.http.get(page)
    assert refused.status_code == 401
    assert f'href="/sign-in/acme?next={quote(page, safe="")}"' in refused.text
    cookie = site.session(BOB)
    assert cookie["Cookie"].startswith("__Host-concordance=")
    shown = running.http.get(page, headers=cookie)
    assert shown.status_code == 200
    assert '<mark id="place">&lt;img' in shown.text
    assert "<script>" not in shown.text
    assert "<img" not in shown.text
    assert "unsafe" not in shown.headers["content-security-policy"]
    assert "default-src 'none'" in shown.headers["content-security-policy"]
    token = {"Cookie": f"__Host-concordance={site.token(BOB)}"}
    assert running.http.get(page, headers=token).status_code == 401
    assert running.http.get(page, headers=site.session(ANN)).status_code == 404


def test_citations_are_formatted_for_what_the_caller_may_see(site: Site, running: Running) -> None:
    day = datetime(2025, 11, 10, tzinfo=UTC)
    seen = [site.add(name, ["x"], [BOB], modified_at=day) for name in ("A", "B")]
    hidden = site.add("C", ["x"], [ANN])
    body = running.request(
        "POST", "/api/citations/format", BOB, json={"doc_ids": [seen[1], hidden, seen[0]], "format": "endnote"}
    ).json()
    assert [set(one) for one in body["citations"]] == [{"index", "text", "link", "source_type", "doc_id"}] * 2
    assert [one["text"] for one in body["citations"]] == [
        f"1. B. Files, 10 Nov 2025. {PUBLIC_URL}/documents/{seen[1]}",
        f"2. A. Files, 10 Nov 2025. {PUBLIC_URL}/documents/{seen[0]}",
    ]
    assert running.request("POST", "/api/citations/format", BOB, json={"doc_ids": ["x"]}).status_code == 400


def test_syncs_are_for_administrators_and_one_at_a_time(site: Site, running: Running) -> None:
    assert running.request("POST", "/api/sync/files", BOB, json={}).json()["type"] == "/problems/role-required"
    started = running.request(
        "POST", "/api/sync/uploads", ROOT, admin=True, json={"folder_ids": ["f"], "full_sync": True}
    )
    assert (started.status_code, set(started.json())) == (202, {"job_id", "status", "started_at"})
    assert started.json()["status"] == "running"
    assert site.launcher.calls == [{"source": "upload", "partitions": ["f"], "full": True, "requested_by": ROOT}]
    assert running.request("POST", "/api/sync/files", ROOT, admin=True).status_code == 202
    site.launcher.busy = "11111111-1111-4111-8111-111111111111"
    busy = running.request("POST", "/api/sync/files", ROOT, admin=True, json={})
    assert (busy.status_code, busy.json()["job_id"]) == (409, site.launcher.busy)
    unknown = running.request("POST", "/api/sync/myspace", ROOT, admin=True, json={})
    assert (unknown.status_code, unknown.json()["type"]) == (404, "/problems/unknown-source")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"partitions": []}, "partitions: "),
        ({"folder_ids": []}, "folder_ids: "),
        ({"partitions": ["a"], "folder_ids": ["b"]}, "folder_ids: "),
    ],
)
def test_a_sync_of_no_partitions_is_not_one_of_all(
    site: Site, running: Running, body: dict[str, Any], field: str
) -> None:
    answer = running.request("POST", "/api/sync/files", ROOT, admin=True, json=body)
    assert (answer.status_code, answer.json()["detail"][: len(field)]) == (400, field)
    assert site.launcher.calls == []
    whole = {"partitions": None, "folder_ids": None}
    assert running.request("POST", "/api/sync/files", ROOT, admin=True, json=whole).status_code == 202
    assert [call["partitions"] for call in site.launcher.calls] == [None]


def test_the_status_of_a_sync_shows_counts_and_errors_to_administrators(site: Site, running: Running) -> None:
    job = site.sql(
        "INSERT INTO sync_jobs (source, status, synced, failed, completed_at, error_message) VALUES ('files', 'success', 47, 2, now(), 'm')"
        " RETURNING job_id::text"
    )[0][0]
    site.sql(
        "INSERT INTO sync_errors (job_id, source_id, stage, reason) VALUES (%s, 'root/secret.pdf', 'parsed', 'broken')",
        job,
    )
    mine = running.request("GET", f"/api/sync/status/{job}", BOB).json()
    assert (mine["documents_synced"], mine["documents_failed"], mine["errors"], mine["error_message"]) == (
        None,
        None,
        [],
        None,
    )
    assert (mine["status"], mine["chunks_embedded"], mine["completed_at"][16:]) == ("success", None, ":00Z")
    assert {"job_id", "status", "documents_synced", "documents_failed", "completed_at", "errors"} <= set(mine)
    admins = running.request("GET", f"/api/sync/status/{job}", ROOT, admin=True).json()
    assert (admins["documents_synced"], admins["documents_failed"]) == (47, 2)
    assert admins["errors"] == [
        {"file_id": "root/secret.pdf", "error": "broken", "stage": "parsed", "outcome": "failed"}
    ]
    assert running.request("GET", "/api/sync/status/nope", BOB).status_code == 404


def test_every_route_but_health_needs_a_signed_in_caller(site: Site, running: Running) -> None:
    document = running.http.get("/docs/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    opened: set[str] = set()
    for path, operations in document["paths"].items():
        for method in operations:
            response = running.http.request(method, re.sub(r"{[^}]*}", "x", path))
            if response.status_code != 401:
                opened.add(path)
            else:
                assert response.headers.get("www-authenticate", "Bearer").startswith("Bearer")
    # Google names the channel of a notification, and its secret, in headers: any other is not found. So is an unknown widget.
    widget = {"/api/widget/{name}/token", "/api/widget/{name}/ask"}
    assert opened == {"/healthz", "/readyz", "/api/auth/google/callback", "/api/drive/notifications", *widget}


def test_bad_tokens_have_problems_of_their_own(site: Site, running: Running) -> None:
    now = datetime.now(UTC)
    claims = {"iss": "concordance", "aud": "concordance", "sub": BOB, "iat": now, "exp": now + timedelta(hours=1)}
    tokens = {
        "token-expired": site.token(BOB, expires=timedelta(hours=-1)),
        "token-signature": jwt.encode(claims, "another key of more than thirty-two characters", algorithm="HS256"),
        "token-malformed": "abc",
        "api-key-invalid": "ck_0123_none",
    }
    for slug, token in tokens.items():
        response = running.http.post(
            "/api/rag/search", json={"query": "x"}, headers={"Authorization": f"Bearer {token}"}
        )
        assert (response.status_code, response.json()["type"]) == (401, f"/problems/{slug}")
        assert "www-authenticate" in response.headers
    assert running.http.post("/api/rag/search", json={"query": "x"}).json()["type"] == "/problems/token-missing"


def test_api_keys_stand_for_their_holder_until_they_end(site: Site, running: Running) -> None:
    site.add("Doc", ["Penguins live in the south."], ["group:birds@acme.com"])
    with session(site.settings.postgres_dsn) as connection:
        key = api_keys.create(connection, BOB, ["birds@acme.com"])
        late = api_keys.create(connection, BOB, expires_at=datetime.now(UTC) - timedelta(seconds=1))
    assert key.split("_", 2)[2] not in str(site.sql("SELECT * FROM api_keys"))

    def search(credential: str) -> int:
        response = running.http.post(
            "/api/rag/search", json={"query": "penguins"}, headers={"Authorization": f"Bearer {credential}"}
        )
        return len(response.json()["results"]) if response.status_code == 200 else response.status_code

    assert search(key) == 1
    assert search(late) == 401
    assert search(key[:-1] + ("A" if key[-1] != "A" else "B")) == 401
    with session(site.settings.postgres_dsn) as connection:
        assert api_keys.revoke(connection, key.split("_")[1])
    assert search(key) == 401


@pytest.mark.usefixtures("quick_figures")
def test_health_metrics_docs_and_headers(site: Site, running: Running) -> None:
    site.add("Doc", ["A word."], [BOB])
    running.search("word", BOB)
    ready = running.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ready")
    text = running.wait_for_metrics(
        "rag_search_latency_ms_count 1.0",
        "rag_search_results_count 1.0",
        "rag_cache_hit_rate 0.0",
        "qdrant_vector_count 1.0",
        'postgres_documents_count{source="files",state="live"} 1.0',
        "qdrant_collection_size 1536.0",
    )
    assert "@" not in text
    home = running.http.get("/")
    assert home.status_code == 200
    assert f"curl {PUBLIC_URL}/api/rag/search" in home.text
    page = running.http.get("/docs")
    assert "swagger-ui-bundle.js" in page.text
    assert "://" not in page.text, "the page loads nothing from another host"
    assert len(running.http.get("/docs/static/swagger-ui-bundle.js").content) > 100_000
    assert running.http.get("/docs/static/..%2f__init__.py").status_code == 404
    for response in (ready, page, running.http.get("/nowhere")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "content-security-policy" in response.headers
    assert running.http.get("/nowhere").json()["type"] == "/problems/not-found"


@pytest.mark.usefixtures("no_refills")
def test_the_hundred_and_first_search_of_a_minute_is_refused(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 2})
    with site.running() as running:
        codes = [running.request("POST", "/api/rag/search", BOB, json={"query": "x"}).status_code for _ in range(3)]
        refused = running.request("POST", "/api/rag/search", BOB, json={"query": "x"})
        assert codes == [200, 200, 429]
        assert int(refused.headers["retry-after"]) >= 1
        assert running.request("POST", "/api/rag/search", ANN, json={"query": "x"}).status_code == 200


def test_a_body_past_the_limit_is_a_problem(running: Running) -> None:
    response = running.request("POST", "/api/rag/search", BOB, json={"query": "x" * 2 * MB})
    assert (response.status_code, response.json()["type"]) == (413, "/problems/too-large")
