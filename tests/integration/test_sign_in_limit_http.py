"""Failed sign-ins are limited by address, behind a trusted proxy by the client that it names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fixtures.serving import Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ONE, TWO = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
WRONG = ("Bearer nonsense", "Bearer ck_1234_5678", "Bearer eyJhbGciOiJub25lIn0.e30.")


@pytest.mark.parametrize("wrong", WRONG)
def test_failed_sign_ins_are_limited_by_address(site: Site, wrong: str) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 3})
    with site.running() as running:
        for _ in range(5):  # what is right never counts
            assert running.request("GET", "/api/sources", ANN, headers=ONE).status_code == 200
        guesses = [running.http.get("/api/sources", headers={**ONE, "Authorization": wrong}) for _ in range(5)]
        assert [guess.status_code for guess in guesses] == [401, 401, 401, 429, 429]
        assert guesses[-1].json()["type"] == "/problems/rate-limited"
        assert "3 sign-ins" in guesses[-1].json()["detail"]
        assert 1 <= int(guesses[-1].headers["retry-after"]) <= 60
        page = running.http.get("/documents/x", headers={**ONE, "Cookie": "concordance_session=guess"})
        form = running.http.post("/api/session", data={"token": "guess"}, headers=ONE)
        assert (page.status_code, form.status_code) == (429, 429)
        other = running.http.get("/api/sources", headers={**TWO, "Authorization": wrong})
        assert other.status_code == 401  # another client of the same proxy


def test_people_behind_the_same_address_go_on(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 1})
    with site.running() as running:
        right = {**ONE, "Authorization": f"Bearer {site.token(ANN)}"}
        assert running.http.get("/api/sources", headers=right).status_code == 200
        old = {**ONE, "Authorization": f"Bearer {site.token(BOB, expires=timedelta(hours=-1))}"}
        assert [running.http.get("/api/sources", headers=old).status_code for _ in range(3)] == [401, 429, 429]
        assert running.http.get("/api/sources", headers=right).status_code == 200
