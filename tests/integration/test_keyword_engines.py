"""Search by words in Qdrant, and in Postgres while Qdrant is down, over HTTP: the same rights and the same filters."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from resources.core.domain import Access
from serving.http.database import Database
from serving.search.retrieval.full_text import full_text
from serving.search.retrieval.query import search_query
from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ENGINES = ("qdrant", "postgres")
HAND, NOTES = "Ferry handbook", "Ferry notes"


def with_engine(site: Site, engine: str) -> Site:
    if engine == "postgres":
        site.settings = site.settings.model_copy(update={"qdrant_url": "http://127.0.0.1:9"})
    return site


def fill(site: Site) -> None:
    old = datetime(2020, 5, 5, tzinfo=UTC)
    site.add(HAND, ["The ferry leaves at nine from the northern pier."], ["domain:acme.com"])
    site.add("Contract", ["The ferry contract is confidential, signed at the pier."], [ANN])
    site.add(
        NOTES, ["The ferry of old left from the southern pier."], [BOB], modified_at=old, author="kim@acme.com",
        tags={"dataset": ["archive", "sea"], "lifecycle": "archived"}, mime_type="application/pdf",
        collection_ids=["inner", "outer"],
    )  # fmt: skip


@pytest.fixture(params=ENGINES)
def harbour(request: pytest.FixtureRequest, site: Site) -> Iterator[Running]:
    fill(site)
    with with_engine(site, request.param).running() as running:
        yield running


def test_each_person_finds_what_that_person_may_read(harbour: Running, subtests: pytest.Subtests) -> None:
    for mode in ["hybrid", "keyword", "vector"]:
        with subtests.test(mode=mode):
            assert set(harbour.titles("ferry at the pier", ANN, mode=mode)) == {HAND, "Contract"}
            assert harbour.titles("ferry at the pier", BOB, mode=mode) == [HAND]
            assert harbour.titles("ferry contract confidential", "eve@other.com", mode=mode) == []


def test_every_filter_narrows(harbour: Running, subtests: pytest.Subtests) -> None:
    everything: dict[str, Any] = {"include_archived": True}

    def found(mode: str, **narrow: Any) -> set[str]:
        return set(harbour.titles("ferry at the pier", BOB, mode=mode, filters=everything | narrow))

    (notes,) = [
        result for result in harbour.search("southern", BOB, filters=everything)["results"] if result["title"] == NOTES
    ]
    for mode in ("hybrid", "keyword"):
        with subtests.test(mode=mode):
            assert found(mode) == {HAND, NOTES}
            for narrow in (
                {"mime_types": ["application/pdf"]},
                {"collection_ids": ["outer"]},
                {"document_ids": [notes["doc_id"]]},
                {"authors": ["kim@acme.com"]},
                {"tags": {"dataset": "archive"}},
                {"date_range": {"start": "2020-05-05", "end": "2020-05-05"}},
                {"date_range": {"end": "2020-05-06", "field": "modified_at"}},
            ):
                assert found(mode, **narrow) == {NOTES}, narrow
            assert found(mode, source_types=["slack"]) == set()
            assert found(mode, source_types=["files"]) == {HAND, NOTES}
            assert found(mode, date_range={"start": "2099-01-01", "field": "created_at"}) == set()


def test_a_file_is_found_by_its_name_however_it_is_written(site: Site) -> None:
    site.add("budget_2026-final.xlsx", ["Travel takes the largest part."], [BOB])
    site.add("Menu", ["Soup on Mondays, version 2.4.1 of it."], [BOB])
    for engine in ENGINES:
        with with_engine(site, engine).running() as running:
            for query in ("budget 2026", "budget_2026-final.xlsx", "BUDGET-2026", "the final budget"):
                assert running.titles(query, BOB, mode="keyword") == ["budget_2026-final.xlsx"], (engine, query)
            assert running.titles("2.4.1", BOB, mode="keyword") == ["Menu"], engine


@pytest.mark.parametrize("fusion", ["weighted", "rrf", "dbsf", "minmax"])
def test_each_leg_scores_what_only_the_other_found(site: Site, fusion: str) -> None:
    for number in range(30):
        site.add(f"Doc {number}", [f"Printer {number} stands on the floor of hall {number}."], [BOB])
    site.add("Odd", ["Zymurgy, in full: printer. " + "The brewery of the abbey keeps its barley dry. " * 8], [BOB])
    body = {"fusion": fusion, "depth": 10, "top_k": 50, "explain": True}
    with site.running() as running:
        answer = running.search("printer floor zymurgy", BOB, **body)
    explained = {result["title"]: result["explain"] for result in answer["results"]}
    assert answer["warnings"] == []
    assert explained["Odd"]["keyword_rank"] is not None
    assert all(one["dense_score"] is not None for one in explained.values())
    assert all(one["keyword_score"] is not None for one in explained.values())


def test_the_leg_itself_gives_nobody_what_is_not_theirs(site: Site) -> None:
    fill(site)

    async def leg(email: str) -> set[str]:
        database = Database(site.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            access = Access(email=email, principals=frozenset({email, "domain:acme.com"}))
            query = search_query("ferry contract pier", access, site.settings, limit=5)
            return set(await full_text(database, query, None))
        finally:
            await database.close()

    private = {
        row[0] for row in site.sql("SELECT chunk_id::text FROM chunks WHERE chunk_text LIKE %s", "%confidential%")
    }
    assert private <= asyncio.run(leg(ANN))
    assert not private & asyncio.run(leg(BOB))
