"""The question set, asked of two collections by the production retriever: which documents are found, and how high.

A question names the document that answers it and is asked as somebody who may read that document. Without a question set, titles of
documents stand in for questions: less than what people ask, but a model that loses documents shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from assets.targets import Target
from resources import qdrant
from resources.domain import Access
from resources.errors import InvalidRequestError, ServiceUnavailableError
from resources.postgres import Connection
from resources.settings import Settings
from serving.background import Background
from serving.database import Database
from serving.embedding import QueryEmbedder
from serving.metrics import Metrics
from serving.retrieval.engines import Engines
from serving.retrieval.retriever import Retriever
from serving.schemas import MAX_QUERY, SearchRequest
from sql import queries

DEPTH = 10
TITLES = 100
"""Titles that are asked for where there is no question set."""
AT_ONCE = 4
READER = "reindex@localhost"

registry = queries("registry")


class Question(msgspec.Struct, frozen=True):
    """A question, the document that answers it (`source_id` as citations name it), and its source where ids of several are alike."""

    question: str
    source_id: str
    source: str | None = None


class Asked(msgspec.Struct, frozen=True):
    """A question as it is asked: of whom, and what should be found."""

    text: str
    doc_id: str
    principals: frozenset[str]


class Score(msgspec.Struct, frozen=True, rename={"recall": "recall@10"}):
    """How a collection did: the share of questions whose document is among the first ten, and the mean of 1 / its rank."""

    recall: float
    mrr: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Both collections beside each other."""

    questions: int
    from_titles: bool
    active: Score
    new: Score
    loss: float
    """The larger fall of the two figures, 0 when neither fell."""
    passed: bool


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a JSON file. Raises `InvalidRequestError`."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[Question])
    except OSError as error:
        raise InvalidRequestError(f"--questions: cannot read {path}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(
            f"--questions: {path} is no JSON list of objects with question and source_id: {error}"
        ) from error


def compare(
    settings: Settings, connection: Connection, active: Target, made: Target, questions: Sequence[Question]
) -> Verdict:
    """Ask both collections everything. Raises `ServiceUnavailableError` when one of them does not answer."""
    asked = _expected(connection, questions) if questions else _titles(connection)
    before, after = asyncio.run(_scores(settings, asked, (active, made)))
    loss = max(0.0, before.recall - after.recall, before.mrr - after.mrr)
    return Verdict(
        questions=len(asked),
        from_titles=not questions,
        active=before,
        new=after,
        loss=round(loss, 4),
        passed=loss <= settings.reindex_max_loss,
    )


def _expected(connection: Connection, questions: Sequence[Question]) -> list[Asked]:
    rows = list(registry.expected(connection, source_ids=[one.source_id for one in questions]))
    asked = [
        Asked(one.question[:MAX_QUERY], row["doc_id"], frozenset(row["permissions"]))
        for one in questions
        for row in rows
        if row["source_id"] == one.source_id and one.source in (None, row["source"])
    ]
    if not asked:
        raise InvalidRequestError("--questions: none of the documents that the questions name is in the index.")
    return asked


def _titles(connection: Connection) -> list[Asked]:
    rows: Sequence[Mapping[str, Any]] = list(registry.readable_sample(connection, most=TITLES))
    return [Asked(row["title"][:MAX_QUERY], row["doc_id"], frozenset(row["permissions"])) for row in rows]


async def _scores(settings: Settings, asked: Sequence[Asked], targets: Sequence[Target]) -> list[Score]:
    # permissions are those of the registry as it stands: when they were last checked decides nothing here
    quiet = settings.model_copy(update={"search_cache_seconds": 0, "acl_max_age": "3650d"})
    database = Database(settings.postgres_dsn)
    client = qdrant.async_client(settings)
    metrics = Metrics()
    await database.open()
    try:
        scores: list[Score] = []
        for one in targets:
            embedder = QueryEmbedder.pinned(one.embedder, one.collection.name)
            engines = Engines(client, database, embedder)
            background = Background(database, metrics)  # never started: nothing is written
            retriever = Retriever(
                quiet, database, engines, embedder, background, metrics, clock=lambda: datetime.now(UTC)
            )
            scores.append(await _score(retriever, asked))
        return scores
    finally:
        await database.close()
        await client.close()


async def _score(retriever: Retriever, asked: Sequence[Asked]) -> Score:
    turn = asyncio.Semaphore(AT_ONCE)

    async def rank(one: Asked) -> int | None:
        async with turn:
            request = SearchRequest(query=one.text, top_k=DEPTH)
            found = await retriever.passages(request, Access(email=READER, principals=one.principals))
        degraded = [message for code, message in found.warnings if code != "held_back"]
        if degraded:
            raise ServiceUnavailableError(f"The question set could not be asked: {degraded[0]}")
        places = [place for place, ranked in enumerate(found.ranked, start=1) if _holds(ranked, one.doc_id)]
        return min(places, default=None)

    ranks = await asyncio.gather(*(rank(one) for one in asked))
    hits = [1 / place for place in ranks if place is not None]
    count = max(1, len(asked))
    return Score(recall=round(len(hits) / count, 4), mrr=round(sum(hits) / count, 4))


def _holds(ranked: Any, doc_id: str) -> bool:
    return doc_id in (ranked.hit.doc_id, *(hit.doc_id for hit in ranked.also_in))
