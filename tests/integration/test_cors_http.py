"""Pages of other origins: none may call the interface unless the setting names it, and none with a cookie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from resources.core.errors import ConfigurationError
from resources.settings import load
from tests.fixtures.serving import Running, Site

ANN, PAGE, OTHER = "ann@acme.com", "https://intranet.acme.com", "https://elsewhere.example"
PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}


@pytest.fixture
def open_to_page(site: Site) -> Iterator[Running]:
    site.settings = site.settings.model_copy(update={"cors_origins": (PAGE,)})
    with site.running() as running:
        yield running


def test_without_the_setting_no_page_of_another_origin_may_call(running: Running) -> None:
    asked = running.request("OPTIONS", "/api/rag/search", headers={"Origin": PAGE, **PREFLIGHT})
    assert asked.status_code >= 400 or "access-control-allow-origin" not in asked.headers
    found = running.request("POST", "/api/rag/search", ANN, json={"query": "tea"}, headers={"Origin": PAGE})
    assert not [name for name in found.headers if name.startswith("access-control")]


def test_a_page_that_the_setting_names_may_call_and_read_problems(site: Site, open_to_page: Running) -> None:
    asked = open_to_page.request("OPTIONS", "/api/rag/search", headers={"Origin": PAGE, **PREFLIGHT})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (204, PAGE)
    allowed = asked.headers["access-control-allow-headers"].lower().split(", ")
    assert {"authorization", "x-api-key", "content-type", "idempotency-key"} <= set(allowed)
    assert "access-control-allow-credentials" not in asked.headers
    site.add("Tea", ["Tea is served at four."], [ANN])
    found = open_to_page.request("POST", "/api/rag/search", ANN, json={"query": "tea"}, headers={"Origin": PAGE})
    assert (found.status_code, found.headers["access-control-allow-origin"]) == (200, PAGE)
    assert found.headers["vary"] == "Origin"
    script = open_to_page.request("GET", "/widget.js", headers={"Origin": PAGE})
    assert script.headers.get_list("access-control-allow-origin") == ["*"]
    for path, who in (("/api/documents/x", ANN), ("/api/documents", None), ("/nowhere", ANN)):
        problem = open_to_page.request("GET", path, who, headers={"Origin": PAGE})
        assert problem.status_code in {401, 404}
        assert problem.headers["access-control-allow-origin"] == PAGE, path
    exposed = found.headers["access-control-expose-headers"].lower().split(", ")
    assert {"retry-after", "ratelimit", "ratelimit-policy", "idempotent-replayed"} <= set(exposed)


@pytest.mark.parametrize("own_id", ["tea", "kitchen%2Ftea", "kitchen/tea/", "a%2Fb%2Foriginal"])
def test_a_page_may_push_and_delete_whatever_the_id(open_to_page: Running, own_id: str) -> None:
    for method in ("PUT", "DELETE"):
        asked = {"Origin": PAGE, "Access-Control-Request-Method": method}
        answer = open_to_page.request("OPTIONS", f"/api/documents/wiki/{own_id}", headers=asked)
        assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (204, PAGE)
        assert method in answer.headers["access-control-allow-methods"]


def test_other_origins_and_cookies_get_nothing(site: Site, open_to_page: Running) -> None:
    for origin in (OTHER, "null", PAGE + ".evil.example", PAGE.upper(), "http://intranet.acme.com"):
        asked = open_to_page.request("OPTIONS", "/api/rag/search", headers={"Origin": origin, **PREFLIGHT})
        assert (asked.status_code, asked.headers.get("access-control-allow-origin")) == (204, None), origin
        found = open_to_page.request("POST", "/api/rag/search", ANN, json={"query": "x"}, headers={"Origin": origin})
        assert "access-control-allow-origin" not in found.headers
    cookie = {**site.session(ANN), "Origin": PAGE, "X-Concordance": "1"}
    refused = open_to_page.request("POST", "/api/rag/search", json={"query": "x"}, headers=cookie)
    assert refused.json()["type"] == "/problems/origin-foreign"
    read = open_to_page.request("GET", "/api/documents", headers={**cookie, "Sec-Fetch-Site": "cross-site"})
    assert read.json()["type"] == "/problems/session-only"
    assert "access-control-allow-credentials" not in read.headers


def test_an_api_key_counts_like_a_token(site: Site, open_to_page: Running) -> None:
    headers = {"Origin": PAGE, "X-API-Key": site.token(ANN)}
    assert open_to_page.request("POST", "/api/rag/search", json={"query": "tea"}, headers=headers).status_code == 200


def test_the_setting_holds_origins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_HTTP__CORS_ORIGINS", f"{PAGE} http://localhost:3000")
    assert load(_env_file=None).cors_origins == (PAGE, "http://localhost:3000")
    for wrong in ("*", "intranet.acme.com", PAGE + "/", "https://*.acme.com", "null"):
        monkeypatch.setenv("CONCORDANCE_HTTP__CORS_ORIGINS", wrong)
        with pytest.raises(ConfigurationError, match="is not an origin"):
            load(_env_file=None)
