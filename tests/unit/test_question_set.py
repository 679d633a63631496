"""What an answer is worth, figures over questions, and the sample company's questions: pure parts of the evaluation."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from orchestration.demo import sample
from orchestration.evaluation.measures import QueryScores
from orchestration.evaluation.question_set import StoredQuestion, read
from orchestration.evaluation.relevance import QuestionOutcome, metrics
from orchestration.evaluation.runner import EvaluationQuestion, QuestionResult
from resources.core.domain import Access, SourceName, document_id
from resources.core.errors import InvalidRequestError

ACCESS = Access(email="a@acme.example", principals=frozenset({"a@acme.example"}))


@pytest.mark.parametrize(
    ("wanted", "ranking"),
    [
        ({"a"}, ["a", "c", "d"]),
        ({"b"}, ["b", "c", "d"]),
        ({"a", "b"}, ["a", "b", "c", "d"]),
        ({"x"}, ["a", "c", "d"]),
    ],
)
def test_a_document_behind_the_same_passage_is_found_at_its_place(wanted: set[str], ranking: list[str]) -> None:
    answer = QuestionResult([["a", "b"], ["c"], ["d"]], 0)
    assert answer.ranking(frozenset(wanted)) == ranking
    assert answer.shown() == {"a", "b", "c", "d"}


def outcome(recall: float | None, *leaked: str) -> QuestionOutcome:
    scores = None if recall is None else QueryScores(recall, recall, recall, recall, recall)
    stored = StoredQuestion(
        id=1, question="?", documents=[], email=ACCESS.email, groups=[], never=recall is None, state="accepted",
        origin="command", added_by="a", added_at=datetime.now(UTC),
    )  # fmt: skip
    asked = EvaluationQuestion(id="1", text="?", documents=frozenset(), access=ACCESS)
    return QuestionOutcome(stored, asked, QuestionResult([], 0), scores, frozenset(leaked))


def test_figures_are_means_over_what_should_be_found_and_leaks_over_all() -> None:
    found = metrics([outcome(1), outcome(0, "x"), outcome(None), outcome(None, "y", "z")])
    assert (found.questions, found.never, found.leaks) == (2, 2, 2)
    assert found.recall_5 == found.recall_10 == found.ndcg_10 == found.mrr == 0.5
    nothing = metrics([outcome(None)])
    assert (nothing.questions, nothing.recall_10, nothing.never) == (0, None, 1)


def test_the_sample_asks_everybody_what_they_may_read_or_must_not() -> None:
    by_email = {person.email: person for person in sample.people().values()}
    answers = {
        document_id(one.source, one.source_id): one.source_id
        for one in [*sample.questions(), *sample.questions(more=True), *sample.questions_of_sources()]
        if one.source_id is not None
    }
    entries = list(sample.question_set(list(SourceName)))
    assert {entry.email for entry in entries} == set(by_email)
    for entry in entries:
        (doc_id,) = entry.documents
        assert by_email[entry.email].reads(answers[doc_id]) is not entry.never, entry
    assert len(list(sample.question_set([SourceName.FILES]))) == 100


@pytest.mark.parametrize("content", ["{}", "[{}]", [{"question": "?", "documents": [], "as": "a"}], [{"q": 1}], "no"])
def test_a_file_that_is_no_question_set_is_refused_with_its_form(tmp_path: Path, content: Any) -> None:
    path = tmp_path / "questions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InvalidRequestError, match=r'"documents": \[link or source id\]'):
        read(path)
