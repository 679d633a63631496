"""The HTTP interface against web pages: foreign host names, changes by foreign pages, bodies of undeclared type."""

from __future__ import annotations

import pytest

from tests.fixtures.serving import PUBLIC_URL, Running, Site

ANN = "ann@acme.com"
SEARCH = "/api/rag/search"


def test_a_foreign_host_reaches_no_route(running: Running, subtests: pytest.Subtests) -> None:
    for path in ["/healthz", "/readyz", "/docs", "/metrics", "/documents/x", SEARCH]:
        with subtests.test(path=path):
            for host in ("evil.example", "127.0.0.1.evil.example:8080", "10.0.0.1"):
                method = "POST" if path == SEARCH else "GET"
                answer = running.request(method, path, ANN, headers={"host": host})
                assert answer.status_code == 421, answer.text
                assert answer.json()["type"] == "/problems/host-unknown"


def test_the_public_address_and_further_names_are_served(site: Site) -> None:
    settings = site.settings.model_copy(update={"allowed_hosts": ("Intern.example",)})
    site.settings = settings
    with site.running() as running:
        for host in (PUBLIC_URL.removeprefix("https://"), "intern.example", "localhost:9"):
            assert running.http.get("/healthz", headers={"host": host}).status_code == 200
        for origin in (PUBLIC_URL, "https://intern.example", running.url):
            answer = running.http.post("/sign-out", headers={"origin": origin})
            assert answer.status_code == 200, answer.text


def test_pages_of_others_change_nothing_with_a_browser(running: Running, subtests: pytest.Subtests) -> None:
    for headers in [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"},
    ]:
        with subtests.test(headers=headers):
            for path in ("/sign-in/sample", "/sign-out", "/api/upload", "/api/sync/files", SEARCH):
                answer = running.http.post(path, headers=headers)
                assert answer.status_code == 403, path
                assert answer.json()["type"] == "/problems/origin-foreign"
            # A token is nothing that a browser adds by itself: programs behind a portal hand on its origin.
            assert running.request("POST", SEARCH, ANN, json={"query": "tea"}, headers=headers).status_code == 200


def test_json_is_declared_as_json(running: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = running.request("POST", SEARCH, ANN, content='{"query": "tea"}', headers={"content-type": kind})
        assert answer.status_code == 415
        assert answer.json()["type"] == "/problems/content-type"
        assert "application/json" in answer.json()["detail"]
    declared = {"content-type": "application/json; charset=utf-8"}
    assert running.request("POST", SEARCH, ANN, content='{"query": "tea"}', headers=declared).status_code == 200
