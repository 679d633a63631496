"""Every response to a limited request says what its limit is and what is left of it."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.fixtures.serving import Running, Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
MOST = 3


@pytest.fixture
def limited(site: Site) -> Site:
    site.settings = site.settings.model_copy(update={"search_rate_limit": MOST})
    return site


def left(response: httpx.Response) -> dict[str, tuple[int, int, int, int]]:
    """Return quota, window, what is left and the seconds to wait, by policy."""
    policies = re.findall(r'"([a-z-]+)";q=(\d+);w=(\d+)', response.headers["ratelimit-policy"])
    rest = re.findall(r'"([a-z-]+)";r=(\d+);t=(\d+)', response.headers["ratelimit"])
    assert [name for name, *_ in policies] == [name for name, *_ in rest]
    return {name: (int(q), int(w), int(r), int(t)) for (name, q, w), (_, r, t) in zip(policies, rest, strict=True)}


def search(running: Running, who: str) -> httpx.Response:
    return running.request("POST", "/api/rag/search", who, json={"query": "ferry"})


@pytest.mark.usefixtures("no_refills")
def test_a_search_says_what_is_left_until_nothing_is(limited: Site) -> None:
    with limited.running() as running:
        found = [search(running, ANN) for _ in range(MOST + 1)]
        assert [one.status_code for one in found] == [200] * MOST + [429]
        assert [left(one)["search"][:3] for one in found] == [(MOST, 60, rest) for rest in (2, 1, 0, 0)]
        assert str(left(found[-1])["search"][3]) == found[-1].headers["retry-after"]
        assert left(search(running, BOB))["search"][2] == MOST - 1


def test_reads_writes_and_errors_say_it_too(running: Running) -> None:
    me = running.request("GET", "/api/me", ANN)
    quota, window, rest, wait = left(me)["read"]
    assert (window, rest, wait) == (60, quota - 1, 1)
    missing = running.request("GET", "/api/documents/b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706", ANN)
    assert (missing.status_code, left(missing)["read"][0]) == (404, quota)
    wrong = running.request("POST", "/api/feedback", ANN, json={"verdict": "bad"})
    assert (wrong.status_code, list(left(wrong))) == (400, ["write"])
    asked = running.request("POST", "/api/ask", ANN, json={"query": "When does the ferry leave?"})
    assert sorted(left(asked)) == ["answer-a-day", "search"]
    assert left(asked)["answer-a-day"][1] == 24 * 60 * 60


def test_what_is_not_limited_says_nothing(running: Running) -> None:
    unknown = running.http.get("/no/such/path")
    assert (unknown.status_code, "ratelimit" in unknown.headers) == (404, False)
