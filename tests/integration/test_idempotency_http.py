"""`Idempotency-Key`: what is sent again is answered as before, and done once."""

from __future__ import annotations

import asyncio
import socket
import threading
from datetime import timedelta
from typing import Any

import httpx
import pytest

from assets.upkeep.retention import prune_expired
from resources.core.domain import Role
from serving.http.idempotency import KEPT, LOST, Fingerprint
from sql.repeated_requests import RepeatedRequests
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"


@pytest.fixture
def running(site: Site) -> Any:
    site.settings = site.settings.model_copy(
        update={"roles": {Role.PUBLISHER: (ANN, BOB), Role.OPERATOR: (ANN,)}, "search_rate_limit": 1_000_000}
    )
    with site.running() as running:
        yield running


def send(running: Running, path: str, key: str, who: str = ANN, method: str = "POST", **body: Any) -> httpx.Response:
    headers = {"Authorization": f"Bearer {running.site.token(who)}", "Idempotency-Key": key}
    return running.http.request(method, path, headers=headers, **body)


def batch(*names: str) -> dict[str, Any]:
    return {"json": {"documents": [{"id": name, "content": f"About {name}.", "title": name} for name in names]}}


def problem(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("/problems/")


def test_the_same_again_is_answered_as_before_and_done_once(site: Site, running: Running) -> None:
    first = send(running, "/api/documents/wiki/batch", "k1", **batch("tea"))
    again = send(running, "/api/documents/wiki/batch", '"k1"', **batch("tea"))  # a string as RFC 8941 writes it
    assert first.json()["results"][0]["status"] == "created"
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert (first.headers.get("idempotent-replayed"), again.headers["idempotent-replayed"]) == (None, "true")
    assert again.headers["content-type"] == first.headers["content-type"]
    other = send(running, "/api/documents/wiki/batch", "k2", **batch("tea"))
    assert other.json()["results"][0]["status"] == "unchanged"  # without the key it would have been done again
    assert site.sql("SELECT count(*) FROM repeated_requests WHERE status = 200") == [(2,)]


def test_another_body_with_the_same_key_is_refused(running: Running) -> None:
    assert send(running, "/api/documents/wiki/batch", "k", **batch("tea")).status_code == 200
    for other in (batch("coffee"), batch("tea", "coffee"), {"content": b"", "headers": {}}):
        headers = {"Content-Type": "application/json", **other.pop("headers", {})}
        answer = running.http.post(
            "/api/documents/wiki/batch",
            headers={"Authorization": f"Bearer {running.site.token(ANN)}", "Idempotency-Key": "k", **headers},
            **other,
        )
        assert problem(answer) == (422, "idempotency-key-reused")


def test_a_key_is_of_its_caller_and_route(running: Running) -> None:
    for who, path in ((ANN, "wiki"), (BOB, "wiki"), (ANN, "intranet")):
        answer = send(running, f"/api/documents/{path}/batch", "k", who, **batch("tea"))
        assert answer.json()["results"][0]["status"] == "created"


def test_a_file_sent_again_with_another_boundary_is_the_same(site: Site, running: Running) -> None:
    answers = [send(running, "/api/upload", "k", files={"file": ("tea.md", b"# Tea\n\nAt four.")}) for _ in range(2)]
    assert [one.status_code for one in answers] == [202, 202]
    assert answers[0].request.headers["content-type"] != answers[1].request.headers["content-type"]
    assert answers[1].headers["idempotent-replayed"] == "true"
    changed = send(running, "/api/upload", "k", files={"file": ("tea.md", b"# Tea\n\nAt five.")})
    assert problem(changed) == (422, "idempotency-key-reused")
    assert site.sql("SELECT count(*) FROM uploads") == [(1,)]


def test_a_sync_is_requested_once(site: Site, running: Running) -> None:
    jobs = [send(running, "/api/sync/upload", "k", json={"full_sync": False}).json()["job_id"] for _ in range(3)]
    assert len(set(jobs)) == 1


def test_what_is_in_progress_is_not_begun_again(site: Site, running: Running) -> None:
    path, body = "/api/documents/wiki/batch", batch("tea")
    send(running, path, "k", **body)
    site.sql("UPDATE repeated_requests SET status = NULL")
    refused = send(running, path, "k", **body)
    assert problem(refused) == (409, "idempotency-key-in-use")
    assert refused.headers["retry-after"] == "2"
    site.sql("UPDATE repeated_requests SET claimed_at = claimed_at - %s", LOST)  # its process has ended
    assert send(running, path, "k", **body).json()["results"][0]["status"] == "unchanged"


def test_of_requests_at_once_one_is_done(running: Running) -> None:
    seen: list[int] = []

    def once() -> None:
        seen.append(send(running, "/api/documents/wiki/batch", "k", **batch("tea")).status_code)

    threads = [threading.Thread(target=once) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(seen) <= {200, 409}
    assert running.site.sql("SELECT count(*) FROM uploads") == [(1,)]


def test_a_refusal_is_not_stored(site: Site, running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is free once the client has the refusal."""
    at_once = RepeatedRequests.release

    async def late(rows: RepeatedRequests, **of: Any) -> int:
        await asyncio.sleep(0.5)
        return await at_once(rows, **of)

    monkeypatch.setattr(RepeatedRequests, "release", late)
    assert send(running, "/api/documents/wiki/batch", "k", json={"documents": []}).status_code == 400
    assert site.sql("SELECT count(*) FROM repeated_requests") == [(0,)]
    assert send(running, "/api/documents/wiki/batch", "k", **batch("tea")).status_code == 200


def test_a_batch_with_a_refused_document_is_done_again(site: Site, running: Running) -> None:
    documents = [{"id": "tea", "content": "About tea.", "title": "Tea", "share": ["domain:partner.com"]}]
    refused = send(running, "/api/documents/wiki/batch", "k", json={"documents": documents})
    assert refused.json()["refused"] == 1
    domains = (*site.settings.upload_share_domains, "partner.com")
    site.settings = site.settings.model_copy(update={"upload_share_domains": domains})
    with site.running() as later:
        stored = send(later, "/api/documents/wiki/batch", "k", json={"documents": documents})
    assert stored.json()["results"][0]["status"] == "created"


@pytest.mark.parametrize("media", ["text/plain", "multipart/form-data; boundary=B"])
def test_a_refusal_does_not_wait_for_the_rest_of_the_body(site: Site, running: Running, media: str) -> None:
    head = (
        f"PUT /api/documents/wiki/tea HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token(ANN)}\r\n"
        f"Idempotency-Key: k\r\nContent-Type: {media}\r\nContent-Length: 1000000000\r\n\r\nno form"
    )
    with socket.create_connection(("127.0.0.1", running.http.base_url.port), 20) as connection:
        connection.sendall(head.encode())
        assert connection.recv(1024).startswith(b"HTTP/1.1 4")
    assert site.sql("SELECT count(*) FROM repeated_requests") == [(0,)]


def test_a_stored_response_is_not_given_to_someone_whose_role_is_gone(site: Site, running: Running) -> None:
    assert send(running, "/api/documents/wiki/batch", "k", BOB, **batch("tea")).status_code == 200
    site.settings = site.settings.model_copy(update={"roles": {Role.PUBLISHER: (ANN,)}})
    with site.running() as later:
        assert problem(send(later, "/api/documents/wiki/batch", "k", BOB, **batch("tea"))) == (403, "role-required")


def test_keys_end_after_a_day_and_wrong_ones_are_refused(site: Site, running: Running) -> None:
    path, body = "/api/documents/wiki/batch", batch("tea")
    send(running, path, "k", **body)
    site.sql("UPDATE repeated_requests SET expires_at = expires_at - %s", KEPT + timedelta(seconds=1))
    assert send(running, path, "k", **body).headers.get("idempotent-replayed") is None
    site.sql("UPDATE repeated_requests SET expires_at = expires_at - %s", KEPT + timedelta(seconds=1))
    send(running, path, "other", **body)
    assert site.sql("SELECT count(*) FROM repeated_requests") == [(1,)]  # what has expired is dropped
    for key in ("", "x" * 256, '""', "caf\xe9".encode("latin-1")):
        assert problem(send(running, path, key, **body)) == (400, "invalid-request")  # type: ignore[arg-type]


def test_expired_responses_are_deleted_every_day(site: Site, running: Running) -> None:
    for key in ("old", "new"):
        send(running, "/api/documents/wiki/batch", key, **batch(key))
    (first,) = site.sql("SELECT key_hash FROM repeated_requests ORDER BY claimed_at LIMIT 1")
    site.sql("UPDATE repeated_requests SET expires_at = now() - interval '1 s' WHERE key_hash = %s", first[0])
    assert prune_expired(site.settings)["repeated_requests"] == 1
    assert site.sql("SELECT count(*) FROM repeated_requests") == [(1,)]


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_a_fingerprint_depends_on_neither_boundary_nor_chunks(size: int) -> None:
    digests = set()
    for boundary in ("bound", "x--another-1"):
        body = f"--{boundary}\r\nfile\r\n--{boundary}--\r\n".encode()
        seen = Fingerprint(f"multipart/form-data; boundary={boundary}")
        for at in range(0, len(body), size):
            seen.add(body[at : at + size])
        digests.add(seen.digest())
    whole = Fingerprint("multipart/form-data; boundary=z")
    whole.add(b"--z\r\nfile\r\n--z--\r\n")
    assert digests == {whole.digest()}


@pytest.mark.parametrize(("first", "later"), [("b", "b" * 60), ("b" * 60, "b")])
def test_a_form_sent_in_pieces_with_a_boundary_of_another_length_is_the_same(
    site: Site, running: Running, first: str, later: str
) -> None:
    answers: list[httpx.Response] = []
    for boundary in (first, later):
        part = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="tea.md"\r\n\r\n# Tea\n\nAt four.\r\n'
        pieces = (part.encode(), f"--{boundary}--\r\n".encode())
        headers = {"Authorization": f"Bearer {site.token(ANN)}", "Idempotency-Key": "k"}
        headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        answers.append(running.http.post("/api/upload", headers=headers, content=iter(pieces)))
    assert [one.status_code for one in answers] == [202, 202], answers[1].text
    assert answers[1].headers["idempotent-replayed"] == "true"
