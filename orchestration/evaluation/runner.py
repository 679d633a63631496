"""Run questions through the production retriever with each caller's permissions and return the ranked documents.

Nothing is cached or written. A search that was degraded raises `ServiceUnavailableError` instead of counting as an answer.
"""

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
from resources.stores.qdrant import async_client
from resources.stores.qdrant_search import VectorSearch
from serving.http.database import Database
from serving.identity.directory import Directory
from serving.identity.withheld import WithheldReads
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.query import Narrowing, search_query
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.rerank import Reranker
from serving.search.retrieval.retriever import HELD_BACK, Retriever
from sql.serving import WebReads

DEPTH = 10
"""Documents per question that count as found."""
CONCURRENT_QUESTIONS = 4


class EvaluationQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question and the user it is asked as. With `never`, only its documents are searched, so that no other outranks them."""

    id: str
    text: str
    documents: frozenset[str]
    access: Access
    never: bool = False


class QuestionResult(msgspec.Struct, frozen=True):
    """The first ten ranks, best first; each lists the document shown there, then the documents with an identical passage."""

    ranks: list[list[str]]
    held_back: int

    def shown(self) -> set[str]:
        return {doc_id for rank in self.ranks for doc_id in rank}

    def ranking(self, wanted: frozenset[str]) -> list[str]:
        """Return one document per rank, or the wanted ones of a rank that has any."""
        found: dict[str, None] = {}
        for rank in self.ranks:
            found |= dict.fromkeys([doc_id for doc_id in rank if doc_id in wanted] or rank[:1])
        return list(found)


class QuestionRunner:
    """Runs questions against open stores; created by `question_runner`."""

    def __init__(self, settings: Settings, database: Database, searches: VectorSearch, withheld: WithheldReads) -> None:
        self._settings = settings
        self._database = database
        self._searches = searches
        self._withheld = withheld

    async def access(self, email: str, groups: Sequence[str]) -> Access:
        """Return the `Access` that the HTTP service would give this person with these groups in the token."""
        fresh_since = datetime.now(UTC) - duration(self._settings.acl_max_age)
        known = Access(email=email, principals=principals_of(email, groups))
        return await Directory(self._settings, self._database, self._withheld).complete(known, fresh_since)

    async def run(
        self, target: Target, questions: Sequence[EvaluationQuestion], reranker: Reranker | None = None
    ) -> list[QuestionResult]:
        """Return the results from one collection, in the order of the questions. Raises `ServiceUnavailableError`."""
        active = await WebReads(self._database).active_collection()
        languages = active.languages if active is not None else []
        embedder = QueryEmbedder.pinned(target.embedder, target.collection.name, languages)
        engines = Engines(self._searches, self._database, embedder)
        retriever = Retriever(self._settings, engines, Registry(self._database), embedder, reranker=reranker)
        limit = asyncio.Semaphore(CONCURRENT_QUESTIONS)

        async def one(question: EvaluationQuestion) -> QuestionResult:
            async with limit:
                return await self._search(retriever, question, rerank=reranker is not None)

        return list(await asyncio.gather(*(one(question) for question in questions)))

    async def _search(self, retriever: Retriever, question: EvaluationQuestion, *, rerank: bool) -> QuestionResult:
        only = Narrowing(document_ids=tuple(sorted(question.documents)), include_archived=True)
        narrowing = only if question.never else None
        query = search_query(
            question.text, question.access, self._settings, limit=DEPTH, narrowing=narrowing, rerank=rerank
        )
        outcome = await retriever.search(query)
        degraded = [one.message for one in outcome.degradations if one.code != HELD_BACK]
        if degraded:
            raise ServiceUnavailableError(f"The question set could not be run: {degraded[0]}")
        ranks = [[one.doc_id for one in (passage, *passage.also_in)] for passage in outcome.passages]
        return QuestionResult(ranks, outcome.held_back)


@asynccontextmanager
async def question_runner(settings: Settings) -> AsyncGenerator[QuestionRunner]:
    """Open the stores for the block and yield a runner."""
    database = Database(settings.postgres_dsn, prepare_threshold=settings.postgres_prepare_threshold)
    searches, index = VectorSearch(settings), async_client(settings)
    await database.open()
    try:
        yield QuestionRunner(settings, database, searches, WithheldReads(index))
    finally:
        await database.close()
        await searches.close()
        await index.close()
