"""How vectors and keywords are combined: by the settings, or by each request, on every route that searches."""

from __future__ import annotations

from typing import Any

import pytest

from resources.settings import Settings
from tests.fixtures.serving import Running, Site

ANN = "ann@acme.com"
WORDS, MEANING = "Words", "Meaning"
QUERY = "How many holidays does a new colleague get?"


def fill(site: Site) -> None:
    """One document is nearer by its words, the other by its meaning."""
    site.add(WORDS, ["The new office is painted, and the lamps get a dimmer."], ["public"])
    site.add(MEANING, ["Recently hired employees receive twenty-five days of paid vacation per year."], ["public"])
    for number in range(8):
        site.add(f"Other {number}", [f"The pump of line {number} is oiled in week {number}."], ["public"])


def titles(route: str, answer: dict[str, Any]) -> list[str]:
    if route == "/api/rag/search":
        return [one["title"] for one in answer["results"]]
    if route == "/api/rag.search":
        return [one["document"]["title"] for one in answer["data"]]
    return [one["file"]["name"] for one in answer["results"]]


ROUTES: dict[str, tuple[dict[str, Any], str]] = {
    "/api/rag/search": ({"threshold": 0}, "dense_weight"),
    "/api/rag.search": ({"mode": "hybrid", "threshold": 0}, "denseWeight"),
    "/api/search": ({}, "dense_weight"),
}


@pytest.mark.parametrize("route", ROUTES)
def test_a_request_weighs_meaning_against_words(site: Site, route: str) -> None:
    fill(site)
    more, weight = ROUTES[route]
    with site.running() as running:

        def first(**asked: Any) -> str:
            answer = running.request("POST", route, ANN, json={"query": QUERY} | more | asked)
            assert answer.status_code == 200, answer.text
            return titles(route, answer.json())[0]

        assert first(**{weight: 1}) == MEANING
        assert first(**{weight: 0}) == WORDS
        assert first(**{weight: 0, "fusion": "rrf"}) == WORDS
        refused = running.request("POST", route, ANN, json={"query": QUERY, weight: 1.5})
        assert (refused.status_code, refused.json()["type"]) == (400, "/problems/invalid-request")


@pytest.mark.parametrize(("weight", "first"), [(1.0, MEANING), (0.0, WORDS)])
def test_the_settings_weigh_them_for_requests_that_do_not(site: Site, weight: float, first: str) -> None:
    fill(site)
    site.settings = site.settings.model_copy(update={"dense_weight": weight})
    with site.running() as running:
        assert running.titles(QUERY, ANN, threshold=0)[0] == first


def test_the_threshold_of_the_settings_leaves_out_what_is_less_relevant(site: Site) -> None:
    def scores(running: Running, **asked: Any) -> list[float]:
        return sorted(one["relevance_score"] for one in running.search(QUERY, ANN, **asked)["results"])

    fill(site)
    with site.running() as running:
        everything = scores(running, threshold=0)
    site.settings = site.settings.model_copy(update={"search_threshold": (everything[-1] + everything[-2]) / 2})
    with site.running() as running:
        assert scores(running) == everything[-1:]
        assert scores(running, threshold=0) == everything


def test_the_settings_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"FUSION": "rrf", "DENSE_WEIGHT": "0.4", "DEPTH": "80", "THRESHOLD": "0.2"}.items():
        monkeypatch.setenv(f"CONCORDANCE_SEARCH__{name}", value)
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    assert (settings.fusion, settings.dense_weight, settings.search_depth, settings.search_threshold) == (
        "rrf",
        0.4,
        80,
        0.2,
    )
    for name, wrong in (
        ("FUSION", "best"),
        ("DENSE_WEIGHT", "1.1"),
        ("DEPTH", "9"),
        ("DEPTH", "501"),
        ("THRESHOLD", "2"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(f"CONCORDANCE_SEARCH__{name}", wrong)
            with pytest.raises(ValueError, match=name.lower()):
                Settings(_env_file=None)  # type: ignore[call-arg]
