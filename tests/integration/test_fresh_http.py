"""A fresh installation, in which nothing has been indexed yet, says so instead of naming a service that is down."""

from __future__ import annotations

import pytest
from selectolax.lexbor import LexborHTMLParser

from resources.stores import qdrant
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"


@pytest.fixture
def fresh(site: Site) -> Site:
    """The site without a collection, as before the first sync."""
    for alias in site.qdrant.get_aliases().aliases:
        assert alias.alias_name == qdrant.ALIAS
    for collection in site.qdrant.get_collections().collections:
        site.qdrant.delete_collection(collection.name)
    assert site.sql("SELECT count(*) FROM index_collections") == [(0,)]
    return site


@pytest.mark.parametrize("mode", ["hybrid", "vector", "keyword"])
def test_a_search_before_the_first_sync_says_that_nothing_is_indexed(fresh: Site, running: Running, mode: str) -> None:
    answer = running.search("tea", ANN, mode=mode)
    assert answer["results"] == []
    (warning,) = answer["warnings"]
    assert warning == {
        "code": "nothing_indexed",
        "message": "Nothing has been indexed yet. Upload a file, or wait for the first sync of a source.",
    }


def test_an_answer_before_the_first_sync_says_so_too(fresh: Site, running: Running) -> None:
    answer = running.request("POST", "/api/ask", ANN, json={"query": "When is tea served?"}).json()
    assert answer["found"] is False
    (warning,) = answer["warnings"]
    assert warning["code"] == "nothing_indexed"
    assert answer["unanswered"]["message"] == warning["message"]


def test_the_page_says_what_is_being_read_instead(fresh: Site, running: Running) -> None:
    def notes() -> list[str]:
        shown = running.http.get("/results?q=tea", headers=running.site.session(ANN)).text
        return [note.text() for note in LexborHTMLParser(shown).css(".note")]

    assert notes() == ["Nothing has been indexed yet. Upload a file, or wait for the first sync of a source."]
    fresh.sql("INSERT INTO sync_jobs (source, status, claimed_at) VALUES ('slack', 'running', now())")
    assert notes() == ["Still reading Slack. Try again in a moment."]


def test_a_fresh_installation_is_ready(fresh: Site, running: Running) -> None:
    assert running.ready().json() == {
        "status": "ready",
        "services": {
            "qdrant": {"state": "ok", "detail": "nothing has been indexed yet"},
            **{name: {"state": "ok", "detail": None} for name in ("postgres", "embedding", "disk")},
        },
    }


def test_a_collection_that_is_gone_is_no_fresh_installation(site: Site) -> None:
    site.add("Tea", ["Tea is served at four."], [ANN])
    site.qdrant.delete_collection(site.collection)
    with site.running() as running:
        answer = running.search("tea", ANN)
        assert [warning["code"] for warning in answer["warnings"]] == ["vector_index_unavailable"]
        assert [one["title"] for one in answer["results"]] == ["Tea"]
