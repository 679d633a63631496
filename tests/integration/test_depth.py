"""How deep a search looks: what the permission check leaves out takes no place of a live document, in few rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from resources.core.domain import Access
from resources.stores import qdrant
from resources.stores.qdrant_search import PointQuery, QueryHits, VectorSearch
from serving.http.database import Database
from serving.search.embedding import QueryEmbedder
from serving.search.retrieval.engines import Engines
from serving.search.retrieval.passage import SearchOutcome
from serving.search.retrieval.query import search_query
from serving.search.retrieval.registry import Registry
from serving.search.retrieval.retriever import Retriever
from tests.fixtures.serving import Running, Site

BOB = "bob@acme.com"
CROWD = 2_100
"""Passages that are nearer to the query than the live one: more than a search takes at once."""
LIVE = "Employees of the northern yard who have been here for a year may ask the office for some vacation in March."
LEFT_OUT = {
    "archived": (
        "UPDATE documents SET tags = '{\"lifecycle\": \"archived\"}' WHERE title = 'Crowd'",
        "UPDATE documents SET tags = '{}' WHERE title = 'Crowd'",
    ),
    "deleted": (
        "UPDATE documents SET state = 'deleted' WHERE title = 'Crowd'",
        "UPDATE documents SET state = 'live' WHERE title = 'Crowd'",
    ),
    "withdrawn": (
        "UPDATE documents SET permissions = '{}' WHERE title = 'Crowd'",
        "UPDATE documents SET permissions = '{bob@acme.com}' WHERE title = 'Crowd'",
    ),
    "partition held back": (
        "UPDATE partitions SET acl_checked_at = now() - interval '2 days' WHERE partition = 'crowd'",
        "UPDATE partitions SET acl_checked_at = now() WHERE partition = 'crowd'",
    ),
    "deletion held back": (
        "INSERT INTO held_deletions (source, partition, source_id, held_at)"
        " VALUES ('files', 'crowd', 'root/Crowd.md', now() - interval '2 days')",
        "DELETE FROM held_deletions",
    ),
}
"""What leaves the crowd out, and what brings it back."""


@pytest.fixture
def crowded(site: Site) -> Site:
    """One document of many passages about vacation days in a partition of its own, and one that mentions vacation."""
    site.add("Crowd", [f"vacation days {number}" for number in range(CROWD)], [BOB], partition="crowd")
    site.add("Handbook", [LIVE], [BOB])
    return site


def found_live(running: Running, why: str) -> None:
    for mode in ("hybrid", "vector", "keyword"):
        for group in (True, False):
            answer = running.search("vacation days", BOB, mode=mode, group_by_document=group)
            assert [one["title"] for one in answer["results"]] == ["Handbook"], (why, mode, group)
            assert answer["held_back"] == why.endswith("held back"), (why, mode, group)


@pytest.mark.parametrize("engine", ["qdrant", "postgres"])
def test_what_is_left_out_takes_no_place_of_a_live_document(
    crowded: Site, engine: str, subtests: pytest.Subtests
) -> None:
    if engine == "postgres":
        crowded.settings = crowded.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    with crowded.running() as running:
        for why, (leave_out, bring_back) in LEFT_OUT.items():
            crowded.sql(leave_out)
            with subtests.test(why=why):
                found_live(running, why)
            crowded.sql(bring_back)
            crowded.sql("UPDATE index_version SET version = version + 1")
        # nothing that was left out for a while is missing afterwards
        answer = running.search("vacation days", BOB, group_by_document=False)
        assert ({one["title"] for one in answer["results"]}, answer["held_back"]) == ({"Crowd"}, 0)


def test_archived_documents_cost_one_more_round_however_many_they_are(crowded: Site) -> None:
    crowded.sql(LEFT_OUT["archived"][0])
    doc_id = crowded.sql("SELECT doc_id::text FROM documents WHERE title = 'Crowd'")[0][0]
    qdrant.set_payload(crowded.qdrant, crowded.collection, {doc_id: {"tags": {"lifecycle": "archived"}}})
    counted = Counted(crowded)
    outcome = counted.search("vacation days", limit=5)
    assert [one.title for one in outcome.passages] == ["Handbook"]
    assert (len(counted.depths), counted.embedded) == (2, 1)


class Counted:
    """Searches a site, recording the depth of each request to the vector server and the number of embedded queries."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.depths: list[int] = []
        self.embedded = 0

    @property
    def model(self) -> str:
        return self._site.model.model

    def embed(self, texts: Sequence[str]) -> Any:
        return self._site.model.embed(texts)

    def embed_query(self, text: str) -> Any:
        self.embedded += 1
        return self._site.model.embed_query(text)

    def search(self, query: str, *, limit: int, per_document: float = 1.0, **wanted: Any) -> SearchOutcome:
        return asyncio.run(self._search(query, limit, per_document, wanted))

    async def _search(self, query: str, limit: int, per_document: float, wanted: dict[str, Any]) -> SearchOutcome:
        depths = self.depths

        class Searches(VectorSearch):
            async def query(self, collection: str, batch: Sequence[PointQuery], seconds: float) -> list[QueryHits]:
                depths.append(batch[0].limit)
                return await super().query(collection, batch, seconds)

        settings = self._site.settings
        database, searches = Database(settings.postgres_dsn, prepare_threshold=5), Searches(settings)
        await database.open()
        try:
            embedder = QueryEmbedder.pinned(self, self._site.collection)
            retriever = Retriever(
                settings,
                Engines(searches, database, embedder),
                Registry(database),
                embedder,
                passages_per_document=lambda: per_document,
            )
            access = Access(email=BOB, principals=frozenset({BOB}))
            return await retriever.search(search_query(query, access, settings, limit=limit, **wanted))
        finally:
            await database.close()
            await searches.close()


@pytest.fixture
def shelf(site: Site) -> Site:
    """Eighty documents of four passages each, all about ferries."""
    for number in range(80):
        texts = [f"Ferry {number} leaves pier {part} at {number % 24}:00." for part in range(4)]
        site.add(f"Ferry {number}", texts, [BOB])
    return site


def test_a_search_gets_there_in_one_round(shelf: Site, subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, Any], int]] = [
        ({"limit": 5}, 5),
        ({"limit": 10}, 10),
        ({"limit": 50}, 50),
        ({"limit": 50, "mode": "vector"}, 50),
        ({"limit": 50, "group": False}, 50),
        ({"limit": 30, "group": False}, 30),
        ({"limit": 5, "threshold": 0.99}, 0),
        ({"limit": 50, "threshold": 0.99, "mode": "vector"}, 0),
    ]
    for wanted, results in cases:
        with subtests.test(wanted=wanted):
            counted = Counted(shelf)
            outcome = counted.search("when does the ferry leave the pier", per_document=4.0, **wanted)
            assert len(outcome.passages) == results
            assert (len(counted.depths), counted.embedded) == (1, 1)
            assert wanted["limit"] > 10 or counted.depths == [50]


def test_a_search_that_expected_fewer_passages_a_document_looks_deeper_once(shelf: Site) -> None:
    counted = Counted(shelf)
    assert len(counted.search("when does the ferry leave the pier", limit=80).passages) == 80
    assert (len(counted.depths), counted.embedded) == (2, 1)


def test_a_threshold_that_the_last_candidates_reach_looks_deeper(shelf: Site) -> None:
    counted = Counted(shelf)
    outcome = counted.search("ferry", limit=400, group=False, threshold=0.05, depth=50)
    assert len(outcome.passages) == 320
    assert counted.embedded == 1
