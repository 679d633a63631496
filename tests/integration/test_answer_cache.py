"""The answer cache saves the model's turn and nothing else: entries are per caller, and end with any change of a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures import llm
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
QUESTION = "How many vacation days do employees accrue?"
VACATION = "Employees accrue twenty five vacation days a year."


@pytest.fixture
def running(site: Site, model_server: ModelServer) -> Iterator[Running]:
    site.add("Handbook", [VACATION], ["domain:acme.com"])
    site.add(
        "Board", ["The board accrues ninety vacation days a year; employees do not know."], ["group:board@acme.com"]
    )
    site.settings = site.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    with site.running() as running:
        yield running


def ask(running: Running, who: str = BOB, *groups: str, **body: Any) -> dict[str, Any]:
    response = running.request("POST", "/api/ask", who, *groups, json={"query": QUESTION, **body})
    assert response.status_code == 200, response.text
    # what is kept is kept after the answer: asking for it waits until it is
    assert running.request("GET", f"/api/answers/{response.json()['answer_id']}", who, *groups).status_code == 200
    return response.json()


def test_the_same_question_is_answered_once_by_the_model(running: Running, model_server: ModelServer) -> None:
    first, second = ask(running), ask(running)
    assert (first["cached"], second["cached"]) == (False, True)
    assert (second["answer"], second["sentences"], second["sources"]) == (
        first["answer"],
        first["sentences"],
        first["sources"],
    )
    assert second["answer_id"] != first["answer_id"]
    assert len(model_server.requests) == 1


def test_it_never_crosses_people(running: Running, model_server: ModelServer) -> None:
    board = ask(running, BOB, "board@acme.com")
    assert "Board" in [source["title"] for source in board["sources"]]
    plain = ask(running, BOB)
    assert plain["cached"] is False
    assert "Board" not in [source["title"] for source in plain["sources"]]
    assert ask(running, ANN)["cached"] is False
    assert len(model_server.requests) == 3


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE chunks SET chunk_text = chunk_text || ' Or thirty vacation days.', text_hash = 'other'",
        "UPDATE documents SET source_title = 'Old handbook' WHERE source_title = 'Handbook'",
        "UPDATE documents SET modified_at = now() WHERE source_title = 'Handbook'",
    ],
)
def test_a_changed_source_ends_it(running: Running, change: str) -> None:
    ask(running)
    running.site.sql(change)
    assert ask(running)["cached"] is False


@pytest.mark.parametrize(
    "taken",
    [
        "UPDATE documents SET permissions = '{ann@acme.com}' WHERE source_title = 'Handbook'",
        "UPDATE documents SET state = 'deleted' WHERE source_title = 'Handbook'",
        "UPDATE partitions SET acl_checked_at = now() - interval '2 days'",
    ],
)
def test_a_revocation_ends_it_at_once(running: Running, taken: str) -> None:
    assert ask(running)["found"]
    assert ask(running)["cached"]
    running.site.sql(taken)
    after = ask(running)
    assert (after["found"], after["cached"], after["sources"]) == (False, False, [])
    assert "twenty five" not in str(after)


def test_a_better_source_that_came_since_ends_it(running: Running) -> None:
    ask(running)
    running.site.add(
        "New handbook", ["From 2027 employees accrue twenty eight vacation days a year."], ["domain:acme.com"]
    )
    after = ask(running)
    assert after["cached"] is False
    assert "New handbook" in [source["title"] for source in after["sources"]]


def test_other_words_filters_or_conversations_are_other_answers(running: Running) -> None:
    ask(running)
    assert ask(running, filters={"source_types": ["files"]})["cached"] is False
    assert ask(running, conversation_history=[{"role": "user", "content": "Vacation?"}])["cached"] is False
    assert ask(running, mode="keyword")["cached"] is False


def test_an_entry_past_its_time_and_a_cache_turned_off_are_not_used(running: Running, site: Site) -> None:
    ask(running)
    site.sql("UPDATE answer_cache SET expires_at = now() - interval '1 second'")
    assert ask(running)["cached"] is False
    site.settings = site.settings.model_copy(update={"answer_cache_seconds": 0})
    with site.running() as uncached:
        assert ask(uncached)["cached"] is False


def test_entries_past_their_time_are_removed_by_later_answers(running: Running, site: Site) -> None:
    site.sql(
        "INSERT INTO answer_cache (cache_key, body, expires_at)"
        " VALUES ('old', '', now() - interval '1 minute'), ('new', '', now() + interval '1 minute')"
    )
    ask(running)
    running.settle()
    assert not site.sql("SELECT 1 FROM answer_cache WHERE cache_key = 'old'")
    assert site.sql("SELECT 1 FROM answer_cache WHERE cache_key = 'new'")


def test_what_the_model_did_not_find_is_cached_as_that(running: Running, model_server: ModelServer) -> None:
    model_server.manner = llm.knows_nothing
    assert [ask(running)["found"], ask(running)["found"]] == [False, False]
    assert len(model_server.requests) == 1
