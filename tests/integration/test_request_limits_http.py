"""Limits on every route: rate, size and concurrency, with refusals that name the limit."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack

import httpx

from serving.web.static import version
from tests.fixtures.serving import Running, Site

ANN, BOB, CAT = "ann@acme.com", "bob@acme.com", "cat@acme.com"
TRACKED = {"query": "What?", "answer": "That.", "timestamp": "2026-11-22T10:00:00Z"}


def refused(running: Running, method: str, path: str, **more: object) -> str:
    """Send until refused; return the detail."""
    for _ in range(200):
        response = running.request(method, path, ANN, **more)
        if response.status_code == 429:
            assert response.json()["type"] == "/problems/rate-limited"
            assert int(response.headers["retry-after"]) >= 1
            return response.json()["detail"]
        assert response.status_code < 500, response.text
    return ""


def test_posts_to_track_are_limited_in_rate_and_size(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 10})
    with site.running() as running:
        assert "At most 3 requests" in refused(running, "POST", "/track", json=TRACKED)
        assert running.request("POST", "/track", BOB, json=TRACKED).status_code == 202
        large = running.request("POST", "/track", BOB, json=TRACKED | {"sources": [{"file": "x" * 4000}] * 90})
        assert large.status_code == 413
        assert "64 kB" in large.json()["detail"]
        chunked = running.request(
            "POST", "/track", BOB, content=iter([b" " * 100_000] * 4), headers={"Content-Type": "application/json"}
        )
        assert chunked.status_code == 413


def test_reads_uploads_and_ingests_are_limited_too(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 2})
    with site.running() as running:
        assert "At most 20 requests" in refused(running, "GET", "/api/sources")
        assert "At most 6 requests" in refused(
            running, "POST", "/api/upload", files={"file": ("a.md", b"# A\n\nText.")}
        )
        body = {"content": "Text.", "tags": {"tenant": "a", "dataset": "b"}}
        assert "At most 6 requests" in refused(running, "POST", "/api/ingest", json=body)
        assert "At most 6 requests" in refused(running, "POST", "/api/feedback", json={"verdict": "good"})


def begin_ingest(running: Running, who: str) -> socket.socket:
    """Send the header of an ingest, and return once the service, which has counted the request by then, asks for its body."""
    host, port = running.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    head = f"POST /api/ingest HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {running.site.token(who)}\r\n"
    head += "Content-Type: application/json\r\nContent-Length: 1000\r\nExpect: 100-continue\r\n\r\n"
    connection.sendall(head.encode())
    received = connection.recv(4096)
    assert received.startswith(b"HTTP/1.1 100 "), received
    return connection


def eventually(ask: Callable[[], httpx.Response], status: int) -> httpx.Response:
    """Ask until the answer has this status."""
    for _ in range(2000):
        response = ask()
        if response.status_code == status:
            return response
    raise AssertionError(f"{response.status_code} instead of {status}: {response.text}")


def test_concurrent_requests_are_limited_per_user_and_in_total(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    with site.running(idle_seconds=300) as running:

        def ask(who: str) -> httpx.Response:
            return running.request("POST", "/api/ingest", who, json={})

        with ExitStack() as held:
            for _ in range(8):
                held.enter_context(begin_ingest(running, ANN))
            refusal = ask(ANN)
            assert refusal.status_code == 429
            assert "8 requests" in refusal.json()["detail"]
            assert refusal.headers["retry-after"] == "1"
            for _ in range(8):  # there is room for others
                held.enter_context(begin_ingest(running, BOB))
            full = ask(CAT)
            assert full.status_code == 503
            assert full.json()["type"] == "/problems/too-many-in-progress"
            assert "16 requests" in full.json()["detail"]
            assert running.http.get("/healthz").status_code == 200
            assert running.request("GET", "/api/sources", CAT).status_code == 200
        assert "Give one of" in eventually(lambda: ask(ANN), 400).text  # and again when they have ended


def test_a_trusted_proxys_clients_are_counted_separately(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1, "trusted_proxies": ("127.0.0.1",)})
    with site.running() as running:
        style, one, two = (
            f"/static/{version()}/app.css",
            {"X-Forwarded-For": "192.0.2.1"},
            {"X-Forwarded-For": "192.0.2.2"},
        )
        assert "At most 10 requests" in eventually(lambda: running.http.get(style, headers=one), 429).text
        assert running.http.get(style, headers=two).status_code == 200
        assert running.http.get(style).status_code == 200  # the proxy itself stands for many people
    site.settings = site.settings.model_copy(update={"trusted_proxies": ("192.0.2.9",)})
    with site.running() as running:
        spoofed = ({"X-Forwarded-For": f"192.0.2.{number}"} for number in range(20, 250))
        assert "At most 10 requests" in eventually(lambda: running.http.get(style, headers=next(spoofed)), 429).text
