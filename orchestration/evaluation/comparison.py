"""Compare two collections with the question set before the cutover to another embedding model.

Questions whose documents their user can no longer read are left out. Without a question set, document titles are used as
queries: that is easier than real questions, but still shows a model that loses documents.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from assets.index.targets import Target
from orchestration.evaluation.measures import score
from orchestration.evaluation.question_set import StoredQuestion, stored
from orchestration.evaluation.relevance import outcomes_of
from orchestration.evaluation.runner import EvaluationQuestion, QuestionResult, QuestionRunner, question_runner
from resources.core.domain import Access
from resources.embedding.cross_encoder import CrossEncoder
from resources.settings import Settings
from resources.stores.postgres import Connection
from serving.search.retrieval.query import MAX_QUERY
from serving.search.retrieval.rerank import Reranker
from sql.questions import Questions
from sql.sync import Collections

TITLES = 100
"""Number of titles used as queries if there is no question set."""
READER = "reindex@localhost"


class Score(msgspec.Struct, frozen=True, rename={"recall": "recall@10"}):
    """Share of documents found in the first ten, and mean reciprocal rank of the first one."""

    recall: float
    mrr: float


class ModelComparison(msgspec.Struct, frozen=True, kw_only=True):
    questions: int
    from_titles: bool
    active: Score
    new: Score
    loss: float
    """The larger decrease of the two scores; 0 if neither decreased."""
    leaks: dict[str, int]
    """Questions whose results in the new index contain documents that must not be found, by the person as whom they were asked."""
    passed: bool


def compare(settings: Settings, connection: Connection, active: Target, made: Target) -> ModelComparison:
    """Run the questions against both collections. Raises `ServiceUnavailableError` if one does not respond."""
    questions = stored(connection, accepted=True)
    return asyncio.run(_compare(settings, connection, questions, active, made))


async def _compare(
    settings: Settings, connection: Connection, questions: Sequence[StoredQuestion], active: Target, made: Target
) -> ModelComparison:
    async with question_runner(_ageless(settings)) as runner:
        readable = await _readable(connection, runner, [one for one in questions if not one.never])
        asked = readable or _titles(connection)
        before, after = [_score(asked, await runner.run(one, asked)) for one in (active, made)]
        outcomes = await outcomes_of(connection, runner, made, questions)
    leaks = Counter(one.stored.email for one in outcomes if one.leaked)
    return _verdict(settings, asked, before, after, from_titles=not readable, leaks=leaks)


def compare_reranker(
    settings: Settings, connection: Connection, active: Target, reranker: CrossEncoder, threshold: float
) -> ModelComparison:
    """Run the questions without a reranker and with this one. Raises `ServiceUnavailableError` if the index does not respond."""
    questions = [one for one in stored(connection, accepted=True) if not one.never]
    return asyncio.run(_compare_reranker(settings, connection, questions, active, reranker, threshold))


async def _compare_reranker(
    settings: Settings,
    connection: Connection,
    questions: Sequence[StoredQuestion],
    active: Target,
    reranker: CrossEncoder,
    threshold: float,
) -> ModelComparison:
    scorer = Reranker(lambda: reranker, settings.rerank_depth, threshold)
    await scorer.start()
    async with question_runner(_ageless(settings)) as runner:
        readable = await _readable(connection, runner, questions)
        asked = readable or _titles(connection)
        before, after = [_score(asked, await runner.run(active, asked, one)) for one in (None, scorer)]
    return _verdict(settings, asked, before, after, from_titles=not readable)


def _ageless(settings: Settings) -> Settings:
    """Return the settings without a limit on the age of permissions, which are the same for both sides of a comparison."""
    return settings.model_copy(update={"acl_max_age": "3650d"})


def _verdict(
    settings: Settings,
    asked: Sequence[EvaluationQuestion],
    before: Score,
    after: Score,
    *,
    from_titles: bool,
    leaks: Mapping[str, int] | None = None,
) -> ModelComparison:
    loss = max(0.0, before.recall - after.recall, before.mrr - after.mrr)
    return ModelComparison(
        questions=len(asked),
        from_titles=from_titles,
        active=before,
        new=after,
        loss=round(loss, 4),
        leaks=dict(leaks or {}),
        passed=loss <= settings.reindex_max_loss and not leaks,
    )


async def _readable(
    connection: Connection, runner: QuestionRunner, questions: Sequence[StoredQuestion]
) -> list[EvaluationQuestion]:
    asked: list[EvaluationQuestion] = []
    for one in questions:
        access = await runner.access(one.email, one.groups)
        wanted = {document.doc_id for document in one.documents}
        gone = Questions(connection).unreadable(doc_ids=sorted(wanted), principals=sorted(access.principals))
        if readable := wanted - set(gone):
            asked.append(
                EvaluationQuestion(id=str(one.id), text=one.question, documents=frozenset(readable), access=access)
            )
    return asked


def _titles(connection: Connection) -> list[EvaluationQuestion]:
    rows = Collections(connection).readable_sample(most=TITLES)
    return [
        EvaluationQuestion(
            id=row.doc_id,
            text=row.title[:MAX_QUERY],
            documents=frozenset({row.doc_id}),
            access=Access(email=READER, principals=frozenset(row.permissions)),
        )
        for row in rows
    ]


def _score(asked: Sequence[EvaluationQuestion], results: Sequence[QuestionResult]) -> Score:
    judgements = {one.id: dict.fromkeys(one.documents, 1) for one in asked}
    rankings = {one.id: result.ranking(one.documents) for one, result in zip(asked, results, strict=True)}
    scores = score(judgements, rankings).values()
    count = max(1, len(scores))
    return Score(
        recall=round(sum(one.recall_10 for one in scores) / count, 4),
        mrr=round(sum(one.reciprocal_rank for one in scores) / count, 4),
    )
