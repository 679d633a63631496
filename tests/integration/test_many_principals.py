"""People with thousands of principals find what they may read, and nothing else, by the numbers of their principals."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from qdrant_client import models

import sql
from resources.core.domain import Access, SourceName
from resources.core.permissions import READER_IDS, reader_id
from resources.stores import qdrant
from resources.stores.qdrant_search import VectorSearch
from serving.search.retrieval import plan
from serving.search.retrieval.plan import NUMBERS_FROM, filter_for
from serving.search.retrieval.query import Narrowing
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Running, Site
from tests.integration.test_bounded_reads import NOW, READS
from tests.machine.test_degradation_http import codes, own_postgres, until_ready

__all__ = ["own_postgres"]

ANN, EVE = "ann@acme.com", "eve@acme.com"
GROUPS = 5_000


def enrol(site: Site, email: str, *groups: str) -> None:
    """Make someone a member of groups, as a sync of the directory does."""
    site.sql(
        "INSERT INTO source_states (source, directory_at) VALUES ('scim', now())"
        " ON CONFLICT (source) DO UPDATE SET directory_at = excluded.directory_at"
    )
    site.sql(
        "INSERT INTO directory (source, email, principal) SELECT 'scim', %s, 'group:' || g FROM unnest(%s::text []) AS g",
        email,
        list(groups),
    )


def titles(running: Running, who: str, **more: Any) -> set[str]:
    answer = running.search("the ferry", who, top_k=50, **more)
    return {one["title"] for one in answer["results"]}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[models.QueryRequest]:
    """The queries that the vector server got, as its own client reads them."""
    found: list[models.QueryRequest] = []
    post = VectorSearch._post

    async def recorded(self: VectorSearch, url: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        found.extend(models.QueryRequestBatch.model_validate_json(body).searches)
        return await post(self, url, body, seconds)

    monkeypatch.setattr(VectorSearch, "_post", recorded)
    return found


def keys(queries: list[models.QueryRequest]) -> set[str]:
    """Return the payload fields by which permissions were looked up, by each query and each prefetch."""
    found: set[str] = set()
    for stage in [stage for one in queries for stage in (one, one.prefetch) if stage is not None]:
        assert isinstance(stage, models.QueryRequest | models.Prefetch)
        assert isinstance(stage.filter, models.Filter)
        assert isinstance(stage.filter.must, list)
        assert isinstance(stage.filter.must[0], models.FieldCondition)
        found.add(stage.filter.must[0].key)
    return found


def test_someone_in_thousands_of_groups_finds_what_they_may_read(site: Site, asked: list[models.QueryRequest]) -> None:
    enrol(site, ANN, *(f"team{number}@acme.com" for number in range(GROUPS)))
    site.add("Own", ["The ferry leaves at nine."], [ANN])
    site.add("Team", ["The ferry leaves at ten."], ["group:team4999@acme.com", EVE])
    site.add("Hidden", ["The ferry leaves at noon."], ["group:other@acme.com", EVE])
    with site.running() as running:
        assert titles(running, ANN) == {"Own", "Team"}
        assert titles(running, EVE) == {"Team", "Hidden"}
        assert keys(asked) == {READER_IDS, "permissions"}
        # at once, whatever was asked before
        site.add("New", ["The ferry leaves at one."], ["group:team17@acme.com"])
        assert titles(running, ANN) == {"Own", "Team", "New"}
        site.sql("DELETE FROM directory WHERE principal = 'group:team17@acme.com'")
        assert titles(running, ANN) == {"Own", "Team"}
        counted = running.search("the ferry", ANN, total=True, facets=["source_type"])
        assert (counted["total"]["count"] if isinstance(counted["total"], dict) else counted["total"]) == 2


def test_answers_are_the_same_by_number(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(12):
        readers = (
            ["public"] if number % 3 == 0 else [f"group:team{number}@acme.com", *([ANN] if number % 3 == 1 else [])]
        )
        site.add(f"Ferry {number}", [f"The ferry number {number} leaves at {number}."], readers)
    with site.running() as running:
        for mode in ("hybrid", "keyword", "vector"):
            for extra in ({}, {"filters": {"collection_ids": ["root"]}}, {"total": True, "explain": True}):
                answers: list[Any] = []
                for numbers_from in (NUMBERS_FROM, 1):
                    monkeypatch.setattr(plan, "NUMBERS_FROM", numbers_from)
                    site.sql("UPDATE index_version SET version = version + 1")  # nothing from the cache
                    answers.append(running.search("the ferry number", ANN, mode=mode, top_k=50, **extra)["results"])
                assert answers[0] == answers[1]
                assert len(answers[0]) == 8


@pytest.mark.parametrize("stopped", [False, True], ids=["with Postgres", "without Postgres"])
def test_a_number_that_two_principals_share_opens_nothing(
    own_postgres: tuple[Site, Any], monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    site, process = own_postgres
    monkeypatch.setattr(plan, "NUMBERS_FROM", 1)
    site.add("Own", ["The ferry leaves at nine."], [ANN])
    doc_id = site.add("Hidden", ["The ferry leaves at noon."], [EVE])
    client = qdrant.client(site.settings)
    client.set_payload(site.collection, {READER_IDS: [reader_id(ANN)]}, points=_of(doc_id), wait=True)
    client.close()
    with site.running() as running:
        until_ready(running)
        if stopped:
            process.stop()
        answer = running.search("the ferry", ANN)
        assert {one["title"] for one in answer["results"]} == {"Own"}
        assert codes(answer) == (["registry_unavailable"] if stopped else [])


def _of(doc_id: str) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="doc_id", match=models.MatchValue(value=doc_id))])


def test_collections_without_numbers_are_searched_by_text(site: Site, asked: list[models.QueryRequest]) -> None:
    enrol(site, ANN, *(f"team{number}@acme.com" for number in range(NUMBERS_FROM)))
    site.add("Team", ["The ferry leaves at ten."], ["group:team7@acme.com"])
    site.sql("UPDATE index_collections SET reader_ids = FALSE")
    site.qdrant.delete_payload(site.collection, [READER_IDS], points=models.Filter(), wait=True)
    with site.running() as running:
        assert titles(running, ANN) == {"Team"}
    assert keys(asked) == {"permissions"}


def test_a_new_index_has_the_numbers_of_all_readers(installation: Installation) -> None:
    installation.write("otter.txt", "The otter sleeps.\n", permissions=[ANN, "group:team@acme.com"])
    installation.sync()
    (point,) = installation.points()
    assert point[READER_IDS] == sorted(map(reader_id, point["permissions"]))
    assert installation.rows("SELECT reader_ids FROM index_collections") == [{"reader_ids": True}]
    installation.write("otter.txt", "The otter sleeps.\n", permissions=[EVE])
    installation.sync()
    (point,) = installation.points()
    assert point[READER_IDS] == [reader_id(EVE)]


def test_the_filter_holds_every_principal_and_no_other() -> None:
    few = Access(email=ANN, principals=frozenset({ANN, "public"}))
    many = Access(email=ANN, principals=frozenset({ANN, *(f"group:team{n}@acme.com" for n in range(NUMBERS_FROM))}))
    for access, by_number, key in ((few, True, "permissions"), (many, False, "permissions"), (many, True, READER_IDS)):
        found = filter_for(access, Narrowing(source_types=(SourceName.FILES,)), by_number=by_number)
        assert isinstance(found.must, list)
        first = found.must[0]
        assert isinstance(first, models.FieldCondition)
        assert isinstance(first.match, models.MatchAny)
        wanted = access.principals if key == "permissions" else set(map(reader_id, access.principals))
        assert (first.key, set(first.match.any), len(found.must)) == (key, set(wanted), 2)


def test_places_and_departures_count_for_people_with_many_principals_too(site: Site) -> None:
    many = [f"team{number}@acme.com" for number in range(1, NUMBERS_FROM + 10)]
    enrol(site, ANN, *many)
    enrol(site, EVE, "team1@acme.com")
    open_to_team = {"readers": ["group:team1@acme.com"]}
    places = [
        {"id": "root/a/b", "name": "b", **open_to_team},
        {"id": "root/a", "name": "a", "readers": ["group:other@acme.com"]},
        {"id": "root", "name": "", **open_to_team},
    ]
    site.add(
        "Ferry",
        ["The ferry leaves at nine."],
        ["group:team1@acme.com"],
        collection_ids=["root/a/b", "root/a", "root"],
        path="a/b/Ferry.md",
        folders=places,
    )
    shown = ("title", "source_id", "path", "url", "collection_id", "text", "score")
    with site.running() as running:
        few, wide = (running.search("the ferry", who)["results"] for who in (EVE, ANN))
        assert len(wide) == 1
        assert [{name: one.get(name) for name in shown} for one in few] == [
            {name: one.get(name) for name in shown} for one in wide
        ]
        assert "/a/" not in str(wide[0].get("path"))
        site.sql(
            "INSERT INTO departures (source, partition, email, event_id) VALUES ('files', 'root', %s, 'left')", ANN
        )
        assert titles(running, EVE) == {"Ferry"}
        assert titles(running, ANN) == set()


LISTINGS = ("collections", "documents", "readable_count", "readable_folders", "readable_totals")


@pytest.mark.parametrize("others", [range(300), range(GROUPS)], ids=len)
def test_listings_are_the_same_with_many_principals(site: Site, others: range) -> None:
    def folders(*readers: list[str]) -> dict[str, Any]:
        ids = [f"root/{number}" for number in range(len(readers))]
        names = [{"id": one, "name": one[-1], "readers": who} for one, who in zip(ids, readers, strict=True)]
        return {"collection_ids": ids, "folders": names}

    site.add("Own", ["The ferry."], [ANN], **folders([ANN, EVE], [EVE]))
    site.add("Team", ["The ferry."], ["group:own@acme.com", EVE], **folders(["public"], ["group:own@acme.com"]))
    site.add("Everyone", ["The ferry."], ["public"], **folders([EVE], ["public"], [ANN]))
    site.add("Hidden", ["The ferry."], [EVE, "group:hidden@acme.com"], **folders(["public"]))
    site.add("Other", ["The ferry."], ["group:hidden@acme.com", EVE], source=SourceName.GOOGLE_DRIVE)
    left = {"collection_ids": ["left"], "folders": [{"id": "left", "name": "left", "readers": ["public"]}]}
    site.add("Left", ["The ferry."], ["group:own@acme.com", "public"], partition="left", **left)
    site.sql("INSERT INTO departures (source, partition, email, event_id) VALUES ('files', 'left', %s, 'e')", ANN)

    def rows(name: str, principals: list[str]) -> list[Any]:
        wanted = READS[name] | {"principals": principals, "fresh_since": NOW - timedelta(days=1)}
        found = site.connection.execute(sql.statement("serving", name).encode(), wanted).fetchall()
        return sorted(found, key=str)

    few = {who: [who, "group:own@acme.com", "public"] for who in (ANN, EVE)}
    seen = {name: {who: rows(name, own) for who, own in few.items()} for name in LISTINGS}
    more = [f"group:{one}@acme.com" for one in others]
    assert seen == {name: {who: rows(name, [*own, *more]) for who, own in few.items()} for name in LISTINGS}
    for who, readable in ((ANN, 3), (EVE, 5)):
        assert seen["readable_count"][who] == [(readable,)]
        assert seen["documents"][who][0][0] == readable
        assert sum(live for _, live, *_ in seen["readable_totals"][who]) == readable
        for name in ("collections", "readable_folders"):
            assert ("left" in str(seen[name][who])) == (who == EVE)
