"""Conversations about the sample company without a language model: what the last question of each is answered with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from orchestration.demo import sample
from tests.fixtures.company import Company
from tests.fixtures.serving import Running, Site

pytestmark = pytest.mark.xdist_group("company")

CARRIED = "How many unused holidays may I carry over to the next year?"
OFFER = "What do we offer for StreamSight?"
WARRANTY = "How long is the warranty on a gateway?"
LEAVE = "How much parental leave does each parent get?"
DISCOUNTS = "company/sales/discount-approval.txt"


@pytest.fixture(scope="module")
def quoting(company: Company, bundled_model: Any) -> Iterator[Running]:
    settings = company.settings.model_copy(update={"llm_model": None, "search_rate_limit": 1_000_000})
    with Site(settings, bundled_model).running() as running:
        yield running


def talk(running: Running, *questions: str, selected: dict[str, str] | None = None) -> dict[str, Any]:
    """Ask one question after the other as Helen, the last one about a selection if there is one; return the last answer."""
    helen = sample.people()["helen"]
    history: list[dict[str, str]] = []
    answer: dict[str, Any] = {}
    for question in questions:
        body = {"query": question, "conversation_history": history}
        if selected is not None and question == questions[-1]:
            body["selection"] = selected
        response = running.request("POST", "/api/ask", helen.email, *helen.groups, json=body)
        assert response.status_code == 200, response.text
        answer = response.json()
        history += [{"role": "user", "content": question}, {"role": "assistant", "content": answer["answer"]}]
    return answer


@pytest.mark.parametrize(
    ("questions", "phrase"),
    [
        ((CARRIED, "By when must they be taken?"), "by the end of April"),
        ((CARRIED, "Are they ever paid out?"), "never paid out"),
        ((CARRIED, "By when must they be taken?", "And if I was ill?"), "unless you were ill"),
        ((CARRIED, "What happens when I am ill?"), "Tell your lead by 09:30"),
        ((CARRIED, "What does a Kingfisher gateway with satellite cost?"), "Kingfisher gateway, satellite"),
        ((OFFER, "Where does the money come from?"), "The bank has confirmed a loan"),
        ((OFFER, "Who founded it?"), "Aino"),
        ((OFFER, "And what are the risks?"), "patents"),
        ((OFFER, "When does the board vote on it?"), "28 August"),
        (("What is the allowance for a week as primary on call?", "What about public holidays?"), "150 euros"),
        ((WARRANTY, "And on batteries?"), "one year for batteries"),
        ((WARRANTY, "What about lightning?"), "Damage by lightning"),
        (("Who has exclusive rights for Norway north of Trondheim?", "And in the Netherlands?"), "Rijnmeet BV"),
        ((LEAVE, "How early must I tell my lead?"), "ten weeks before"),
        ((LEAVE, "And for adoption?"), "Adoption"),
        (("Who reports a lost key?", "Where is the canteen?"), "canteen"),
    ],
)
def test_a_follow_up_is_answered_in_the_first_quote(quoting: Running, questions: tuple[str, ...], phrase: str) -> None:
    answer = talk(quoting, *questions)
    assert phrase in answer["sentences"][0]["text"], answer["answer"]


def test_the_amount_of_an_offer_is_quoted_after_a_question_about_it(quoting: Running) -> None:
    """The revenue of the company on offer is an amount as well: which comes first depends on the processor's vectors."""
    answer = talk(quoting, OFFER, "How much is it?")
    assert "6.8 million" in answer["answer"]


@pytest.mark.parametrize(
    "questions",
    [
        (CARRIED, "What is the capital of France?"),
        (CARRIED, "And what is the capital of France?"),
        (CARRIED, "And the capital of France?"),
        (CARRIED, "Who wrote The Brothers Karamazov?"),
        ("How much of the revenue of 2025 came from subscriptions?", "And in 2019?"),
    ],
)
def test_what_no_document_answers_is_never_sure_whatever_came_before(
    quoting: Running, questions: tuple[str, ...]
) -> None:
    answer = talk(quoting, *questions)
    assert not answer["found"] or "uncertain" in [warning["code"] for warning in answer["warnings"]], answer["answer"]


def test_a_question_of_its_own_does_not_repeat_the_last_quotes(quoting: Running) -> None:
    first, last = talk(quoting, CARRIED), talk(quoting, CARRIED, "What is the capital of France?")
    assert (last["standalone"], set(first["answer"].split("\n")) & set(last["answer"].split("\n"))) == (None, set())


@pytest.mark.parametrize(
    ("before", "question", "text", "phrase"),
    [
        (None, "What does this mean?", "a lighthouse customer", "agrees to be named"),
        (WARRANTY, "Who approves this?", "More than 20 per cent", "the chief executive alone"),
    ],
)
def test_a_question_about_a_selection_is_about_the_selection(
    quoting: Running, company: Company, before: str | None, question: str, text: str, phrase: str
) -> None:
    selected = {"document_id": company.doc_id(DISCOUNTS), "text": text}
    answer = talk(quoting, *[before] * (before is not None), question, selected=selected)
    assert phrase in answer["sentences"][0]["text"], answer["answer"]
