"""Measure recall and permission leaks of the active index with the question set.

Each question runs through the production retriever as its user, including the permission check in Postgres. A leak is a document
that the user must never find but does, or one that is shown without read permission in the registry. Every run is stored with the
result of each question in `evaluations` and `evaluation_results`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from datetime import datetime
from statistics import fmean
from typing import NamedTuple

import msgspec

from assets.index.targets import Target, target
from orchestration.evaluation.measures import QueryScores, score
from orchestration.evaluation.question_set import StoredQuestion, stored
from orchestration.evaluation.runner import DEPTH, EvaluationQuestion, QuestionResult, QuestionRunner, question_runner
from resources.core.errors import NotRunningError
from resources.settings import Settings
from resources.stores.postgres import Connection
from sql.questions import Questions, Run, SavedRun
from sql.sync import Collections


class RelevanceMetrics(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"recall_5": "recall@5", "recall_10": "recall@10", "ndcg_10": "ndcg@10"},
):
    """Means over the questions with documents to find (None: there are none), and the number of leaks."""

    questions: int
    recall_5: float | None
    recall_10: float | None
    ndcg_10: float | None
    mrr: float | None
    never: int
    """Questions whose documents must not be found."""
    leaks: int


class QuestionFault(msgspec.Struct, frozen=True, kw_only=True, rename={"email": "as"}):
    """A question with leaked documents, or with documents missing from the first ten."""

    id: int
    question: str
    email: str
    documents: list[str]
    """By source id."""
    reason: str


class PreviousEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """The run before this one, for comparison."""

    at: datetime
    model: str
    figures: RelevanceMetrics


class RelevanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an evaluation. `passed` means no leaks, and recall@10 not below the floor."""

    evaluation_id: int | None
    """None if there were no questions, so that nothing was stored."""
    at: datetime | None
    collection: str
    model: str
    figures: RelevanceMetrics
    personas: dict[str, RelevanceMetrics]
    leaks: list[QuestionFault]
    missed: list[QuestionFault]
    held_back: int
    """Questions whose results omit documents because their permissions were last checked too long ago."""
    floor: float
    above_floor: bool
    passed: bool
    previous: PreviousEvaluation | None


class QuestionOutcome(NamedTuple):
    """The result of one question, its scores (None for a `never` question) and its leaked documents."""

    stored: StoredQuestion
    asked: EvaluationQuestion
    result: QuestionResult
    scores: QueryScores | None
    leaked: frozenset[str]


def evaluate(settings: Settings, connection: Connection) -> RelevanceReport:
    """Run every accepted question against the active index, store the results and return a report.

    Raises `NotRunningError` if there is no index yet, and `ServiceUnavailableError` if a store does not respond.
    """
    questions = stored(connection, accepted=True)
    row = Collections(connection).active_collection()
    if row is None and questions:
        raise NotRunningError("There is no index yet. Run a sync first: concordance sync files --wait")
    before = Questions(connection).last_run()
    outcomes: list[QuestionOutcome] = []
    if row is not None and questions:
        active = target(settings, row, active=True)
        outcomes = asyncio.run(_run(settings, connection, active, questions))
    whole = metrics(outcomes)
    above = whole.recall_10 is None or whole.recall_10 >= settings.evaluation_floor
    collection, model = (row.name, row.model) if row is not None else ("", "")
    saved = _save(connection, outcomes, whole, collection, model) if outcomes else None
    by_user: dict[str, list[QuestionOutcome]] = defaultdict(list)
    for one in outcomes:
        by_user[one.stored.email].append(one)
    return RelevanceReport(
        evaluation_id=None if saved is None else saved.evaluation_id,
        at=None if saved is None else saved.at,
        collection=collection,
        model=model,
        figures=whole,
        personas={email: metrics(by_user[email]) for email in sorted(by_user)},
        leaks=[_leak(connection, one) for one in outcomes if one.leaked],
        missed=[_miss(connection, one) for one in outcomes if _missing(one)],
        held_back=sum(one.result.held_back > 0 for one in outcomes),
        floor=settings.evaluation_floor,
        above_floor=above,
        passed=above and not whole.leaks,
        previous=None if before is None else _previous(before),
    )


def metrics(outcomes: Sequence[QuestionOutcome]) -> RelevanceMetrics:
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


async def _run(
    settings: Settings, connection: Connection, active: Target, questions: Sequence[StoredQuestion]
) -> list[QuestionOutcome]:
    async with question_runner(settings) as runner:
        return await outcomes_of(connection, runner, active, questions)


