"""The OpenAPI document: complete, valid, and the same as what the routes declare."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from resources.settings import Settings
from serving.app import create_app
from serving.http.invalid import body_fault
from serving.http.openapi.document import build
from serving.http.problems import PREFIX, PROBLEMS
from serving.search.searches import SearchRequest
from tests.fixtures.openapi import Described

Object = dict[str, Any]
OPEN = {"widgetToken", "slackEvents", "driveNotifications", "googleCallback", "alive", "ready", "viewDocument"}
TIME = re.compile(r"(_at|_time|[a-z]At|[a-z]Time)$|^(at|expires|since|timestamp|until)$")
"""Names of fields that are times."""
COMPATIBILITY = {"/api/rag.search", "/api/search", "/api/chat", "/ask", "/ask-local", "/track"}
NO_INPUT = {
    "listSources",
    "me",
    "exportMe",
    "listSavedSearches",
    "listSessions",
    "listKeys",
    "listAgents",
    "listAllKeys",
    "listAllSessions",
    "listAllAgents",
    "listHeldDeletions",
    "connectGoogle",
    "googleCallback",
    "alive",
    "ready",
    "metrics",
    "driveNotifications",
}


class Operation(NamedTuple):
    path: str
    method: str
    described: Object

    @property
    def id(self) -> str:
        return self.described["operationId"]


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Object:
    app = create_app(Settings(home=tmp_path_factory.mktemp("home"), _env_file=None))  # pyright: ignore[reportCallIssue]
    return json.loads(msgspec.json.encode(build(app, "1.0")))


@pytest.fixture(scope="module")
def operations(document: Object) -> list[Operation]:
    return [Operation(path, method, one) for path, item in document["paths"].items() for method, one in item.items()]


def schemas(part: Any, path: str = "") -> Iterator[tuple[str, Object]]:
    """Yield every property of every schema in a part of the document."""
    if isinstance(part, dict):
        for name, schema in part["properties"].items() if isinstance(part.get("properties"), dict) else ():
            yield f"{path}.{name}", schema
        for name, inner in part.items():
            if name not in {"example", "examples"}:
                yield from schemas(inner, f"{path}/{name}")
    elif isinstance(part, list):
        for inner in part:
            yield from schemas(inner, path)


def test_every_property_component_and_parameter_has_a_description(
    document: Object, operations: list[Operation]
) -> None:
    properties = dict(schemas(document))
    assert len(properties) > 400
    assert [path for path, schema in properties.items() if not schema.get("description")] == []
    assert [name for name, one in document["components"]["schemas"].items() if not one.get("description")] == []
    parameters = [(one.id, given) for one in operations for given in one.described.get("parameters", [])]
    assert [(name, given["name"]) for name, given in parameters if not given["description"]] == []
    assert [one.id for one in operations if not (one.described["description"] and one.described["summary"])] == []


def test_the_document_is_valid(document: Object) -> None:
    schemathesis = pytest.importorskip("schemathesis")
    schemathesis.openapi.from_dict(document).validate()
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_paths_and_methods_are_in_alphabetical_order(operations: list[Operation]) -> None:
    assert [(one.path, one.method) for one in operations] == sorted((one.path, one.method) for one in operations)


def test_open_routes_are_open_and_all_others_take_a_token_or_a_key(
    document: Object, operations: list[Operation]
) -> None:
    security = {one.id: one.described["security"] for one in operations}
    assert {name for name, wanted in security.items() if wanted == []} == OPEN
    assert security.pop("metrics") == [{"metricsToken": []}]
    assert security.pop("askWidget") == [{"widgetToken": []}]
    assert all(wanted == [{"bearer": []}, {"apiKey": []}] for name, wanted in security.items() if name not in OPEN)
    key = document["components"]["securitySchemes"]["apiKey"]
    assert (key["in"], key["name"]) == ("header", "X-Api-Key")


def test_compatibility_routes_have_a_tag_of_their_own(operations: list[Operation]) -> None:
    assert {one.path for one in operations if one.described["tags"] == ["compatibility"]} == COMPATIBILITY


def test_every_operation_has_an_example_that_its_schema_accepts(document: Object, operations: list[Operation]) -> None:
    described = Described(document)
    checked: set[str] = set()
    for one in operations:
        bodies = one.described.get("requestBody", {}).get("content", {}).values()
        answers = [
            body for answer in one.described["responses"].values() for body in answer.get("content", {}).values()
        ]
        for body in (*bodies, *answers):
            given = (
                [body["example"]]
                if "example" in body
                else [each["value"] for each in body.get("examples", {}).values()]
            )
            for example in given:
                described.validate(example, body["schema"])
        given = [*bodies, *one.described.get("parameters", [])]
        if any("example" in each for each in given) or (one.id in NO_INPUT):
            checked.add(one.id)
    assert checked == {one.id for one in operations}


def test_every_json_response_has_an_example(operations: list[Operation]) -> None:
    lacking = [
        (one.id, status)
        for one in operations
        for status, answer in one.described["responses"].items()
        for media, body in answer.get("content", {}).items()
        if media.endswith("json") and body["schema"] and not {"example", "examples"} & body.keys()
    ]
    assert lacking == []


def test_objects_say_which_further_members_they_have(document: Object) -> None:
    every = [*document["components"]["schemas"].items(), *schemas(document)]
    assert [
        path
        for path, one in every
        if one.get("type") == "object" and not {"properties", "additionalProperties"} & one.keys()
    ] == []


def test_every_time_is_a_date_time(document: Object) -> None:
    times = {path: one for path, one in schemas(document) if TIME.search(path.rpartition(".")[2])}
    assert len(times) > 40
    assert [path for path, one in times.items() if one.get("format") != "date-time"] == []
    named = {path for path, one in schemas(document) if one.get("format") == "date-time"}
    assert named == times.keys()  # so that the rule above covers all of them


def test_every_tag_is_described(document: Object, operations: list[Operation]) -> None:
    assert {tag for one in operations for tag in one.described["tags"]} == {one["name"] for one in document["tags"]}


def test_every_problem_is_declared_somewhere(operations: list[Operation]) -> None:
    text = json.dumps([one.described["responses"] for one in operations])
    named = {slug for slug in PROBLEMS if f"{PREFIX}{slug}" in text}
    assert set(PROBLEMS) - named == {"method-not-allowed"}  # no operation has the wrong method


def test_request_bodies_refuse_unknown_fields_and_name_their_enums(
    document: Object, operations: list[Operation]
) -> None:
    for one in operations:
        for media, body in one.described.get("requestBody", {}).get("content", {}).items():
            schema = body["schema"]
            if "$ref" in schema:
                schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
            assert schema.get("additionalProperties", one.id) in (False, "slackEvents"), (one.id, media)
    enums = [path for path, schema in schemas(document) if "enum" in schema or "enum" in str(schema.get("anyOf"))]
    assert enums == []  # each is a component, and so a type of its own in a generated client


def test_null_is_one_of_the_types_of_a_field(document: Object) -> None:
    unions = {
        path: schema["anyOf"] for path, schema in schemas(document) if {"type": "null"} in schema.get("anyOf", [])
    }
    assert {len(union) for union in unions.values()} == {2}
    assert all("$ref" in union[0] for union in unions.values())
    assert document["components"]["schemas"]["Result"]["properties"]["owner"]["type"] == ["string", "null"]


def test_a_question_is_answered_as_json_or_as_events(document: Object) -> None:
    answer = document["paths"]["/api/ask"]["post"]["responses"]["200"]["content"]
    assert set(answer) == {"application/json", "text/event-stream"}
    events = [one["properties"] for one in answer["text/event-stream"]["schema"]["oneOf"]]
    assert {one["event"]["const"]: one["data"]["contentSchema"]["$ref"].rpartition("/")[2] for one in events} == {
        "sources": "SourcesEvent",
        "token": "TokenEvent",
        "restart": "RestartEvent",
        "check": "CheckEvent",
        "done": "AnswerResponse",
        "error": "ErrorEvent",
    }
    assert {one["data"]["contentSchema"]["$ref"].rpartition("/")[2] for one in events} <= set(
        document["components"]["schemas"]
    )


def test_what_may_be_sent_again_is_marked(operations: list[Operation]) -> None:
    assert {one.id for one in operations if one.described.get("x-repeatable")} == {
        "search",
        "ask",
        "formatCitations",
        "upload",
        "ingest",
        "changeDocument",
        "pushDocuments",
        "saveSearch",
        "deleteDocument",
        "deletePushed",
        "unshareAnswer",
        *(one.id for one in operations if one.path in COMPATIBILITY - {"/track"}),
    }


def test_pages_and_metrics_have_their_content_types(document: Object) -> None:
    assert set(document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]) == {"text/plain"}
    page = document["paths"]["/documents/{doc_id}"]["get"]["responses"]
    assert "text/html" in page["200"]["content"]
    assert set(page["404"]["content"]) == {"text/html"}


def test_the_body_of_a_sync_is_optional(document: Object) -> None:
    assert document["paths"]["/api/sync/{source}"]["post"]["requestBody"]["required"] is False
    assert document["paths"]["/api/rag/search"]["post"]["requestBody"]["required"] is True


@pytest.mark.parametrize(
    ("path", "message", "field", "allowed"),
    [
        ("", "Object contains unknown field `topk`", "topk", "query, top_k, mode"),
        ("", "Object missing required field `query`", "query", "a text of 1 to 1000 characters"),
        ("query", "Expected `str` of length <= 4000", "query", "a text of 1 to 1000 characters"),
        ("mode", "Invalid enum value 'x'", "mode", "`hybrid`, `keyword`, `vector`"),
        ("top_k", "Expected `int` <= 50", "top_k", "a whole number from 1 to 50"),
        ("threshold", "Expected `float | null`, got `str`", "threshold", "a number from 0 to 1 or null"),
        (
            "filters.date_range",
            "Object contains unknown field `until`",
            "filters.date_range.until",
            "start, end, field",
        ),
        ("understand[0]", "Invalid enum value 'x'", "understand[0]", "`author`, `channel`, `date`"),
        ("", "Expected `object`, got `array`", "body", "an object with the fields query"),
        ("", "'data'", "body", "an object with the fields query"),
    ],
)
def test_an_error_names_the_field_and_what_is_allowed(path: str, message: str, field: str, allowed: str) -> None:
    fault = body_fault(SearchRequest, path, message)
    assert fault.field == field
    assert str(fault.allowed).startswith(allowed)
    assert str(fault).startswith(f"{field}: ")
