"""The sample company's questions answered: what has an answer is answered from its document, what has none is "No data found"."""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestration.demo import sample
from orchestration.demo import walkthrough as demo
from tests.fixtures import llm, sample_questions
from tests.fixtures.company import Company
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.xdist_group("company")

ROOT = Path(__file__).parents[2]
PEOPLE = sample.people()
QUESTIONS = [*sample.questions(), *sample.questions(more=True)]
ANSWERABLE = [one for one in QUESTIONS if one.source_id is not None]
UNANSWERABLE = [one for one in QUESTIONS if one.source_id is None]


UNSETTLED = {
    "Do we reward people who find vulnerabilities?",
    "How much do I get for driving my own vehicle on business?",
    "What do I get if I recommend a friend for a job?",
    "Where do I find a bandage?",
    "Whom can I turn to if my boss bullies me?",
}
"""Questions whose evidence is within 0.06 of the gate. Cosines differ by some hundredths between processors, so that one machine answers
these in quotes and another one says that it found nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def running(company: Company, bundled_model: Any, server: ModelServer) -> Iterator[Running]:
    """A second app over the same Postgres and index, with a language model."""
    wanted = {"llm_model": "stand-in", "llm_base_url": server.url, "answer_cache_seconds": 0}
    with Site(company.settings.model_copy(update=wanted), bundled_model).running() as running:
        yield running


@pytest.fixture(scope="module")
def quoting(company: Company, bundled_model: Any) -> Iterator[Running]:
    """A second app over the same Postgres and index, without a language model."""
    wanted = {"llm_model": None, "search_rate_limit": 1_000_000}
    with Site(company.settings.model_copy(update=wanted), bundled_model).running() as running:
        yield running


def ask(running: Running, person: str, question: str) -> dict[str, Any]:
    one = PEOPLE[person]
    response = running.request("POST", "/api/ask", one.email, *one.groups, json={"query": question})
    assert response.status_code == 200, response.text
    return response.json()


def test_at_least_48_of_50_are_answered_from_their_document(running: Running, server: ModelServer) -> None:
    server.manner = llm.well
    missed: list[str] = []
    for one in ANSWERABLE:
        answer = ask(running, one.may[0], one.question)
        found = [source["source_id"] for source in answer["sources"]]
        assert [source_id for source_id in found if not PEOPLE[one.may[0]].reads(source_id)] == []
        if one.source_id not in found:
            missed.append(one.question)
    assert len(ANSWERABLE) == 50
    assert len(missed) <= 2, missed


@pytest.mark.parametrize("person", [name for name in PEOPLE if name != "rey"])
def test_what_no_document_is_about_is_not_found_and_no_model_is_called(
    running: Running, server: ModelServer, person: str
) -> None:
    before = len(server.requests)
    for question in (
        "How do I bake sourdough bread?",
        "How do I teach my dog to sit?",
        "What are the side effects of ibuprofen?",
    ):
        answer = ask(running, person, question)
        assert (answer["answer"], answer["found"]) == ("No data found", False), question
    assert len(server.requests) == before


def test_paraphrases_are_answered_in_quotes_and_what_no_document_answers_comes_with_a_warning(
    quoting: Running,
) -> None:
    asked = sample_questions.paraphrased()
    refused = {one.question for one in asked if not ask(quoting, one.may[0], one.question)["found"]}
    assert len(asked) >= 60
    assert {one.question for one in asked} > UNSETTLED
    assert refused - UNSETTLED == set()
    unanswerable = [*UNANSWERABLE, *sample_questions.unanswerable()]
    surely: set[str] = set()
    for one in unanswerable:
        answer = ask(quoting, "helen", one.question)
        if answer["found"] and "uncertain" not in [warning["code"] for warning in answer["warnings"]]:
            surely.add(one.question)
    assert len(unanswerable) >= 60
    # 3 to 10 of 64, and others on each processor, since cosines differ by some hundredths
    assert len(surely) <= len(unanswerable) / 4, surely


def test_the_answers_that_the_demonstration_prints_are_right(quoting: Running) -> None:
    shown = sample.answered()
    assert len({one.source for one in shown}) == 3
    for one, person in itertools.product(shown, demo.USERS):
        answer = ask(quoting, person, one.question)
        lines = demo.answer_lines(
            Console(file=io.StringIO()), outcome := demo.DemoReport(), PEOPLE[person], one, answer
        )
        assert outcome.faults == []
        if person in one.may:
            assert str(one.phrase) in " ".join(lines), (person, lines)
            assert {warning["code"] for warning in answer["warnings"]} <= {"uncertain"}, (person, lines)
        else:
            assert (lines[0].startswith("[yellow]withheld"), str(one.phrase) in answer["answer"]) == (True, False)


def test_the_question_that_the_documents_recommend_is_answered(quoting: Running) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    recommended = {*re.findall(r'ask_stream\("(.+?)"\)', readme), *(one.question for one in sample.TRIES)}
    asked = {one.question: one for one in (*QUESTIONS, *sample.questions_of_sources())}
    for question in recommended:
        answer = ask(quoting, "helen", question)
        assert (str(asked[question].phrase) in answer["sentences"][0]["text"], answer["warnings"]) == (True, []), (
            question
        )


def test_who_may_not_read_it_is_not_told(running: Running) -> None:
    assert {one.question for one in sample.questions()} <= {one.question for one in ANSWERABLE}
    for one in ANSWERABLE:
        for person in one.may_not:
            found = [source["source_id"] for source in ask(running, person, one.question)["sources"]]
            assert [source_id for source_id in found if not PEOPLE[person].reads(source_id)] == []


def test_of_a_hundred_answers_by_a_model_that_cites_badly_every_false_sentence_is_marked(
    running: Running, server: ModelServer, company: Company
) -> None:
    server.manner = llm.badly
    asked = [(one.may[index % len(one.may)], one.question) for one in ANSWERABLE for index in (0, 1)]
    given: list[str] = []
    for person, question in asked:
        answer = ask(running, person, question)
        given.append(answer["answer_id"])
        if answer["mode"] != "model":  # it had no true sentence to say, so all that it said is replaced by quotes
            assert llm.whole_sentences(server.prompts[-1]) == [], question
            continue
        supported = [sentence["text"] for sentence in answer["sentences"] if sentence["supported"]]
        assert supported == [answer["sentences"][0]["text"]], question  # whichever source the sentence is from
        assert (answer["mode"], len(answer["sentences"]), answer["removed_citations"]) == ("model", 7, 2), question
    assert len(asked) == 100
    one = PEOPLE["helen"]
    last = ask(running, "helen", QUESTIONS[0].question)
    kept = running.request("GET", f"/api/answers/{last['answer_id']}", one.email, *one.groups)
    assert kept.status_code == 200
    running.settle()
    rows = company.rows("SELECT answer_id::text FROM answers WHERE answer_id = ANY(%s::uuid [])", given)
    assert {row["answer_id"] for row in rows} == set(given)
    assert len(rows) == len(asked)
