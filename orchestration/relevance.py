"""Does search still find things, and only for whom they are meant? The question set enters; recall and leaks by person leave.

Each question is asked of the active index as its person, by the production retriever with its recheck in Postgres. A leak is a
document that somebody must never find and finds, or one that is shown without a right in the registry. Every run is kept, with
what each question found, in `evaluations` and `evaluation_results`.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from assets.index.targets import Target, target
from assets.stages.measure_ranking import QueryScores, score
from orchestration.asking import DEPTH, EvaluationQuestion, QuestionResult, QuestionRunner, question_runner
from orchestration.question_set import StoredQuestion, stored
from resources.core.errors import NotRunningError
from resources.settings import Settings
from resources.stores.postgres import Connection
from sql import queries

registry = queries("questions")


class RelevanceMetrics(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"recall_5": "recall@5", "recall_10": "recall@10", "ndcg_10": "ndcg@10"},
):
    """Means over the questions that name a document to find (None: there are none), and the leaks of all questions."""

    questions: int
    recall_5: float | None
    recall_10: float | None
    ndcg_10: float | None
    mrr: float | None
    never: int
    """Questions whose documents must not be found."""
    leaks: int


class QuestionFault(msgspec.Struct, frozen=True, kw_only=True, rename={"email": "as"}):
    """A question with something wrong: documents that were shown and should not be, or that were not among the first ten."""

    id: int
    question: str
    email: str
    documents: list[str]
    """By source id."""
    reason: str


class PreviousEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The run before, to see where it is going."""

    at: datetime
    model: str
    figures: RelevanceMetrics


class RelevanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation found. `passed`: nothing leaked, and recall@10 is not below the floor."""

    evaluation_id: int | None
    """None: there were no questions, so nothing was kept."""
    at: datetime | None
    collection: str
    model: str
    figures: RelevanceMetrics
    personas: dict[str, RelevanceMetrics]
    leaks: list[QuestionFault]
    missed: list[QuestionFault]
    held_back: int
    """Answers that left documents out because their permissions were last checked too long ago."""
    floor: float
    above_floor: bool
    passed: bool
    previous: PreviousEvaluation | None


class QuestionOutcome(NamedTuple):
    """One question asked: what it found is worth (None: it must never find anything), and what it must not have shown."""

    stored: StoredQuestion
    asked: EvaluationQuestion
    answer: QuestionResult
    scores: QueryScores | None
    leaked: frozenset[str]


def evaluate(settings: Settings, connection: Connection) -> RelevanceReport:
    """Ask every accepted question of the active index, keep what was found, and report.

    Raises `NotRunningError` when there is no index yet, `ServiceUnavailableError` when a part of it does not answer.
    """
    questions = stored(connection, accepted=True)
    row = queries("registry").active_collection(connection)
    if row is None and questions:
        raise NotRunningError("There is no index yet to ask. Run a sync first: concordance sync files --wait")
    before = registry.last_run(connection)
    outcomes: list[QuestionOutcome] = []
    if row is not None and questions:
        active = target(settings, row, active=True)
        outcomes = asyncio.run(_ask(settings, connection, active, questions))
    whole = figures(outcomes)
    above = whole.recall_10 is None or whole.recall_10 >= settings.evaluation_floor
    collection, model = (row["name"], row["model"]) if row is not None else ("", "")
    kept = _keep(connection, outcomes, whole, collection, model) if outcomes else None
    by_person: dict[str, list[QuestionOutcome]] = defaultdict(list)
    for one in outcomes:
        by_person[one.stored.email].append(one)
    return RelevanceReport(
        evaluation_id=None if kept is None else kept["evaluation_id"],
        at=None if kept is None else kept["at"],
        collection=collection,
        model=model,
        figures=whole,
        personas={email: figures(by_person[email]) for email in sorted(by_person)},
        leaks=[_leak(connection, one) for one in outcomes if one.leaked],
        missed=[_miss(connection, one) for one in outcomes if _missing(one)],
        held_back=sum(one.answer.held_back > 0 for one in outcomes),
        floor=settings.evaluation_floor,
        above_floor=above,
        passed=above and not whole.leaks,
        previous=None if before is None else _previous(before),
    )


def figures(outcomes: Sequence[QuestionOutcome]) -> RelevanceMetrics:
    """Return the means and counts of some questions."""
    scores = [one.scores for one in outcomes if one.scores is not None]

    def mean(pick: Callable[[QueryScores], float]) -> float | None:
        return round(fmean(pick(one) for one in scores), 4) if scores else None

    return RelevanceMetrics(
        questions=len(scores),
        recall_5=mean(lambda one: one.recall_5),
        recall_10=mean(lambda one: one.recall_10),
        ndcg_10=mean(lambda one: one.ndcg_10),
        mrr=mean(lambda one: one.reciprocal_rank),
        never=len(outcomes) - len(scores),
        leaks=sum(bool(one.leaked) for one in outcomes),
    )


async def _ask(
    settings: Settings, connection: Connection, active: Target, questions: Sequence[StoredQuestion]
) -> list[QuestionOutcome]:
    async with question_runner(settings) as runner:
        asked = [await _evaluation_question(runner, one) for one in questions]
        answers = await runner.ask(active, asked)
        shown_wrongly = shown_without_right(connection, asked, answers)
        if shown_wrongly:
            # a right that was taken away between the answer and this look is no leak: what stays when it is asked again is
            again = [one for one in asked if one.id in shown_wrongly]
            shown_wrongly = shown_without_right(connection, again, await runner.ask(active, again))
    wanted = [one for one in zip(asked, answers, strict=True) if not one[0].never]
    scores = score(
        {one.id: dict.fromkeys(one.documents, 1) for one, _ in wanted},
        {one.id: answer.ranking(one.documents) for one, answer in wanted},
    )
    return [
        QuestionOutcome(
            question,
            one,
            answer,
            scores.get(one.id),
            frozenset(shown_wrongly.get(one.id, set()) | (answer.shown() & one.documents if one.never else set())),
        )
        for question, one, answer in zip(questions, asked, answers, strict=True)
    ]


async def _evaluation_question(runner: QuestionRunner, question: StoredQuestion) -> EvaluationQuestion:
    return EvaluationQuestion(
        id=str(question.id),
        text=question.question,
        documents=frozenset(document.doc_id for document in question.documents),
        access=await runner.access(question.email, question.groups),
        never=question.never,
    )


def shown_without_right(
    connection: Connection, asked: Sequence[EvaluationQuestion], answers: Sequence[QuestionResult]
) -> dict[str, set[str]]:
    """Return the documents that were shown without a right in the registry, by question."""
    found = {one.id: _unreadable(connection, answer.shown(), one) for one, answer in zip(asked, answers, strict=True)}
    return {question: documents for question, documents in found.items() if documents}


def _unreadable(connection: Connection, doc_ids: Set[str], asked: EvaluationQuestion) -> set[str]:
    rows = registry.unreadable(connection, doc_ids=sorted(doc_ids), principals=sorted(asked.access.principals))
    return {row["doc_id"] for row in rows}


def _keep(
    connection: Connection, outcomes: Sequence[QuestionOutcome], whole: RelevanceMetrics, collection: str, model: str
) -> Mapping[str, Any]:
    numbers = msgspec.structs.asdict(whole)
    kept = registry.save_run(connection, collection=collection, model=model, **numbers)
    rows = [
        {
            "question_id": one.stored.id,
            "rank": _rank(one),
            "recall_10": None if one.scores is None else one.scores.recall_10,
            "leaked": sorted(one.leaked),
        }
        for one in outcomes
    ]
    registry.save_results(connection, evaluation_id=kept["evaluation_id"], rows=msgspec.json.encode(rows).decode())
    return kept


def _rank(one: QuestionOutcome) -> int | None:
    ranking = one.answer.ranking(one.asked.documents)
    return next((place for place, doc_id in enumerate(ranking, start=1) if doc_id in one.asked.documents), None)


def _leak(connection: Connection, one: QuestionOutcome) -> QuestionFault:
    without_right = _unreadable(connection, one.leaked, one.asked)
    reason = "was shown without a right to it" if without_right else "must never be found, and was"
    return _finding(connection, one, one.leaked, reason)


def _missing(one: QuestionOutcome) -> frozenset[str]:
    return frozenset() if one.asked.never else one.asked.documents - one.answer.shown()


def _miss(connection: Connection, one: QuestionOutcome) -> QuestionFault:
    missing = _missing(one)
    unreadable = _unreadable(connection, missing, one.asked)
    reason = (
        f"is gone, or {one.stored.email} may not read it" if unreadable else f"is not among the first {DEPTH} documents"
    )
    return _finding(connection, one, missing, reason)


def _finding(connection: Connection, one: QuestionOutcome, doc_ids: Set[str], reason: str) -> QuestionFault:
    rows = registry.names(connection, doc_ids=sorted(doc_ids))
    return QuestionFault(
        id=one.stored.id,
        question=one.stored.question,
        email=one.stored.email,
        documents=[row["name"] for row in rows],
        reason=reason,
    )


def _previous(row: Mapping[str, Any]) -> PreviousEvaluation:
    found = RelevanceMetrics(**{name: row[name] for name in RelevanceMetrics.__struct_fields__})
    return PreviousEvaluation(at=row["at"], model=row["model"], figures=found)
