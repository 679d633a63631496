"""Feedback and take-downs on the pages of curators: what they see of other people's questions, and questions made of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser

from resources.settings import Settings
from tests.fixtures.feedback import rated
from tests.fixtures.serving import Running, Site

ANN, CURATOR, AUDITOR = "ann@acme.com", "cora@acme.com", "audrey@acme.com"
SCRIPT = "<script>alert(1)</script>"
QUESTION = f"How many days of leave? {SCRIPT}"


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    roles = Settings(_env_file=None, roles=json.dumps({"curator": [CURATOR], "auditor": [AUDITOR]})).roles  # pyright: ignore[reportCallIssue, reportArgumentType]
    site.settings = site.settings.model_copy(update={"roles": roles})
    with site.running() as running:
        yield running


def shown(running: Running, path: str = "/admin/feedback") -> LexborHTMLParser:
    answer = running.http.get(path, headers=running.site.session(CURATOR))
    assert answer.status_code == 200, answer.text
    assert "Sandpiper" not in answer.text
    assert SCRIPT not in answer.text
    return LexborHTMLParser(answer.text)


def propose(running: Running, feedback: str, document: str) -> httpx.Response:
    return running.request("POST", f"/api/feedback/{feedback}/question", CURATOR, json={"document": document})


def test_curators_see_questions_and_neither_answers_nor_comments(running: Running, site: Site) -> None:
    rated(site, ANN, QUESTION)
    rated(site, ANN, "Useful?", verdict="good")
    rated(site, ANN, "And there?", standalone="What does project Sandpiper cost there?")
    changed = rated(site, ANN, "Changed their mind?")
    site.sql("UPDATE feedback SET verdict = 'good' WHERE feedback_id = %s", changed)
    rows = [[" ".join(cell.text().split()) for cell in row.css("td")] for row in shown(running).css("tbody tr")]
    assert [(row[0], row[1]) for row in rows] == [("And there? no data found", ANN), (f"{QUESTION} no data found", ANN)]
    assert [row[3] for row in rows] == ["asked in a conversation", "Propose"]


def test_what_a_question_borrows_from_the_answer_before_is_shown_to_nobody_else(running: Running, site: Site) -> None:
    merger = site.add("Merger", ["The merger is signed by Ottoline Vexley in May."], [ANN])

    def ask(question: str, *history: dict[str, str]) -> dict[str, Any]:
        body = {"query": question, "conversation_history": history}
        return running.request("POST", "/api/ask", ANN, json=body).json()

    first, second = "Who signs the merger?", "When does she sign it?"
    before = ask(first)
    said = [{"role": "user", "content": first}, {"role": "assistant", "content": before["answer"]}]
    after = ask(second, *said)
    assert "Vexley" in after["standalone"], "the subject is taken from the answer before"
    for answer in (before, after):
        for rated_as in ("answer_id", "query_id"):
            body = {"verdict": "bad", rated_as: answer[rated_as], "expected_document": merger}
            assert running.request("POST", "/api/feedback", ANN, json=body).status_code == 201
    proposed = running.request("GET", "/api/questions", CURATOR)
    assert [one["question"] for one in proposed.json()["questions"]] == [first]
    logged = running.request("GET", "/api/audit", AUDITOR, params={"action": "ask"})
    assert [one["query"] for one in logged.json()["events"]] == [second, first]
    assert "Vexley" not in running.request("GET", "/api/me/export", ANN).text, (
        "nor is it exported once the document is hidden"
    )


def test_a_question_is_proposed_with_a_document_that_both_may_read(running: Running, site: Site) -> None:
    both, mine, hers = (site.add(title, ["Leave."], [*who]) for title, who in
                        (("Both", (ANN, CURATOR)), ("Mine", (CURATOR,)), ("Hers", (ANN,))))  # fmt: skip
    feedback, good, talk = (
        rated(site, ANN, QUESTION),
        rated(site, ANN, "Good?", "good"),
        rated(site, ANN, "And?", standalone="And leave?"),
    )
    for refused, document in (
        (feedback, mine),
        (feedback, hers),
        (good, both),
        (talk, both),
        (str(uuid.uuid4()), both),
    ):
        assert propose(running, refused, document).status_code == 404
    unknown = propose(running, feedback, str(uuid.uuid4())).json()
    assert propose(running, feedback, hers).json()["detail"] == unknown["detail"]
    for wrong in ("https://drive.google.com/file/d/x", "http://[x#y", "//[#"):
        answer = propose(running, feedback, wrong)
        assert (answer.status_code, answer.json()["detail"][:10]) == (400, "document: ")
    assert site.sql("SELECT count(*) FROM questions") == [(0,)]

    found = propose(running, feedback, f"{running.url}/documents/{both}?chunk=1")
    assert found.status_code == 200, found.text
    assert propose(running, feedback, both).json() == found.json()  # another document may be named until it is in use
    assert site.sql("SELECT question, doc_ids::text[], email, groups, state, origin, added_by FROM questions") == [
        (QUESTION, [both], ANN, ["group:hr@acme.com"], "proposed", "feedback", CURATOR)
    ]
    assert "proposed" in shown(running).css_first("tbody").text()
    site.sql("UPDATE questions SET state = 'accepted'")
    assert propose(running, feedback, both).status_code == 404
    assert "in use" in shown(running).css_first("tbody").text()
    running.settle()
    audited = site.sql(
        "SELECT email, detail ->> 'decision', doc_ids::text[] FROM audit_log WHERE action = 'question_decided'"
    )
    assert audited == [(CURATOR, "propose", [both])] * 2


def test_older_feedback_is_on_the_next_page(running: Running, site: Site) -> None:
    for number in range(51):
        rated(site, ANN, f"Question {number}?")
    page = shown(running)
    assert len(page.css("tbody tr")) == 50
    older = page.css_first("a.button.quiet").attributes["href"] or ""
    assert [one.text() for one in shown(running, older).css("tbody tr td:first-child")] == ["Question 0? no data found"]
    assert running.http.get("/admin/feedback?cursor=x", headers=site.session(CURATOR)).status_code == 400


def test_take_downs_name_people_and_ids_and_no_titles(running: Running, site: Site) -> None:
    files = {"file": ("Sandpiper.txt", b"The plan of Sandpiper.", "text/plain")}
    document = running.request("POST", "/api/upload", ANN, files=files).json()["doc_id"]
    assert "Nothing was taken down" in shown(running, "/admin/take-downs").css_first("main").text()
    assert running.request("DELETE", f"/api/documents/{document}", CURATOR).status_code == 200
    running.settle()
    (row,) = shown(running, "/admin/take-downs").css("tbody tr")
    assert [one.text() for one in row.css("td")][:3] == [document, ANN, CURATOR]
