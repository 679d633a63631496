"""`/readyz` shows everyone whether searches work, and details to administrators and monitoring only."""

from __future__ import annotations

import pytest

from tests.fixtures.serving import Running, Site

ADA, BOB = "ada@acme.com", "bob@acme.com"
NOWHERE = "http://127.0.0.1:9"


def test_the_public_response_does_not_reveal_an_empty_index(running: Running) -> None:
    told = running.http.get("/readyz")
    assert (told.status_code, told.json()) == (200, {"status": "ready"})
    assert "nothing has been indexed" in running.ready().text


def test_details_are_for_administrators_and_monitoring(site: Site, subtests: pytest.Subtests) -> None:
    site.settings = site.settings.model_copy(update={"qdrant_url": NOWHERE})
    with site.running() as running:
        for credential in ("", "wrong", "ck_0000000000000000_wrong", "reader", "basic"):
            with subtests.test(credential=credential):
                token = site.token(BOB) if credential == "reader" else credential
                headers = {"Authorization": f"Bearer {token}"} if credential else {}
                if credential == "basic":
                    headers = {"Authorization": f"Basic {site.token(ADA, admin=True)}"}
                told = running.http.get("/readyz", headers=headers)
                assert (told.status_code, told.json()) == (200, {"status": "ready"})
        for known in (running.ready(), running.request("GET", "/readyz", ADA, admin=True)):
            assert known.json()["status"] == "degraded"
            assert known.json()["services"]["qdrant"]["state"] == "down"


def test_everyone_sees_that_searches_fail(site: Site) -> None:
    postgres = type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")
    site.settings = site.settings.model_copy(update={"qdrant_url": NOWHERE, "postgres_url": postgres})
    with site.running() as running:
        told = running.http.get("/readyz")
        assert (told.status_code, told.json()) == (503, {"status": "unavailable"})
        assert running.ready().json()["services"]["postgres"]["state"] == "down"


@pytest.mark.usefixtures("no_refills")
def test_failed_sign_ins_are_limited_here_too(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 2, "trusted_proxies": ()})
    with site.running() as running:
        for number in range(4):
            told = running.http.get("/readyz", headers={"Authorization": f"Bearer guess-{number}"})
            assert told.json() == {"status": "ready"}
        refused = running.http.post("/api/rag/search", json={"query": "x"}, headers={"Authorization": "Bearer other"})
        assert refused.status_code == 429