async def outcomes_of(
    connection: Connection, runner: QuestionRunner, index: Target, questions: Sequence[StoredQuestion]
) -> list[QuestionOutcome]:
    """Run questions against an index, and return what each found and leaked."""
    asked = [await _evaluation_question(runner, one) for one in questions]
    results = await runner.run(index, asked)
    shown_wrongly = shown_without_permission(connection, asked, results)
    if shown_wrongly:
        # A permission revoked between the search and this check is not a leak, so the search is repeated.
        again = [one for one in asked if one.id in shown_wrongly]
        shown_wrongly = shown_without_permission(connection, again, await runner.run(index, again))
    wanted = [one for one in zip(asked, results, strict=True) if not one[0].never]
    scores = score(
        {one.id: dict.fromkeys(one.documents, 1) for one, _ in wanted},
        {one.id: result.ranking(one.documents) for one, result in wanted},
    )
    return [
        QuestionOutcome(
            question,
            one,
            result,
            scores.get(one.id),
            frozenset(shown_wrongly.get(one.id, set()) | (result.shown() & one.documents if one.never else set())),
        )
        for question, one, result in zip(questions, asked, results, strict=True)
    ]


async def _evaluation_question(runner: QuestionRunner, question: StoredQuestion) -> EvaluationQuestion:
    return EvaluationQuestion(
        id=str(question.id),
        text=question.question,
        documents=frozenset(document.doc_id for document in question.documents),
        access=await runner.access(question.email, question.groups),
        never=question.never,
    )


def shown_without_permission(
    connection: Connection, asked: Sequence[EvaluationQuestion], results: Sequence[QuestionResult]
) -> dict[str, set[str]]:
    """Return the documents shown to users without read permission in the registry, by question."""
    found = {one.id: _unreadable(connection, result.shown(), one) for one, result in zip(asked, results, strict=True)}
    return {question: documents for question, documents in found.items() if documents}


def _unreadable(connection: Connection, doc_ids: Set[str], asked: EvaluationQuestion) -> set[str]:
    return set(Questions(connection).unreadable(doc_ids=sorted(doc_ids), principals=sorted(asked.access.principals)))


def _save(
    connection: Connection, outcomes: Sequence[QuestionOutcome], whole: RelevanceMetrics, collection: str, model: str
) -> SavedRun:
    registry, numbers = Questions(connection), msgspec.structs.asdict(whole)
    saved = registry.save_run(collection=collection, model=model, **numbers)
    rows = [
        {
            "question_id": one.stored.id,
            "rank": _rank(one),
            "recall_10": None if one.scores is None else one.scores.recall_10,
            "leaked": sorted(one.leaked),
        }
        for one in outcomes
    ]
    registry.save_results(evaluation_id=saved.evaluation_id, rows=rows)
    return saved


def _rank(one: QuestionOutcome) -> int | None:
    ranking = one.result.ranking(one.asked.documents)
    return next((rank for rank, doc_id in enumerate(ranking, start=1) if doc_id in one.asked.documents), None)


def _leak(connection: Connection, one: QuestionOutcome) -> QuestionFault:
    unreadable = _unreadable(connection, one.leaked, one.asked)
    reason = "was shown without read permission" if unreadable else "must never be found, but was"
    return _fault(connection, one, one.leaked, reason)


def _missing(one: QuestionOutcome) -> frozenset[str]:
    return frozenset() if one.asked.never else one.asked.documents - one.result.shown()


def _miss(connection: Connection, one: QuestionOutcome) -> QuestionFault:
    missing = _missing(one)
    unreadable = _unreadable(connection, missing, one.asked)
    reason = f"is deleted, or {one.stored.email} may not read it" if unreadable else f"is not in the top {DEPTH}"
    return _fault(connection, one, missing, reason)


def _fault(connection: Connection, one: QuestionOutcome, doc_ids: Set[str], reason: str) -> QuestionFault:
    return QuestionFault(
        id=one.stored.id,
        question=one.stored.question,
        email=one.stored.email,
        documents=Questions(connection).names(doc_ids=sorted(doc_ids)),
        reason=reason,
    )


def _previous(run: Run) -> PreviousEvaluation:
    figures = msgspec.convert(run, RelevanceMetrics, from_attributes=True)
    return PreviousEvaluation(at=run.at, model=run.model, figures=figures)
