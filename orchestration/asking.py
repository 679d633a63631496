"""Run questions through the production retriever with each caller's permissions and return the ranked documents.

Nothing is cached or written. A search that was degraded raises `ServiceUnavailableError` instead of counting as an answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import msgspec

from assets.index.targets import Target
from resources.core.domain import Access
from resources.core.durations import duration
from resources.core.errors import ServiceUnavailableError
from resources.core.permissions import principals_of
from resources.settings import Settings
from resources.stores.qdrant_search import Searches
from serving.access.rights import Rights
from serving.audit import Audit
from serving.background import Background
from serving.database import Database
from serving.directory import with_directory
from serving.embedding import QueryEmbedder
from serving.metrics import Metrics
from serving.retrieval.engines import Engines
from serving.retrieval.retriever import Retriever
from serving.schemas import Filters, SearchRequest

DEPTH = 10
"""Documents that count as found."""
AT_ONCE = 4


class EvaluationQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the question set, with the caller it is asked as. With `never`, only its documents are searched, so that no better
    one hides them.
    """

    id: str
    text: str
    documents: frozenset[str]
    access: Access
    never: bool = False


class QuestionResult(msgspec.Struct, frozen=True):
    """The first ten places, the best first; a place holds the document shown there, then those with the very same passage."""

    places: list[list[str]]
    held_back: int

    def shown(self) -> set[str]:
        """Return every document that the answer tells of."""
        return {doc_id for place in self.places for doc_id in place}

    def ranking(self, wanted: frozenset[str]) -> list[str]:
        """Return a document a place, a wanted one where the place holds any."""
        found: dict[str, None] = {}
        for place in self.places:
            found |= dict.fromkeys([doc_id for doc_id in place if doc_id in wanted] or place[:1])
        return list(found)


class QuestionRunner:
    """Runs questions against open stores. Made by `question_runner`."""

    def __init__(self, settings: Settings, database: Database, searches: Searches) -> None:
        self._settings = settings.model_copy(update={"search_cache_seconds": 0})
        self._database = database
        self._searches = searches

    async def access(self, email: str, groups: Sequence[str]) -> Access:
        """Return the `Access` that the HTTP service would give this person with these groups in the token."""
        fresh_since = datetime.now(UTC) - duration(self._settings.acl_max_age)
        return await with_directory(
            self._database, Access(email=email, principals=principals_of(email, groups)), fresh_since
        )

    async def ask(self, target: Target, asked: Sequence[EvaluationQuestion]) -> list[QuestionResult]:
        """Return the answers of a collection, in the order of the questions. Raises `ServiceUnavailableError`."""
        embedder = QueryEmbedder.pinned(target.embedder, target.collection.name)
        metrics = Metrics()
        retriever = Retriever(
            self._settings,
            self._database,
            Engines(self._searches, self._database, embedder),
            embedder,
            Background(self._database, metrics),  # never started: nothing is written
            Audit(self._settings.home / "audit", self._database, metrics),  # as above: passages are no answer
            Rights(self._settings.home / "rights", duration(self._settings.acl_max_age)),
            metrics,
        )
        turn = asyncio.Semaphore(AT_ONCE)

        async def one(question: EvaluationQuestion) -> QuestionResult:
            async with turn:
                return await _answer(retriever, question)

        return list(await asyncio.gather(*(one(question) for question in asked)))


@asynccontextmanager
async def question_runner(settings: Settings) -> AsyncGenerator[QuestionRunner]:
    """Open the stores for a block."""
    database = Database(settings.postgres_dsn)
    searches = Searches(settings)
    await database.open()
    try:
        yield QuestionRunner(settings, database, searches)
    finally:
        await database.close()
        await searches.close()


async def _answer(retriever: Retriever, asked: EvaluationQuestion) -> QuestionResult:
    filters = Filters(document_ids=sorted(asked.documents), include_archived=True) if asked.never else None
    found = await retriever.passages(SearchRequest(query=asked.text, top_k=DEPTH, filters=filters), asked.access)
    degraded = [message for code, message in found.warnings if code != "held_back"]
    if degraded:
        raise ServiceUnavailableError(f"The question set could not be asked: {degraded[0]}")
    places = [[hit.doc_id for hit in (ranked.hit, *ranked.also_in)] for ranked in found.ranked]
    return QuestionResult(places, found.held_back)
