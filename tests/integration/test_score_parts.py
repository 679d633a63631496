"""The scores of a passage follow from their parts, in every mode and fusion, with and without a reranker."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from resources.core import sketch
from resources.core.domain import Access
from resources.stores.qdrant_search import VectorSearch
from serving.http.database import Database
from serving.search.embedding import QueryEmbedder
from serving.search.results import results
from serving.search.retrieval.agree import agree
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.fuse import FUSIONS
from serving.search.retrieval.passage import KNOWN, Passage
from serving.search.retrieval.query import SearchQuery, search_query
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.rerank import Reranker
from serving.search.retrieval.retriever import Retriever
from tests.fixtures.serving import Site

ANN = Access(email="ann@acme.com", principals=frozenset({"ann@acme.com"}))
NOW = datetime.now(UTC)
WORDS = ("ferry", "pier", "harbour", "budget", "salary", "vacation", "lighthouse", "contract", "tide", "anchor", "rope")
AGES = (400, 20, 3)
WANTED: list[dict[str, Any]] = [
    {"mode": "vector"},
    {"mode": "keyword"},
    {"threshold": 0.2},
    {"rerank": True},
    {"group": False},
    *({"fusion": fusion} for fusion in FUSIONS),
]


class ByLength:
    """A cross-encoder that finds long passages relevant."""

    def score(self, query: str, passages: Sequence[str]) -> NDArray[np.float32]:  # noqa: ARG002 (the protocol's signature)
        return np.array([len(text) / 200 for text in passages], dtype=np.float32)


def fill(site: Site) -> None:
    for number, word in enumerate(WORDS):
        text = f"The {word} and the {WORDS[number - 1]} of the island. " + "More of the same. " * (number % 4)
        age = timedelta(days=AGES[number % len(AGES)])
        site.add(f"About the {word}", [text], ["ann@acme.com"], modified_at=NOW - age)
    for chunk_id, text in site.sql("SELECT chunk_id::text, chunk_text FROM chunks"):
        (small,) = sketch.encode(np.asarray(site.model.embed([text])))
        site.sql("UPDATE chunks SET sketch = %s WHERE chunk_id = %s", small, chunk_id)


async def search(site: Site, query: SearchQuery) -> list[Passage]:
    database, searches = Database(site.settings.postgres_dsn, prepare_threshold=5), VectorSearch(site.settings)
    embedder = QueryEmbedder.pinned(site.model, site.collection)
    reranker = Reranker(ByLength, 20, 0.0)
    await database.open()
    await reranker.start()
    try:
        engines = Engines(searches, database, embedder)
        retriever = Retriever(
            site.settings, engines, Registry(database), embedder, reranker=reranker, clock=lambda: NOW
        )
        outcome = await retriever.search(query)
    finally:
        await database.close()
        await searches.close()
    assert outcome.degradations == []
    return outcome.passages


def test_a_search_waits_for_no_other_work_in_threads(site: Site) -> None:
    fill(site)
    done = threading.Event()

    async def while_threads_are_occupied() -> list[Passage]:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        occupied = [loop.run_in_executor(None, done.wait) for _ in range(2)]
        try:
            async with asyncio.timeout(60):
                return await search(site, search_query("ferry pier tide", ANN, site.settings, limit=50, rerank=True))
        finally:
            done.set()
            await asyncio.gather(*occupied)

    assert asyncio.run(while_threads_are_occupied())


def test_transactions_wait_for_no_other_work_in_threads(site: Site) -> None:
    """Such as uploads to an object store that hangs, or calls of Dagster."""
    done = threading.Event()

    async def while_threads_are_occupied() -> bool:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(ThreadPoolExecutor(2))
        occupied = [loop.run_in_executor(None, done.wait) for _ in range(2)]
        database = Database(site.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            async with asyncio.timeout(15):
                return await database.in_thread(lambda connection: not done.is_set() and not connection.closed)
        finally:
            done.set()
            await asyncio.gather(*occupied)
            await database.close()

    assert asyncio.run(while_threads_are_occupied())


def clamped(score: float) -> float:
    return min(1.0, max(0.0, score))


def test_order_and_relevance_are_recomputed_from_their_parts(site: Site) -> None:
    fill(site)
    floor = QueryEmbedder.pinned(site.model, site.collection).floor
    for wanted in WANTED:
        query = search_query("ferry pier tide", ANN, site.settings, limit=50, **wanted)
        found = asyncio.run(search(site, query))
        assert found, wanted
        if query.threshold is None and not query.rerank and query.mode != "keyword":
            share = query.agreement if query.mode == "hybrid" else 0.0
            sketches = {one.chunk_id: one.sketch for one in found if one.sketch}
            assert len(sketches) == len(WORDS)
            assert {one.chunk_id: one.scores.agreed for one in found} == pytest.approx(
                agree({one.chunk_id: one.scores.fused for one in found}, sketches, share)
            )
        for one in found:
            scores, boost = one.scores, math.prod(one.scores.boosts.values())
            assert set(scores.boosts) == {"recency"}
            assert (scores.rerank is not None) == query.rerank
            ordered = scores.agreed if scores.rerank is None else scores.rerank
            known = scores.known if scores.rerank is None else 0.0
            assert scores.order == pytest.approx(clamped(ordered * boost) + KNOWN * known)
            shown = parts(query, one, floor) if scores.rerank is None else scores.rerank
            assert one.relevance == pytest.approx(clamped(shown * boost), abs=1e-6)
            assert query.threshold is None or one.relevance >= query.threshold
        assert [one.scores.order for one in found] == sorted((one.scores.order for one in found), reverse=True)
        told = results(found, style="inline", base_url="", now=NOW, explain=True)
        for result in told:
            fused = result.explain.rerank_score if query.rerank else result.explain.fused_score
            told_boost = math.prod(result.explain.boosts.values())
            assert result.relevance_score == pytest.approx(clamped(fused * told_boost), abs=2e-6)


def parts(query: SearchQuery, one: Passage, floor: float) -> float:
    words = {word for word in ("ferry", "pier", "tide") if word in f"{one.title} {one.chunk_text}"}
    share = len(words) / 3
    if query.mode == "vector":
        assert one.scores.dense is not None
        return clamped(one.scores.dense)
    if query.mode == "keyword":
        usual = 1.2 * (0.25 + 0.75 * len(one.chunk_text) / 1000)
        counts = [(f"{one.chunk_text} {one.title}").count(word) for word in sorted(words)]
        return share * (0.5 + 0.4 * sum(count / (count + usual) for count in counts) / max(1, len(counts)))
    cosine = clamped(((one.scores.dense or 0.0) - floor) / (1 - floor))
    return query.dense_weight * cosine + (1 - query.dense_weight) * share
