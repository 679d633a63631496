"""Filters understood from a question, over HTTP: applied, shown, removable, and silent about what the caller may not read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from resources.core.domain import SourceName
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
EVERYONE = ["domain:acme.com"]
PUMPS = "The pumps of the gauge run for six years with one pair of cells."
QUESTION = "What did Marta write in #support last week about the pumps?"


def last_week() -> datetime:
    now = datetime.now(UTC)
    return now - timedelta(days=now.weekday() + 3)


def conversation(
    site: Site, title: str, author: str, channel: str, people: list[str], readers: list[str], **more: Any
) -> None:
    tags = {"channel": channel, "participants": people}
    fields = {"author": author, "tags": tags, "modified_at": last_week(), "collection_ids": [channel]} | more
    site.add(
        title, [f"{PUMPS} {title} remarks."], readers, source=SourceName.SLACK, source_id=f"T1/C1/{title}", **fields
    )


@pytest.fixture(params=["qdrant", "postgres"])
def desk(request: pytest.FixtureRequest, site: Site) -> Iterator[Running]:
    if request.param == "postgres":
        site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    conversation(site, "Begun", "Marta Kolb", "support", ["Marta Kolb"], EVERYONE)
    conversation(site, "Answered", "Tom Brandt", "support", ["Marta Kolb", "Tom Brandt"], EVERYONE)
    conversation(
        site, "Old", "Marta Kolb", "support", ["Marta Kolb"], EVERYONE, modified_at=datetime(2020, 1, 1, tzinfo=UTC)
    )
    conversation(site, "Elsewhere", "Marta Kolb", "general", ["Marta Kolb"], EVERYONE)
    conversation(site, "Alone", "Tom Brandt", "support", ["Tom Brandt"], EVERYONE)
    conversation(site, "Secret", "Wim Secretive", "board", ["Wim Secretive"], [ANN])
    site.add("Manual", [f"{PUMPS} See page 4."], EVERYONE, author="Marta Kolb")
    with site.running() as running:
        yield running


def kinds(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return [(one["kind"], one["text"], one["applied"]) for one in found["understood"]]


def titles(found: dict[str, Any]) -> set[str]:
    return {one["title"] for one in found["results"]}


def test_what_is_understood_narrows_and_is_shown(desk: Running, subtests: pytest.Subtests) -> None:
    for mode in ("hybrid", "keyword", "vector"):
        with subtests.test(mode=mode):
            found = desk.search(QUESTION, BOB, top_k=20, mode=mode)
            assert titles(found) == {"Begun", "Answered"}
    assert kinds(found) == [
        ("author", "did Marta write", True),
        ("channel", "in #support", True),
        ("date", "last week", True),
    ]
    for one in found["understood"]:
        assert QUESTION[one["start"] : one["end"]] == one["text"]
        assert desk.search("pumps", BOB, top_k=20, filters=one["filters"])["results"]


def test_every_filter_can_be_removed(desk: Running) -> None:
    everything = {"Begun", "Answered", "Old", "Elsewhere", "Alone", "Manual"}
    plain = desk.search(QUESTION, BOB, top_k=20, understand=False)
    assert (titles(plain), plain["understood"]) == (everything, [])
    assert titles(desk.search(QUESTION, BOB, top_k=20, understand=["author", "channel"])) == {
        "Begun",
        "Answered",
        "Old",
    }
    assert titles(desk.search(QUESTION, BOB, top_k=20, understand=["channel"])) == everything - {"Elsewhere", "Manual"}


def test_filters_of_the_request_hold_as_well(desk: Running) -> None:
    both = desk.search(
        "Slack messages by Marta about the pumps", BOB, top_k=20, filters={"tags": {"channel": "general"}}
    )
    assert titles(both) == {"Elsewhere"}
    other = desk.search("Slack messages about the pumps", BOB, top_k=20, filters={"source_types": ["files"]})
    assert (titles(other), kinds(other)) == ({"Manual"}, [("source", "Slack messages", False)])


def test_filters_that_leave_nothing_are_not_applied(desk: Running) -> None:
    found = desk.search("messages by Tom in #general about the pumps", BOB, top_k=20)
    assert len(titles(found)) == 6
    assert kinds(found) == [("author", "by Tom", False), ("channel", "in #general", False)]


def test_names_that_the_caller_may_not_know_are_words(desk: Running) -> None:
    for question in (
        "What did {} write about the pumps?",
        "messages by {} about the pumps",
        "{}'s notes about the pumps",
    ):
        for name in ("Wim", "Wim Secretive", "Nobody Whatever"):
            found = desk.search(question.format(name), BOB, top_k=20)
            assert found["understood"] == []
            assert titles(found) == {"Begun", "Answered", "Old", "Elsewhere", "Alone", "Manual"}
        assert titles(desk.search(question.format("Wim"), ANN)) == {"Secret"}
    assert desk.search("what was said in #board about the pumps", BOB)["understood"] == []
    assert kinds(desk.search("what was said in #board about the pumps", ANN)) == [("channel", "in #board", True)]


def test_operators_narrow_and_are_shown(desk: Running, subtests: pytest.Subtests) -> None:
    everything = {"Begun", "Answered", "Old", "Elsewhere", "Alone", "Manual"}
    cases = {
        "pumps from:marta": ({"Begun", "Answered", "Old", "Elsewhere", "Manual"}, "author"),
        'from:"Tom Brandt" pumps': ({"Answered", "Alone"}, "author"),
        "pumps in:#support": ({"Begun", "Answered", "Old", "Alone"}, "channel"),
        "pumps in:general": ({"Elsewhere"}, "channel"),
        "pumps in:slack": (everything - {"Manual"}, "source"),
        "pumps from:files": ({"Manual"}, "source"),
        "pumps type:md": (everything, "type"),
        "pumps type:pdf": (set[str](), "type"),
        "pumps -remarks": ({"Manual"}, "without"),
        'pumps -"page 4"': (everything - {"Manual"}, "without"),
        "pumps -manual": (everything - {"Manual"}, "without"),
        "pumps from:Wim": (set[str](), "author"),
        "pumps from:Nobody": (set[str](), "author"),
        "pumps in:board": (set[str](), "place"),
        "pumps in:nowhere": (set[str](), "place"),
    }
    for query, (wanted, kind) in cases.items():
        with subtests.test(query=query):
            found = desk.search(query, BOB, top_k=20)
            assert titles(found) == wanted
            (one,) = found["understood"]
            assert (one["kind"], one["operator"], one["applied"]) == (kind, True, True)
            assert query[one["start"] : one["end"]] == one["text"]
            assert desk.search("pumps", BOB, top_k=20, filters=one["filters"])["results"] or not wanted
    assert titles(desk.search("pumps from:wim", ANN)) == {"Secret"}


def test_from_me_is_the_caller_alone(desk: Running, site: Site) -> None:
    assert titles(desk.search("pumps from:me", BOB)) == set()
    site.add("Mine", [f"{PUMPS} Mine."], EVERYONE, author=BOB)
    site.add("Named", [f"{PUMPS} Named."], EVERYONE, author="Bob Orr")
    site.add("Namesake", [f"{PUMPS} Namesake."], EVERYONE, author="Bob Orrin")
    site.sql("INSERT INTO people (source, email, name, active) VALUES ('scim', 'bob@acme.com', 'Bob Orr', TRUE)")
    assert titles(desk.search("pumps from:me", BOB)) == {"Mine", "Named"}
    assert titles(desk.search("pumps from:me", ANN)) == set()


def test_operators_of_one_kind_are_alternatives_and_hold_beside_words(desk: Running) -> None:
    found = desk.search("pumps in:#support in:#general from:marta", BOB, top_k=20)
    assert titles(found) == {"Begun", "Answered", "Old", "Elsewhere"}
    assert titles(desk.search("messages from last week about the pumps from:marta -Answered", BOB, top_k=20)) == {
        "Begun",
        "Elsewhere",
    }
    lost = desk.search("messages from yesterday about the pumps in:#general", BOB, top_k=20)
    assert titles(lost) == {"Elsewhere"}, "words that leave nothing are ignored, operators are not"
    assert kinds(lost) == [("date", "from yesterday", False), ("channel", "in:#general", True)]


def test_the_audit_has_the_whole_question_of_both_searches(desk: Running, site: Site) -> None:
    question = "messages from yesterday about the pumps in:#general"
    assert titles(desk.search(question, BOB)) == {"Elsewhere"}
    desk.settle()
    assert site.sql("SELECT query FROM audit_log WHERE query LIKE '%%pumps%%'") == [(question,)] * 2


@pytest.mark.parametrize("desk", ["qdrant"], indirect=True)
def test_operators_alone_return_what_they_let_through(desk: Running) -> None:
    assert titles(desk.search("in:#support", BOB, top_k=20)) == {"Begun", "Answered", "Old", "Alone"}
    assert titles(desk.search("from:marta in:files", BOB, top_k=20)) == {"Manual"}


@pytest.mark.parametrize(
    "query", ["error type:unknown of pumps", "wi-fi pumps", '"pumps -remarks"', "pumps - remarks", "a:b", 'pumps -"🚀"']
)
def test_other_words_with_colons_and_dashes_are_words(desk: Running, query: str) -> None:
    assert desk.search(query, BOB)["understood"] == []


WIMS = {
    "messages by Wim about the pumps": ("author", {"authors": ["Wim Secretive"]}),
    "pumps from:wim": ("author", {"authors": ["Wim Secretive"]}),
    "pumps in the board channel": ("channel", {"source_types": ["slack"], "tags": {"channel": "board"}}),
    "pumps in:board": ("channel", {"source_types": ["slack"], "tags": {"channel": "board"}}),
}
"""Questions that name an author or a channel of one document alone."""


def test_a_name_is_forgotten_with_the_last_document(desk: Running, subtests: pytest.Subtests) -> None:
    def understood() -> dict[str, list[Any]]:
        found = {question: desk.search(question, ANN)["understood"] for question in WIMS}
        return {
            question: [(one["kind"], one["filters"]) for one in understood] for question, understood in found.items()
        }

    known = {question: [stated] for question, stated in WIMS.items()}
    unknown: dict[str, list[Any]] = {question: [] for question in WIMS} | {
        "pumps from:wim": [("author", {"authors": ["wim"]})],
        "pumps in:board": [("place", {"collection_ids": ["board"]})],
    }
    (doc_id,) = desk.site.sql("SELECT doc_id FROM documents WHERE title = 'Secret'")[0]
    for withdrawal, again in (
        (
            "UPDATE documents SET permissions = '{}' WHERE doc_id = %s",
            "UPDATE documents SET permissions = '{ann@acme.com}' WHERE title = 'Secret'",
        ),
        ("INSERT INTO hidden_documents (doc_id, event_id) VALUES (%s, 'Ev1')", "DELETE FROM hidden_documents"),
    ):
        with subtests.test(withdrawal=withdrawal):
            assert understood() == known
            desk.site.sql(withdrawal, doc_id)
            assert understood() == unknown, "not even while names are kept"
            desk.site.sql(again)
            desk.site.sql("UPDATE index_version SET version = version + 1")


def test_answers_show_what_they_understood(desk: Running) -> None:
    def ask(**more: Any) -> dict[str, Any]:
        response = desk.request("POST", "/api/ask", BOB, json={"query": QUESTION, "threshold": 0, **more})
        assert response.status_code == 200, response.text
        return response.json()

    found = ask()
    assert kinds(found) == [
        ("author", "did Marta write", True),
        ("channel", "in #support", True),
        ("date", "last week", True),
    ]
    assert {one["title"] for one in found["sources"]} == {"Begun", "Answered"}
    assert ask(understand=False)["understood"] == []


def test_the_interface_of_another_system_takes_questions_as_they_are(desk: Running) -> None:
    question = "messages by Tom in #support about the pumps"
    outline = desk.request("POST", "/api/rag.search", BOB, json={"query": question, "threshold": 0}).json()
    assert len({one["document"]["title"] for one in outline["data"]}) == 6


def test_only_kinds_that_exist_can_be_named(desk: Running) -> None:
    response = desk.request("POST", "/api/rag/search", BOB, json={"query": "x", "understand": ["people"]})
    assert response.status_code == 400
    assert "understand" in response.text
