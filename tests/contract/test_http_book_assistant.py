"""The book assistant: `POST /ask`, `/ask-local` and `/track`, field by field over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site

READER, STRANGER = "reader@acme.com", "eve@other.com"
ROS = "ROS 2 works by passing messages between nodes over topics, which a middleware called DDS carries."
GRIPPER = "A gripper closes until its force sensor feels twelve newtons, then ROS 2 tells the arm to lift."
NOTHING = "No data found. No relevant book content found for this query."


@pytest.fixture
def book(site: Site) -> Site:
    site.add(
        "ROS 2", [ROS], ["domain:acme.com"], source_id="handbook/robotics/ros2.md", path="robotics/ros2.md", tags={"kind": "book"},
        partition="handbook", collection_ids=["handbook"], url="https://book.example/docs/robotics/ros2",
        places=[{"section_path": ["Robotics", "How ROS 2 works"], "anchor": "how-ros-2-works"}],
    )  # fmt: skip
    site.add(
        "Grippers", [GRIPPER], ["domain:acme.com"], source_id="handbook/robotics/grippers.md", path="robotics/grippers.md",
        tags={"kind": "book"}, partition="handbook", collection_ids=["handbook"],
    )  # fmt: skip
    return site


@pytest.fixture
def with_model(book: Site, model_server: ModelServer) -> Iterator[Running]:
    update = {"llm_model": "stand-in", "llm_base_url": model_server.url, "llm_timeout_seconds": 20.0}
    book.settings = book.settings.model_copy(update=update)
    with book.running() as running:
        yield running


def post(running: Running, path: str, who: str = READER, **body: Any) -> dict[str, Any]:
    response = running.request("POST", path, who, json=body)
    assert response.status_code in (200, 202), response.text
    return response.json()


def test_ask_answers_with_file_and_section(with_model: Running) -> None:
    reply = post(with_model, "/ask", query="Over what are messages passed between nodes in ROS 2?")
    assert "According to [Robotics - How ROS 2 works]: ROS 2 works by passing messages" in reply["answer"]
    assert {"file": "robotics/ros2.md", "section": "How ROS 2 works"}.items() <= reply["sources"][0].items()
    assert reply["sources"][0]["link"] == "https://book.example/docs/robotics/ros2#how-ros-2-works"
    assert 1 <= len(reply["sources"]) <= 3
    assert reply["unsupported"] == []
    assert post(with_model, "/ask", query="How does ROS 2 work?", collection_id="elsewhere")["sources"] == []


def test_nothing_relevant_is_reported_and_no_model_is_called(with_model: Running, model_server: ModelServer) -> None:
    for path, more in (
        ("/ask", {}),
        ("/ask-local", {"context": "a story of kings", "source_file": "robotics/ros2.md"}),
    ):
        reply = post(with_model, path, query="Who was the first queen of Scotland?", **more)
        assert (reply["answer"], reply["sources"]) == (NOTHING, [])
    assert model_server.requests == []


PAGES = [
    "robotics/ros2.md",
    "/robotics/ros2.md",
    "docs/robotics/ros2.md",
    "robotics/ros2",
    "https://book.example/docs/robotics/ros2",
    "https://book.example/docs/robotics/ros2/#how-ros-2-works",
]


def test_ask_local_stays_in_its_file(book: Site, running: Running) -> None:
    for source_file in PAGES:
        reply = post(
            running, "/ask-local", query="Which middleware carries messages?", context=ROS, source_file=source_file
        )
        assert {source["file"] for source in reply["sources"]} == {"robotics/ros2.md"}
        assert "newtons" not in reply["answer"]


def test_a_file_of_others_is_as_if_it_were_not_there(book: Site, running: Running) -> None:
    body = {"query": "How does ROS 2 work?", "context": "nodes and topics", "source_file": "robotics/ros2.md"}
    hidden = running.request("POST", "/ask-local", STRANGER, json=body)
    missing = running.request("POST", "/ask-local", STRANGER, json=body | {"source_file": "robotics/none.md"})
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json() == missing.json()
    assert post(running, "/ask", STRANGER, query="How does ROS 2 work?")["answer"] == NOTHING


def test_each_question_is_independent(with_model: Running) -> None:
    response = with_model.request("POST", "/ask", READER, json={"query": "And why?", "conversation_history": []})
    assert response.status_code == 400
    assert post(with_model, "/ask", query="How does ROS 2 work?")["sources"]


def test_a_model_that_stays_down_is_a_clear_error(with_model: Running, model_server: ModelServer) -> None:
    model_server.fail(500, times=4)
    response = with_model.request("POST", "/ask", READER, json={"query": "How does ROS 2 work?"})
    assert response.status_code == 503
    assert response.json()["type"] == "/problems/service-unavailable"
    assert response.json()["detail"] == "The language model does not answer. Try again shortly."
    assert len(model_server.requests) == 4, "three retries"


def test_track_logs_the_conversation(book: Site) -> None:
    sources = [{"file": "robotics/ros2.md", "section": "How ROS 2 works"}]
    body = {"query": "How does ROS 2 work?", "answer": "By messages.", "timestamp": "2025-12-10T09:00:00Z"}
    with book.running() as running:
        reply = post(running, "/track", **body, sources=sources)
        assert reply["status"] == "accepted"
        post(running, "/track", **body, sources=[])
    rows = book.sql("SELECT email, query, answer, sources, asked_at::text FROM conversations ORDER BY created_at")
    assert [row[:3] for row in rows] == [(READER, body["query"], body["answer"])] * 2
    assert [{name: one[name] for name in ("file", "section")} for row in rows for one in row[3]] == sources
    assert rows[0][4].startswith("2025-12-10 09:00:00")


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("/ask", {}),
    ("/ask", {"query": ""}),
    ("/ask", {"query": "x" * 1001}),
    ("/ask-local", {"query": "x", "context": "y"}),
    ("/ask-local", {"query": "x", "context": "", "source_file": "robotics/ros2.md"}),
    ("/track", {"query": "x", "answer": "y", "sources": [], "timestamp": "yesterday"}),
    (
        "/track",
        {"query": "x", "answer": "y", "sources": [], "timestamp": "2025-12-10T09:00:00Z", "email": "eve@other.com"},
    ),
]


def test_what_is_wrong_is_a_problem(book: Site, running: Running) -> None:
    for path, body in WRONG:
        response = running.request("POST", path, READER, json=body)
        assert response.status_code == 400, json.dumps(response.json())
        assert response.headers["content-type"] == "application/problem+json"
        assert running.request("POST", path, json=body).status_code == 401
