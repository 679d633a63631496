"""Outline RAG search: its example, bounds and errors for `POST /api/rag.search`, field by field over real HTTP."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest

from resources.core.errors import ServiceUnavailableError
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
SSO = (
    "To configure SSO for your organization, navigate to Settings > Security > Single Sign-On. "
    "You can choose between SAML 2.0 and OIDC protocols."
)
LUNCH = "The canteen serves soup on Mondays and pancakes on Thursdays."
QUESTION = "How do I configure SSO for our organization?"
UPDATED = datetime(2024, 1, 15, 10, 30, tzinfo=UTC)


@pytest.fixture
def guide(site: Site) -> str:
    site.add("Canteen", [LUNCH], ["domain:acme.com"])
    site.add("Draft of the guide", [SSO + " Secret edition."], [BOB])
    return site.add(
        "Single Sign-On (SSO) Configuration Guide", [LUNCH + " Also here.", "Nothing of note.", SSO], ["domain:acme.com"],
        collection_ids=["col_def456"], partition="col_def456", modified_at=UPDATED, url="https://wiki.example/doc/sso",
    )  # fmt: skip


def post(running: Running, who: str = ANN, **body: Any) -> dict[str, Any]:
    response = running.request("POST", "/api/rag.search", who, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_the_example(guide: str, running: Running) -> None:
    reply = post(running, query=QUESTION, limit=10, threshold=0.4, includeContext=True)  # 0.7 is Titan's
    assert reply["pagination"] == {"limit": 10, "total": 1}
    (found,) = reply["data"]
    assert set(found) == {"id", "document", "score", "context", "chunkIndex"}
    assert uuid.UUID(found["id"])
    assert found["document"] == {
        "id": guide,
        "title": "Single Sign-On (SSO) Configuration Guide",
        "url": "https://wiki.example/doc/sso",
        "collectionId": "col_def456",
        "updatedAt": "2024-01-15T10:30:00Z",
    }
    assert (found["context"], found["chunkIndex"]) == (SSO, 2)
    assert 0.4 <= found["score"] <= 1


def test_fields_of_the_request(guide: str, running: Running) -> None:
    plain = post(running, query=QUESTION)
    assert plain["pagination"]["limit"] == 10
    assert [one["document"]["id"] for one in plain["data"]] == [guide], "the calibrated threshold leaves padding out"
    everything = post(running, query=QUESTION, threshold=0)
    scores = [one["score"] for one in everything["data"]]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert post(running, query=QUESTION, threshold=0, limit=2)["pagination"] == {"limit": 2, "total": 4}
    assert {
        one["document"]["title"] for one in post(running, query=QUESTION, threshold=0, collectionId="root")["data"]
    } == {"Canteen"}
    within = post(running, query="soup on Mondays", threshold=0, documentId=guide)["data"]
    assert {one["document"]["id"] for one in within} == {guide}
    assert post(running, query=QUESTION, includeContext=False)["data"][0]["context"] == ""
    hybrid = post(running, query=QUESTION, mode="hybrid")["data"]
    assert hybrid[0]["document"]["id"] == guide
    assert len({one["document"]["id"] for one in hybrid}) == len(hybrid)
    assert post(running, query="Who won the chess tournament on Mars?", mode="hybrid")["data"] == []


def test_permission_decides_in_the_query(guide: str, running: Running) -> None:
    bobs = post(running, BOB, query=QUESTION, limit=1)["data"][0]
    assert bobs["document"]["title"] == "Draft of the guide" or bobs["document"]["id"] == guide
    titles = {one["document"]["title"] for one in post(running, query=QUESTION, threshold=0)["data"]}
    assert "Draft of the guide" not in titles
    nothing = running.request("POST", "/api/rag.search", "eve@other.com", json={"query": QUESTION, "threshold": 0})
    assert (nothing.status_code, nothing.json()["error"]) == (404, "NoEmbeddingsAvailable")


WRONG: list[dict[str, Any]] = [
    {"query": "ab"},
    {"query": "  ab  "},
    {"query": "x" * 1001},
    {},
    {"query": QUESTION, "limit": 0},
    {"query": QUESTION, "limit": 51},
    {"query": QUESTION, "threshold": 1.1},
    {"query": QUESTION, "threshold": -0.1},
    {"query": QUESTION, "mode": "keyword"},
    {"query": QUESTION, "documentId": "doc_xyz789"},
    {"query": QUESTION, "userId": BOB},
]


def test_invalid_queries_are_400(guide: str, running: Running) -> None:
    for body in WRONG:
        response = running.request("POST", "/api/rag.search", ANN, json=body)
        problem = response.json()
        assert (response.status_code, problem["type"], problem["error"]) == (
            400,
            "/problems/invalid-request",
            "InvalidQueryError",
        )
        assert response.headers["content-type"] == "application/problem+json"


def test_bounds_are_inclusive(guide: str, running: Running) -> None:
    for body in ({"query": "sso"}, {"query": "s" * 1000}, {"query": QUESTION, "limit": 50, "threshold": 1}):
        post(running, **body)


def test_nothing_indexed_is_404_and_no_credential_is_401(running: Running) -> None:
    response = running.request("POST", "/api/rag.search", ANN, json={"query": QUESTION})
    assert (response.status_code, response.json()["error"]) == (404, "NoEmbeddingsAvailable")
    assert running.request("POST", "/api/rag.search", json={"query": QUESTION}).status_code == 401


class Unwell:
    """An embedder that fails once it is warm."""

    def __init__(self, model: Any, error: Exception) -> None:
        self._model, self._error = model, error
        self.model, self.dimensions = model.model, model.dimensions

    def embed(self, texts: Any) -> Any:
        return self._model.embed(texts)

    def embed_query(self, text: str) -> Any:
        if text == "warm up":
            return self._model.embed_query(text)
        raise self._error


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (ServiceUnavailableError("It is down."), 503, "EmbeddingServiceUnavailable"),
        (ServiceUnavailableError("Slow down.", 7.0), 429, "EmbeddingRateLimited"),
    ],
)
def test_a_missing_embedder_matters_in_vector_mode_only(
    guide: str, site: Site, error: Exception, status: int, name: str
) -> None:
    site.embedder = Unwell(site.model, error)
    with site.running() as running:
        response = running.request("POST", "/api/rag.search", ANN, json={"query": QUESTION})
        assert (response.status_code, response.json()["error"]) == (status, name)
        assert response.headers.get("retry-after") == ("7" if status == 429 else None)
        hybrid = post(running, query=QUESTION, mode="hybrid")
        assert hybrid["data"][0]["document"]["id"] == guide
        assert [warning["code"] for warning in hybrid["warnings"]] == ["embedding_unavailable"]
        running.settle()
        assert site.sql("SELECT doc_ids FROM audit_log WHERE action = 'search'") == [([uuid.UUID(guide)],)], (
            "not the refused one"
        )


def test_a_hundred_searches_a_minute_then_429(guide: str, site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1})
    with site.running() as running:
        post(running, query=QUESTION)
        response = running.request("POST", "/api/rag.search", ANN, json={"query": QUESTION})
    assert (response.status_code, response.json()["error"]) == (429, "EmbeddingRateLimited")
    assert int(response.headers["retry-after"]) > 0
