"""The question set, asked of two collections before one takes the other's place: which documents are found, and how high.

The company's own questions are asked as the people they name, those whose documents that person may read today. Without any,
titles of documents stand in for questions: less than what people ask, but a model that loses documents shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from assets.index.targets import Target
from assets.stages.measure_ranking import score
from orchestration.asking import EvaluationQuestion, QuestionResult, QuestionRunner, question_runner
from orchestration.question_set import StoredQuestion, stored
from resources.core.domain import Access
from resources.settings import Settings
from resources.stores.postgres import Connection
from serving.schemas import MAX_QUERY
from sql import queries

TITLES = 100
"""Titles that are asked for where there is no question set."""
READER = "reindex@localhost"

registry = queries("registry")


class Score(msgspec.Struct, frozen=True, rename={"recall": "recall@10"}):
    """How a collection did: the share of documents that are among the first ten, and the mean of 1 / the first one's place."""

    recall: float
    mrr: float


class ModelComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both collections beside each other."""

    questions: int
    from_titles: bool
    active: Score
    new: Score
    loss: float
    """The larger fall of the two figures, 0 when neither fell."""
    passed: bool


def compare(settings: Settings, connection: Connection, active: Target, made: Target) -> ModelComparison:
    """Ask both collections everything. Raises `ServiceUnavailableError` when one of them does not answer."""
    questions = [one for one in stored(connection, accepted=True) if not one.never]
    return asyncio.run(_compare(settings, connection, questions, active, made))


async def _compare(
    settings: Settings, connection: Connection, questions: Sequence[StoredQuestion], active: Target, made: Target
) -> ModelComparison:
    # permissions are those of the registry as it stands: when they were last checked decides nothing here
    async with question_runner(settings.model_copy(update={"acl_max_age": "3650d"})) as runner:
        named = await _named(connection, runner, questions)
        asked = named or _titles(connection)
        before, after = [_score(asked, await runner.ask(one, asked)) for one in (active, made)]
    loss = max(0.0, before.recall - after.recall, before.mrr - after.mrr)
    return ModelComparison(
        questions=len(asked),
        from_titles=not named,
        active=before,
        new=after,
        loss=round(loss, 4),
        passed=loss <= settings.reindex_max_loss,
    )


async def _named(
    connection: Connection, runner: QuestionRunner, questions: Sequence[StoredQuestion]
) -> list[EvaluationQuestion]:
    asked: list[EvaluationQuestion] = []
    for one in questions:
        access = await runner.access(one.email, one.groups)
        wanted = {document.doc_id for document in one.documents}
        gone = queries("questions").unreadable(connection, doc_ids=sorted(wanted), principals=sorted(access.principals))
        if readable := wanted - {row["doc_id"] for row in gone}:
            asked.append(
                EvaluationQuestion(id=str(one.id), text=one.question, documents=frozenset(readable), access=access)
            )
    return asked


def _titles(connection: Connection) -> list[EvaluationQuestion]:
    rows: Sequence[Mapping[str, Any]] = list(registry.readable_sample(connection, most=TITLES))
    return [
        EvaluationQuestion(
            id=row["doc_id"],
            text=row["title"][:MAX_QUERY],
            documents=frozenset({row["doc_id"]}),
            access=Access(email=READER, principals=frozenset(row["permissions"])),
        )
        for row in rows
    ]


def _score(asked: Sequence[EvaluationQuestion], answers: Sequence[QuestionResult]) -> Score:
    judgements = {one.id: dict.fromkeys(one.documents, 1) for one in asked}
    rankings = {one.id: answer.ranking(one.documents) for one, answer in zip(asked, answers, strict=True)}
    scores = score(judgements, rankings).values()
    count = max(1, len(scores))
    return Score(
        recall=round(sum(one.recall_10 for one in scores) / count, 4),
        mrr=round(sum(one.reciprocal_rank for one in scores) / count, 4),
    )
