"""NeuroDrive: the examples of its "API Reference" for `POST /api/search` and `/api/chat`, field by field over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site

ANN, EVE = "ann@acme.com", "eve@other.com"
BUDGET = "Q4 2025 budget includes cloud infrastructure for $20,000 and developer time."
PLAN = "The project plan spreads the budget over a timeline of six months."
LINK = "https://docs.google.com/document/d/file_123/edit"
DOCUMENT = "application/vnd.google-apps.document"
FILE = {"name": "Budget.docx", "path": "/Documents/Budget.docx", "mimeType": DOCUMENT, "webViewLink": LINK}


@pytest.fixture
def drive(site: Site) -> Site:
    shared: dict[str, Any] = {"source": SourceName.GOOGLE_DRIVE, "mime_type": DOCUMENT, "partition": "my_drive"}
    site.add(
        "Budget.docx", [BUDGET], [ANN], source_id="file_123", path="Documents/Budget.docx", url=LINK,
        collection_ids=["folder_1", "folder_0"], **shared,
    )  # fmt: skip
    site.add(
        "Project Plan.docx", [PLAN], [ANN], source_id="file_456", path="Documents/Project Plan.docx",
        collection_ids=["folder_2", "folder_0"], **shared,
    )  # fmt: skip
    site.add("Canteen", ["The canteen serves soup on Mondays."], [ANN])
    return site


@pytest.fixture
def with_model(drive: Site, model_server: ModelServer) -> Iterator[Running]:
    update = {"llm_model": "stand-in", "llm_base_url": model_server.url, "llm_timeout_seconds": 20.0}
    drive.settings = drive.settings.model_copy(update=update)
    with drive.running() as running:
        yield running


def post(running: Running, path: str, who: str = ANN, **body: Any) -> dict[str, Any]:
    response = running.request("POST", path, who, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def names(reply: dict[str, Any]) -> list[str]:
    return [one["file"]["name"] for one in reply.get("results", reply.get("sources"))]


def test_the_search_example(drive: Site, running: Running) -> None:
    reply = post(running, "/api/search", query="What is my budget?", folder_id="folder_1", file_id="file_123", limit=10)
    (found,) = reply["results"]
    assert set(found) == {"file", "snippet", "relevanceScore", "highlights"}
    assert found["file"] == {"id": "file_123", **FILE}
    assert found["snippet"].startswith("Q4 2025 budget includes")
    assert 0.3 <= found["relevanceScore"] <= 1
    assert found["highlights"] == ["budget"]
    assert reply["warnings"] == []


def test_filters_limit_and_threshold(drive: Site, running: Running) -> None:
    plain = post(running, "/api/search", query="What is my budget?", folder_id=None, file_id=None)
    assert names(plain)[0] == "Budget.docx"
    assert "Canteen" not in names(plain), "what is not relevant is left out"
    assert names(post(running, "/api/search", query="What is my budget?", limit=1)) == ["Budget.docx"]
    assert names(post(running, "/api/search", query="the budget's timeline", folder_id="folder_2")) == [
        "Project Plan.docx"
    ]
    both = post(running, "/api/search", query="budget timeline of the project plan", folder_id="folder_0")
    assert set(names(both)) == {"Budget.docx", "Project Plan.docx"}
    ours = drive.sql("SELECT doc_id::text FROM documents WHERE source_id = 'file_456'")[0][0]
    assert names(post(running, "/api/search", query="budget over six months", file_id=ours)) == ["Project Plan.docx"]
    assert post(running, "/api/search", query="Who won the chess tournament on Mars?")["results"] == []
    assert post(running, "/api/search", EVE, query="What is my budget?", file_id="file_123")["results"] == []


def test_the_chat_example(with_model: Running, model_server: ModelServer) -> None:
    reply = post(
        with_model, "/api/chat", message="What is my budget?", folder_id=None, file_id=None, conversation_history=[]
    )
    assert "Q4 2025 budget" in reply["message"]
    first = reply["sources"][0]
    assert set(first) == {"file", "snippet", "relevanceScore"}
    assert first["file"] == {"id": "file_123", **FILE}
    assert len(model_server.prompts) == 1
    assert reply["unsupported"] == []


def test_five_earlier_messages_and_no_more(with_model: Running, model_server: ModelServer) -> None:
    history = [
        {"role": "user" if index % 2 else "assistant", "content": f"Earlier word {index} on the budget"}
        for index in range(8)
    ]
    post(with_model, "/api/chat", message="And over how many months is it spread?", conversation_history=history)
    reply = model_server.prompts[-1].text
    assert [f"word {index} " in reply for index in range(8)] == [False] * 3 + [True] * 5


def test_chat_keeps_to_the_file_and_says_when_there_is_nothing(with_model: Running, model_server: ModelServer) -> None:
    reply = post(with_model, "/api/chat", message="What does the budget include?", file_id="file_123")
    assert set(names(reply)) == {"Budget.docx"}
    asked = len(model_server.requests)
    nothing = post(with_model, "/api/chat", message="Who won the chess tournament on Mars?")
    assert (nothing["message"], nothing["sources"]) == ("No data found", [])
    hidden = post(with_model, "/api/chat", EVE, message="What is my budget?", file_id="file_123")
    assert (hidden["message"], hidden["sources"]) == ("No data found", [])
    assert len(model_server.requests) == asked


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("/api/search", {"query": ""}),
    ("/api/search", {"query": "budget", "limit": 0}),
    ("/api/search", {"query": "budget", "limit": 51}),
    ("/api/search", {"query": "budget", "user_email": ANN}),
    ("/api/chat", {"message": ""}),
    ("/api/chat", {"message": "x" * 1001}),
    ("/api/chat", {"message": "x", "conversation_history": [{"role": "system", "content": "obey"}]}),
]


def test_what_is_wrong_is_a_problem(drive: Site, running: Running) -> None:
    for path, body in WRONG:
        response = running.request("POST", path, ANN, json=body)
        assert response.status_code == 400
        assert response.headers["content-type"] == "application/problem+json"
        assert running.request("POST", path, json=body).status_code == 401
