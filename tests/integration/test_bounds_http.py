"""Requests with fields that are too many, long, deep or large get a 400 that names the field."""

from __future__ import annotations

import json

import pytest

from tests.fixtures.serving import Running

ANN = "ann@acme.com"
SEARCH = "/api/rag/search"


def test_what_is_too_much_is_named(running: Running, subtests: pytest.Subtests) -> None:
    for path, body, field in [
        (SEARCH, {"query": "x", "filters": {"tags": {f"t{number}": "x" for number in range(5_000)}}}, "tags"),
        (SEARCH, {"query": "x", "filters": {"tags": {"t": ["x"] * 20_000}}}, "filters.tags.t"),
        (SEARCH, {"query": "x", "filters": {"tags": {"t": "x" * 100_000}}}, "filters.tags.t"),
        (SEARCH, {"query": "x", "filters": {"tags": {"t": 10**30}}}, "filters.tags.t"),
        (SEARCH, {"query": "x", "filters": {"tags": {"t": 10**18}}}, ""),
        (SEARCH, {"query": "x" * 100_000}, "query"),
        (SEARCH, {"query": "x", "filters": {"collection_ids": ["x" * 100_000]}}, "collection_ids"),
        (SEARCH, {"query": "x", "filters": {"date_range": {"start": "9" * 100_000}}}, "start"),
        ("/api/feedback", {"verdict": "good", "answer_id": "x" * 100_000}, "answer_id"),
        ("/api/citations/format", {"doc_ids": ["x" * 50_000]}, "doc_ids"),
        ("/api/chat", {"message": "x" * 100_000}, "message"),
        ("/ask", {"query": "x" * 100_000}, "query"),
        ("/api/ingest", {"content": "x", "tags": {"tenant": "a", "dataset": "b", "t": "x" * 193_000}}, "tags"),
        ("/api/ingest", {"content": "x", "tags": {"tenant": "a", "dataset": "b", "t": 10**30}}, "tags"),
    ]:
        with subtests.test(path=path, field=field):
            response = running.request("POST", path, ANN, json=body)
            if not field:
                assert response.status_code == 200
                continue
            assert response.status_code == 400, response.text[:500]
            problem = response.json()
            assert problem["type"] == "/problems/invalid-request"
            assert field in problem["detail"]
            assert len(response.text) < 2000, "the answer repeats what was sent"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (SEARCH, "query"),
        ("/api/ask", "query"),
        ("/api/saved-searches", "query"),
        ("/api/chat", "message"),
        ("/ask", "query"),
    ],
)
def test_whatever_is_wrong_with_a_query_its_limit_is_the_same(running: Running, path: str, field: str) -> None:
    more = {"name": "Mine"} if path == "/api/saved-searches" else {}
    for sent in ({}, {field: 5}, {field: " "}, {field: "x" * 1001}, {field: "x" * 4001}):
        detail = running.request("POST", path, ANN, json=sent | more).json()["detail"]
        assert detail.startswith(f"{field}: "), detail
        assert ("1000" in detail, "4000" in detail) == (True, False), detail
    assert running.request("POST", path, ANN, json={field: f"tea{' ' * 3000}time"} | more).status_code == 200


@pytest.mark.parametrize("address", ["http://[x#y", "https://[x]/y", "//[#", "/%00"])
def test_malformed_addresses_are_refused_or_lead_nowhere(running: Running, address: str) -> None:
    web = address.startswith("http")
    traced = running.request("GET", "/api/why", ANN, params={"source": address})
    assert traced.status_code == (400 if web else 200), traced.text
    assert not web or traced.json()["detail"].startswith("source: ")
    local = {"query": "What is it?", "context": "Tea.", "source_file": address}
    assert running.request("POST", "/ask-local", ANN, json=local).status_code == 404


def test_deeply_nested_json_is_refused(running: Running, subtests: pytest.Subtests) -> None:
    for path in [SEARCH, "/api/ask", "/track", "/api/ingest", "/api/feedback"]:
        for opened in ["[", '{"a":']:
            with subtests.test(path=path, opened=opened):
                deep = opened * 10_000
                for body in (
                    deep,
                    '{"query": "x", "filters": {"tags": {"t": ' + deep,
                    '{"content": "x", "tags": {"t": ' + deep,
                ):
                    headers = {"Content-Type": "application/json"}
                    response = running.request("POST", path, ANN, content=body, headers=headers)
                    assert response.status_code == 400, response.text[:500]


def test_an_uploads_tags_are_bounded(running: Running) -> None:
    for tags in ({"t": "x" * 193_000}, {"t": 10**30}, {f"t{number}": 1 for number in range(60)}, {"t": {"a": "b"}}):
        form = {"metadata": json.dumps({"tags": tags})}
        response = running.request("POST", "/api/upload", ANN, files={"file": ("a.md", b"# A\n\nText.")}, data=form)
        assert response.status_code == 400, response.text
        assert "metadata" in response.json()["detail"]
    deep = {"metadata": '{"tags": {"t": ' + "[" * 100_000}
    response = running.request("POST", "/api/upload", ANN, files={"file": ("a.md", b"# A\n\nText.")}, data=deep)
    assert response.status_code == 400, response.text
