"""Whatever is wrong with a request, a program receives a problem: for each route, and each method that it does not take."""

from __future__ import annotations

import gzip
import json
import re

import httpx
import pytest
from litestar.handlers import HTTPRouteHandler

from resources.stores.postgres import session
from serving.app import route
from serving.identity import api_keys
from tests.fixtures.routes import declared_handlers
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "PROPFIND")
WRONG = {
    "an unknown path": ("GET", "/api/nothing", {}, 404),
    "bytes that are no text": ("GET", "/api/%ff", {}, 404),
    "JSON that ends early": ("POST", "/api/rag/search", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
    "a list that ends early": ("POST", "/api/rag/search", {"content": b"[1,", "headers": {"Content-Type": "application/json"}}, 400),
    "a wrong field, and a comma too many": (
        "POST", "/api/rag/search", {"content": b'{"top_k": "3", "query": "tea",}', "headers": {"Content-Type": "application/json"}}, 400,
    ),
    "a number that is too large": (
        "POST", "/api/rag/search", {"content": b'{"query": 1e999}', "headers": {"Content-Type": "application/json"}}, 400,
    ),
    "another type": ("POST", "/api/rag/search", {"content": b"{}", "headers": {"Content-Type": "text/xml"}}, 415),
    "a compressed body": (
        "POST", "/api/rag/search",
        {"content": gzip.compress(b'{"query": "tea"}'), "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"}}, 415,
    ),
    "no body": ("POST", "/api/rag/search", {"headers": {"Content-Type": "application/json"}}, 400),
    "a list instead of an object": ("POST", "/api/rag/search", {"json": []}, 400),
    "a wrong parameter": ("GET", "/api/documents?limit=x", {}, 400),
    "a body that is too large": ("POST", "/api/feedback", {"json": {"verdict": "x" * 300_000}}, 413),
}  # fmt: skip

OVERLAPPING = {"/api/documents/{doc_id:str}/original", "/api/documents/{source:str}/batch"}
"""Their other methods are those of `/api/documents/{source}/{id}`."""


def is_problem(answer: httpx.Response) -> bool:
    kind = "scim" if answer.url.path.startswith("/scim/") else "problem"
    return answer.headers["content-type"] == f"application/{kind}+json" and answer.json()["status"] in {
        answer.status_code,
        str(answer.status_code),
    }


def test_a_method_that_a_path_does_not_take_is_a_problem_that_names_those_it_takes(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    refused = 0
    with site.running() as running:
        for one in route().routes:
            handlers = [each for each in getattr(one, "route_handlers", ()) if isinstance(each, HTTPRouteHandler)]
            taken = {str(method) for handler in handlers for method in handler.http_methods}
            for method in set(METHODS) - taken if taken and one.path not in OVERLAPPING else ():
                answer = running.http.request(method, one.path.replace("{", "").replace("}", ""))
                what = f"{method} {one.path}: {answer.status_code} {answer.text}"
                assert answer.status_code == 405, what
                assert is_problem(answer), what
                answered = taken | ({"HEAD"} if "GET" in taken else set())
                assert set(answer.headers["allow"].split(", ")) == answered, what
                assert all(name in answer.json()["detail"] for name in (method, *answered)), what
                refused += 1
    assert refused > 400


@pytest.mark.parametrize("what", WRONG)
def test_what_the_framework_refuses_is_a_problem(running: Running, what: str) -> None:
    method, path, more, status = WRONG[what]
    headers = {"Authorization": f"Bearer {running.site.token(ANN)}", **more.get("headers", {})}
    answer = running.http.request(method, path, **{**more, "headers": headers})
    assert (answer.status_code, is_problem(answer)) == (status, True), answer.text


def test_a_head_is_answered_as_a_get_without_its_body(site: Site) -> None:
    """As monitors of uptime, link checkers and `curl -I` ask."""
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    doc_id = site.add("Tea", ["Tea is served at four."], ["public"])
    headers = {"Authorization": f"Bearer {site.token(ANN, admin=True)}"}
    asked = 0
    with site.running() as running:
        for path, handler in declared_handlers().values():
            address = re.sub(r"{\w+:\w+}", doc_id, path)
            if "GET" in handler.http_methods:
                got, head = (running.http.request(method, address, headers=headers) for method in ("GET", "HEAD"))
                assert (head.status_code, head.content) == (got.status_code, b""), f"{path}: {head.status_code}"
                assert set(head.headers) == set(got.headers), path
                asked += 1
        assert (
            running.http.head("/healthz").status_code
            == running.http.head(f"/documents/{doc_id}", headers=headers).status_code
            == 200
        )
        assert running.http.head(f"/documents/{doc_id}").status_code == 401
        assert running.http.head("/api/rag/search", headers=headers).status_code == 405
    assert asked > 60


LATIN = {
    "/api/documents/{source:str}/{id:str}": {"text": "Müller"},
    "/api/documents/{source:str}/batch": {"documents": [{"id": "1", "text": "Müller"}]},
}
"""Where the body must have the right fields for its text to be read."""


def test_json_in_another_encoding_is_refused_on_every_route(site: Site) -> None:
    """As programs on Windows send it: a letter with an umlaut is one byte, which is no UTF-8."""
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    with session(site.settings.postgres_dsn) as connection:
        scim = api_keys.create(connection, "okta@acme.com", scim=True)
    asked, told = 0, dict[str, str]()
    with site.running() as running:
        for path, handler in declared_handlers().values():
            for method in {"POST", "PUT", "PATCH"} & set(map(str, handler.http_methods)):
                signed = scim if path.startswith("/scim/") else site.token(ANN, admin=True)
                headers = {"Authorization": f"Bearer {signed}", "Content-Type": "application/json"}
                address = re.sub(r"{\w+:str}", "Users" if path.startswith("/scim/") else "x", path)
                body = json.dumps(LATIN.get(path, {"query": "Müller"}), ensure_ascii=False).encode("latin-1")
                answer = running.http.request(method, address, content=body, headers=headers)
                assert 400 <= answer.status_code < 500, f"{method} {path}: {answer.status_code} {answer.text}"
                asked, told[path] = asked + 1, answer.text
    assert asked > 40
    for path in ("/api/rag/search", "/api/ask", "/api/ingest", *LATIN):
        assert "UTF-8" in told[path], told[path]


def test_a_nul_in_a_path_is_refused(site: Site) -> None:
    """Postgres stores none, so no such ID exists."""
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    asked = 0
    with site.running() as running:
        for path, handler in declared_handlers().values():
            for method in set(map(str, handler.http_methods)) - {"OPTIONS"} if "{" in path else ():
                address = re.sub(r"{\w+:\w+}", "a%00", path)
                answer = running.request(method, address, ANN, admin=True, follow_redirects=False)
                assert answer.status_code < 500, f"{method} {path}: {answer.text}"
                asked += 1
    assert asked > 25


def test_a_refusal_does_not_repeat_a_long_value(running: Running) -> None:
    refused = running.request("POST", "/api/feedback", ANN, json={"verdict": "x" * 50_000})
    assert (refused.status_code, len(refused.text) < 2_000) == (400, True)
