"""Answers are kept with what they were made from, shown to who asked alone, and flagged when a source changed or was revoked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.fixtures import llm
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
QUESTION = "How many vacation days do employees accrue?"
VACATION = "Employees accrue twenty five vacation days a year."


@pytest.fixture
def asked(site: Site, model_server: ModelServer) -> Iterator[tuple[Running, dict[str, Any]]]:
    """A running app and Bob's answer."""
    site.add("Handbook", [VACATION], ["domain:acme.com"])
    site.add("Leave", ["Vacation days are booked in the portal. Employees ask their lead."], ["domain:acme.com"])
    site.settings = site.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    with site.running() as running:
        response = running.request("POST", "/api/ask", BOB, json={"query": QUESTION})
        assert response.status_code == 200, response.text
        yield running, response.json()


def again(running: Running, answer: dict[str, Any], who: str = BOB) -> dict[str, Any]:
    response = running.request("GET", f"/api/answers/{answer['answer_id']}", who)
    assert response.status_code == 200, response.text
    return response.json()


def test_an_answer_is_kept_as_it_was_given(asked: tuple[Running, dict[str, Any]]) -> None:
    running, answer = asked
    kept = again(running, answer)
    assert (kept["answer"], kept["query"], kept["query_id"]) == (answer["answer"], QUESTION, answer["query_id"])
    assert kept["sentences"] == answer["sentences"]
    assert (kept["changed"], kept["revoked"], kept["completed"]) == (False, False, True)
    assert [source["status"] for source in kept["sources"]] == ["current"] * len(answer["sources"])
    assert [source["doc_id"] for source in kept["sources"]] == [source["doc_id"] for source in answer["sources"]]
    assert [source["index"] for source in kept["sources"] if source["cited"]] == answer["cited"]


def test_only_who_asked_may_read_it(asked: tuple[Running, dict[str, Any]]) -> None:
    running, answer = asked
    for who in (ANN, "eve@other.com"):
        response = running.request("GET", f"/api/answers/{answer['answer_id']}", who, admin=True)
        assert response.status_code == 404
    for unknown in ("00000000-0000-4000-8000-000000000000", "nonsense"):
        assert running.request("GET", f"/api/answers/{unknown}", BOB).status_code == 404


def test_a_changed_source_is_flagged(asked: tuple[Running, dict[str, Any]]) -> None:
    running, answer = asked
    running.site.sql(
        "UPDATE chunks SET chunk_text = 'Thirty days.', text_hash = 'other' WHERE chunk_text = %s", VACATION
    )
    kept = again(running, answer)
    by_title = {source["title"]: source["status"] for source in kept["sources"]}
    assert by_title["Handbook"] == "changed"
    assert (kept["changed"], kept["revoked"]) == (True, False)
    assert kept["answer"] == answer["answer"]


def test_a_passage_that_went_from_a_readable_document_is_a_change(asked: tuple[Running, dict[str, Any]]) -> None:
    running, answer = asked
    running.site.sql("DELETE FROM chunks WHERE chunk_text = %s", VACATION)
    kept = again(running, answer)
    assert "changed" in {source["status"] for source in kept["sources"]}
    assert kept["revoked"] is False


@pytest.mark.parametrize(
    "taken",
    [
        "UPDATE documents SET permissions = '{ann@acme.com}' WHERE source_title = 'Handbook'",
        "UPDATE documents SET state = 'deleted' WHERE source_title = 'Handbook'",
        "UPDATE documents SET state = 'lost_access' WHERE source_title = 'Handbook'",
        "UPDATE partitions SET acl_checked_at = now() - interval '2 days'",
    ],
)
def test_with_a_revoked_source_the_answer_is_withheld(asked: tuple[Running, dict[str, Any]], taken: str) -> None:
    running, answer = asked
    assert again(running, answer)["revoked"] is False
    running.site.sql(taken)
    response = running.request("GET", f"/api/answers/{answer['answer_id']}", BOB)
    kept = response.json()
    assert (kept["revoked"], kept["answer"], kept["sentences"]) == (True, None, [])
    gone = [source for source in kept["sources"] if source["status"] == "revoked"]
    assert gone
    assert all(source["doc_id"] is source["title"] is source["link"] is source["chunk_id"] is None for source in gone)
    assert "twenty five" not in response.text
    assert "Handbook" not in response.text


def test_every_answer_is_logged_found_or_not_cached_or_not(
    asked: tuple[Running, dict[str, Any]], model_server: ModelServer
) -> None:
    running, first = asked
    model_server.manner = llm.badly
    queries = (QUESTION, "How high is Mount Kilimanjaro?", "Where are vacation days booked?")
    answers = [running.request("POST", "/api/ask", BOB, json={"query": query}).json() for query in queries]
    ids = [answer["answer_id"] for answer in (first, *answers)]
    headers = {"Authorization": f"Bearer {running.site.token(BOB)}"}
    body = {"query": "Whom do employees ask about vacation days?", "stream": True}
    with running.http.stream("POST", "/api/ask", headers=headers, json=body) as response:
        assert "done" in "".join(response.iter_text())
    running.settle()
    rows = running.site.sql(
        "SELECT answer_id::text, question, found, cached, unsupported, jsonb_array_length(sources), latency_ms, principals"
        " FROM answers ORDER BY created_at"
    )
    assert [row[0] for row in rows][:4] == ids
    assert len(rows) == 5
    assert [row[2] for row in rows] == [True, True, False, True, True]
    assert rows[2][5] == 0
    assert rows[3][4] > 0
    assert all(row[6] > 0 and BOB in row[7] for row in rows)
    logged = running.site.sql("SELECT count(*) FROM audit_log WHERE action = 'ask' AND email = %s", BOB)
    assert logged == [(5,)]


def test_an_answer_does_not_wait_for_its_log(asked: tuple[Running, dict[str, Any]]) -> None:
    running, _ = asked
    with psycopg.connect(running.site.settings.postgres_dsn) as holder:
        holder.execute("LOCK TABLE answers, audit_log IN ACCESS EXCLUSIVE MODE")
        response = running.request("POST", "/api/ask", BOB, json={"query": QUESTION})
    assert response.status_code == 200
    assert again(running, response.json())["answer"] == response.json()["answer"]


def test_an_answer_does_not_fail_for_its_log(asked: tuple[Running, dict[str, Any]]) -> None:
    running, _ = asked
    running.site.sql("ALTER TABLE answers RENAME TO elsewhere")
    response = running.request("POST", "/api/ask", BOB, json={"query": QUESTION})
    assert response.status_code == 200
    assert response.json()["found"]
