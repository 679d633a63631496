"""Failed sign-ins are limited by address, or by the client that a trusted proxy names."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from resources.keys import secret_key
from serving.http.request_limits import CLASSES
from serving.http.sign_ins import MISSING_FACTOR, UNKNOWN_FACTOR
from serving.identity.sign_in.attempts import Attempts
from tests.fixtures.serving import Site

ANN, BOB = "ann@acme.com", "bob@acme.com"
ONE, TWO = {"X-Forwarded-For": "192.0.2.1"}, {"X-Forwarded-For": "192.0.2.2"}
pytestmark = pytest.mark.usefixtures("no_refills")
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
        page = running.http.get("/documents/x", headers={**ONE, "Cookie": "__Host-concordance=guess"})
        callback = running.http.get("/sign-in/acme/callback?state=guess&code=guess", headers=ONE)
        assert (page.status_code, callback.status_code) == (401, 429)  # nobody guesses a session
        other = running.http.get("/api/sources", headers={**TWO, "Authorization": wrong})
        assert other.status_code == 401  # another client of the same proxy


def test_a_sign_in_that_failed_keeps_where_it_was_going(site: Site) -> None:
    attempts = Attempts((secret_key(site.settings),), "sign-in")
    with site.running() as running:
        for minutes, said in ((-1, "longer than ten minutes"), (5, "started in another browser")):
            expires = datetime.now(UTC) + timedelta(minutes=minutes)
            state = attempts.signed(str(uuid.uuid4()), expires, provider="acme", after="/?q=tea", browser="other")
            page = running.http.get("/sign-in/acme/callback", params={"state": state, "code": "x"})
            assert (page.status_code, said in page.text) == (403, True)
            assert 'href="/sign-in?next=%2F%3Fq%3Dtea"' in page.text
        assert 'href="/sign-in?next=%2F"' in running.http.get(f"/sign-in/acme/callback?state={state}x&code=x").text


def test_other_users_behind_the_same_address_are_not_locked_out(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 1})
    with site.running() as running:
        right = {**ONE, "Authorization": f"Bearer {site.token(ANN)}"}
        assert running.http.get("/api/sources", headers=right).status_code == 200
        old = {**ONE, "Authorization": f"Bearer {site.token(BOB, expires=timedelta(hours=-1))}"}
        assert [running.http.get("/api/sources", headers=old).status_code for _ in range(3)] == [401, 429, 429]
        assert running.http.get("/api/sources", headers=right).status_code == 200


def refused(ask: Callable[[], httpx.Response], limit: int) -> httpx.Response:
    """Ask as often as the limit a minute allows, and return the refusal that follows."""
    assert [ask().status_code for _ in range(limit)] == [401] * limit
    answer = ask()
    assert answer.status_code == 429
    return answer


def test_requests_without_a_credential_are_limited_by_address(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 1})
    with site.running() as running:
        answer = refused(lambda: running.http.get("/api/sources", headers=ONE), MISSING_FACTOR)
        assert answer.json()["type"] == "/problems/rate-limited"
        assert int(answer.headers["retry-after"]) >= 1
        assert running.http.get("/api/sources", headers=TWO).status_code == 401
        right = {**ONE, "Authorization": f"Bearer {site.token(ANN)}"}
        assert running.http.get("/api/sources", headers=right).status_code == 200


def test_sessions_that_are_over_have_a_limit_of_their_own(site: Site) -> None:
    """Whole offices come back in the morning with the cookies of yesterday."""
    site.settings = site.settings.model_copy(update={"sign_in_failures": 2})
    with site.running() as running:
        cookies = [site.session(f"p{number}@acme.com") for number in range(2 * MISSING_FACTOR)]
        for cookie in cookies[:3]:
            assert running.http.get("/api/me", headers=ONE | cookie).status_code == 200
        site.sql("UPDATE sessions SET seen_at = seen_at - interval '13 hours'")
        pages = [running.http.get("/me", headers={**ONE, **cookie, "Accept": "text/html"}) for cookie in cookies]
        assert {one.status_code for one in pages} == {401}
        for one in pages:
            assert one.headers["set-cookie"].startswith("__Host-concordance=")
            assert "max-age=0" in one.headers["set-cookie"].lower()
            assert "secure" in one.headers["set-cookie"].lower()
        assert running.http.get("/api/me", headers=ONE).status_code == 401, (
            "they use up no request without a credential"
        )
        over = refused(lambda: running.http.get("/api/me", headers=ONE | cookies[0]), 0)
        assert "Sign in again" in over.json()["detail"]
        wrong = {**ONE, "Authorization": WRONG[0]}
        assert [running.http.get("/api/me", headers=wrong).status_code for _ in range(3)] == [401, 401, 429]
        assert running.http.get("/sign-in", headers=ONE).status_code == 200


def test_clients_of_unknown_address_share_a_limit(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"sign_in_failures": 1})
    with site.running() as running:
        known = {"Authorization": f"Bearer {site.token(ANN)}"}
        assert running.http.get("/api/sources", headers=known).status_code == 200
        wrong = {"Authorization": WRONG[0]}
        found = [running.http.get("/api/sources", headers=wrong).status_code for _ in range(UNKNOWN_FACTOR * 2)]
        assert found[:UNKNOWN_FACTOR] == [401] * UNKNOWN_FACTOR
        assert 429 in found[UNKNOWN_FACTOR:]
        assert running.http.get("/api/sources", headers=known).status_code == 200
        most = MISSING_FACTOR * UNKNOWN_FACTOR
        bare = [running.http.get("/api/sources").status_code for _ in range(most * 2)]
        assert bare[:most] == [401] * most
        assert 429 in bare[most:]
        assert running.http.get("/healthz").status_code == 200
        assert running.http.get("/readyz").status_code == 200


def test_requests_for_open_pages_from_unknown_addresses_share_a_limit(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1})
    with site.running() as running:
        most = int(CLASSES["open"].share or 0) * UNKNOWN_FACTOR
        found = [running.http.get("/docs/openapi.json").status_code for _ in range(most * 2)]
        assert found[:most] == [200] * most
        assert 429 in found[most:]
        assert running.http.get("/docs/openapi.json", headers=ONE).status_code == 200
        assert running.http.get("/healthz").status_code == 200
