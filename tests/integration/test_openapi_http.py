"""The OpenAPI document against the running service: its examples, the problems of each route, and the events of an answer."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from typing import Any

import hypothesis
import pytest

from serving.http.request_limits import CLASSES
from tests.fixtures.openapi import SETTINGS, Described
from tests.fixtures.routes import limits_of
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
CASES = int(os.environ.get("CONCORDANCE_TEST_CASES", "500"))
"""Generated requests of `test_generated_requests_get_described_responses`."""
NOT_FOUND = dict.fromkeys(
    (
        "endSession",
        "removeSavedSearch",
        "endAgent",
        "endAnySession",
        "endAnyAgent",
        "revokeAnyKey",
        "revokeKey",
        "decideHeldDeletions",
        "decideQuestion",
        "proposeQuestion",
        "getAnswer",
        "shareAnswer",
        "unshareAnswer",
        "deleteAnswer",
        "feedback",
        "ingestStatus",
        "syncStatus",
        "deleteDocument",
        "changeDocument",
        "getOriginal",
        "widgetToken",
        "askWidget",
    ),
    404,
)
"""Operations whose example names a record of another installation."""
OTHERS = NOT_FOUND | {
    "slackEvents": 401,  # Slack is not set up
    "connectGoogle": 409,  # Google is not set up
    "googleCallback": 400,
    "createKey": 403,  # a browser that is signed in does that
    "driveNotifications": 404,
    "metrics": 401,  # requires a token of its own
}


@pytest.fixture
def described(running: Running) -> Described:
    return Described(running.http.get("/docs/openapi.json").json())


def sent(running: Running, described: Described, name: str, **more: Any) -> Any:
    """Send the example of an operation as an administrator."""
    method, path, operation = described.operations[name]
    query: dict[str, Any] = {}
    for one in operation.get("parameters", []):
        if one["in"] == "path":
            path = path.replace(f"{{{one['name']}}}", str(one["example"]))
        elif one["in"] == "query" and "example" in one:
            query[one["name"]] = one["example"]
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        if (example := body.get("example")) is None:  # another type of the same body
            continue
        if media == "multipart/form-data":
            more["files"] = {"file": ("tea.md", example["file"])}
            more["data"] = {"metadata": json.dumps(example["metadata"])}
        else:
            more.setdefault("json", example)
    return running.request(method, path, ANN, admin=True, params=query, follow_redirects=False, **more)


def test_every_example_works_as_it_stands(site: Site, running: Running, described: Described) -> None:
    text = "Strictly for the executive team. We offer 40 million for StreamSight."
    site.add("Project Sandpiper", [text], ["public"], source_id="company/executive/project-sandpiper.md")
    statuses: dict[str, int] = {}
    for name in described.operations:
        response = sent(running, described, name)
        described.check(name, response)
        statuses[name] = response.status_code
    assert {name: status for name, status in statuses.items() if status >= 300} == OTHERS


def test_every_problem_that_a_route_responds_with_is_declared(running: Running, described: Described) -> None:
    seen: set[str] = set()
    for name, (method, path, operation) in described.operations.items():
        address = re.sub(r"{[^}]*}", UNKNOWN, path)
        attempts: list[dict[str, Any]] = [{}, {"headers": {"Host": "elsewhere.example"}}]
        attempts += [{"headers": {"Authorization": f"Bearer {token}"}} for token in ("abc", "ck_0_1")]
        attempts += [{"headers": {"Origin": "https://elsewhere.example"}}]
        attempts += [{"who": ANN}, {"who": ANN, "content": b"x", "headers": {"Content-Type": "text/plain"}}]
        attempts += [{"who": ANN, "json": body} for body in ({"no_such_field": 1}, [], {})]
        attempts += [{"who": ANN, "admin": True, "json": {}}, {"who": ANN, "admin": True}]
        attempts += [{"who": ANN, "params": {"context": -1, "chunk": "x", "query": "x" * 2000}}]
        most = CLASSES[limits_of(name)].body_bytes
        if most is not None:
            attempts.append({"who": ANN, "content": b" " * (most + 1), "headers": {"Content-Type": "application/json"}})
        for attempt in attempts:
            response = running.request(method, address, follow_redirects=False, **attempt)
            seen.add(described.check(name, response))
        assert "401" in operation["responses"] or operation["security"] == []
    assert {
        "invalid-request", "token-missing", "token-malformed", "api-key-invalid", "admin-only", "role-required", "origin-foreign",
        "not-found", "unknown-source", "too-large", "content-type", "host-unknown",
    } <= seen  # fmt: skip


def test_a_route_past_its_rate_is_refused_as_declared(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1})
    with site.running() as running:
        described = Described(running.http.get("/docs/openapi.json").json())
        for name, times in (("search", 2), ("ask", 2), ("formatCitations", 11), ("feedback", 4), ("why", 2)):
            slugs = [described.check(name, sent(running, described, name)) for _ in range(times)]
            assert slugs[-1] == "rate-limited", name


@pytest.mark.parametrize(
    ("path", "body", "field", "allowed"),
    [
        ("/api/rag/search", {"query": "x", "topk": 3}, "topk", "top_k"),
        ("/api/rag/search", {"query": "x", "filters": {"tag": {}}}, "filters.tag", "tags"),
        ("/api/rag/search", {"query": "x", "mode": "fuzzy"}, "mode", "`hybrid`"),
        ("/api/rag/search", {"query": "x", "top_k": "3"}, "top_k", "a whole number from 1 to 50"),
        ("/api/rag/search", {"query": "x", "top_k": 3.5}, "top_k", "a whole number from 1 to 50"),
        ("/api/rag/search", {"query": "x", "top_k": 3.0, "depth": "9"}, "depth", "a whole number from 10 to 500"),
        ("/api/rag/search", {"query": "x", "top_k": True}, "top_k", "a whole number from 1 to 50"),
        ("/api/rag/search", {"query": "x", "explain": "true"}, "explain", "true or false"),
        (
            "/api/rag/search",
            {"query": "x", "filters": {"include_archived": 1}},
            "filters.include_archived",
            "true or false",
        ),
        ("/api/rag/search", {"query": "x", "filters": {"document_ids": [7]}}, "filters.document_ids[0]", "a text"),
        ("/api/rag/search", {"query": 7}, "query", "a text"),
        ("/api/ask", {"query": "x", "stream": "yes"}, "stream", "true or false"),
        ("/api/sync/files", {"full_sync": "true"}, "full_sync", "true or false"),
        ("/api/ask", {}, "query", "a text"),
        ("/api/rag.search", {"query": "tea", "collection_id": "x"}, "collection_id", "collectionId"),
        ("/api/sync/files", {"partition": ["x"]}, "partition", "partitions"),
    ],
)
def test_an_error_names_its_field_what_is_allowed_and_the_documentation(
    running: Running, path: str, body: dict[str, Any], field: str, allowed: str
) -> None:
    problem = running.request("POST", path, ANN, admin=True, json=body).json()
    assert (problem["type"], problem["errors"][0]["field"]) == ("/problems/invalid-request", field)
    assert allowed in problem["errors"][0]["allowed"]
    assert problem["detail"].startswith(f"{field}: ")
    assert problem["documentation"].startswith("/docs#/")


def test_a_whole_number_may_be_written_with_a_point(running: Running) -> None:
    for number in ("3.0", "3", "0.3e1"):
        body = f'{{"query": "tea", "top_k": {number}, "threshold": 0}}'
        headers = {"Content-Type": "application/json"}
        assert running.request("POST", "/api/rag/search", ANN, content=body, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("parts", "detail"),
    [
        (
            {"files": {"document": ("tea.md", b"Tea")}},
            "file: is missing; send the file as a part named `file`, with its file name. The form has the part `document`",
        ),
        ({"files": {"file": (None, b"Tea")}}, "file: give the part a file name, such as notes.md."),
        ({"files": {"metadata": (None, b"{}")}}, "file: is missing"),
        ({"files": {"file": ("tea.md", b"Tea")}, "data": {"titel": "Tea"}}, "titel: is not a known part"),
        ({"files": {"file": ("tea.md", b"Tea")}, "data": {"metadata": '{"titel": "Tea"}'}}, "metadata.titel: is not"),
    ],
)
def test_an_upload_without_the_part_file_or_with_an_unknown_one_is_refused(
    running: Running, described: Described, parts: dict[str, Any], detail: str
) -> None:
    response = running.request("POST", "/api/upload", ANN, **parts)
    assert described.check("upload", response) == "invalid-request"
    assert response.json()["detail"].startswith(detail)


def test_the_events_of_an_answer_are_those_described(site: Site, running: Running, described: Described) -> None:
    site.add("Tea", ["Tea is served at four in the kitchen."], ["public"])
    body = {"query": "When is tea served?", "stream": True}
    response = running.request("POST", "/api/ask", ANN, json=body)
    described.check("ask", response)
    events = re.findall(r"event: (\w+)\r?\ndata: (.*)", response.text)
    assert [name for name, _ in events] == ["sources", "token", "check", "done"]
    for name, data in events:
        kind = "AnswerResponse" if name == "done" else f"{name.capitalize()}Event"
        described.validate(json.loads(data), {"$ref": f"#/components/schemas/{kind}"})


@pytest.mark.slow
def test_generated_requests_get_described_responses(site: Site, show: Callable[[str], None]) -> None:
    import schemathesis  # here: only the worker that runs this test pays a second for it

    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000})
    site.add("Tea", ["Tea is served at four in the kitchen."], ["public"])
    with site.running() as running:
        document = running.http.get("/docs/openapi.json").json()
        operations = [one.ok() for one in schemathesis.openapi.from_dict(document).get_all_operations()]
        headers = {"Authorization": f"Bearer {site.token(ANN, admin=True)}"}

        sent = sum(
            attacked(operation, running.url, headers, math.ceil(CASES / len(operations))) for operation in operations
        )
    show(f"{sent} generated requests to {len(operations)} operations, no finding")


def attacked(operation: Any, url: str, headers: dict[str, str], cases: int) -> int:
    """Send generated requests to one operation, with all of schemathesis's checks but one; returns how many."""
    from schemathesis.checks import load_all_checks
    from schemathesis.specs.openapi.checks import positive_data_acceptance

    load_all_checks()
    # Rules between fields, for texts without white space, and for cursors and ids that must be real are in descriptions only.
    unsaid, sent = [positive_data_acceptance], 0

    @hypothesis.settings(SETTINGS, max_examples=cases)
    @hypothesis.given(operation.as_strategy())
    def attack(case: Any) -> None:
        nonlocal sent
        sent += 1
        case.call_and_validate(base_url=url, headers=headers, allow_redirects=False, excluded_checks=unsaid)

    attack()
    return sent
