"""What a provider says about a person: which of its tokens open the interface, and which claims count."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm
from pydantic import SecretStr

from resources.keys import secret_key
from serving.identity.scim.groups import principal_of
from serving.identity.sign_in.provider import LEEWAY_SECONDS
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site
from tests.fixtures.small_provider import CLIENT, Signing, SmallProvider, small_provider
from tests.fixtures.waiting import until

ANN = "ann@acme.com"
API = "https://search.example/api"
PERSON = {"email": ANN, "email_verified": True}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


@pytest.fixture
def provider() -> Iterator[SmallProvider]:
    with small_provider() as provider:
        yield provider


def configured(site: Site, provider: SmallProvider, **more: Any) -> None:
    row = {"name": "Acme", "issuer": provider.issuer, "client_id": CLIENT, "groups_claim": "groups"} | more
    site.settings = site.settings.model_copy(update={"oidc_providers": SecretStr(json.dumps([row]))})


def opened(running: Running, token: str) -> dict[str, int]:
    """The statuses with which the interface and `/mcp` answer a token."""
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    return {
        "search": running.http.post("/api/rag/search", json={"query": "ferry"}, headers=headers).status_code,
        "documents": running.http.get("/api/documents", headers=headers).status_code,
        "page": running.http.get("/history", headers=headers).status_code,
        "mcp": running.http.post("/mcp", json=INITIALIZE, headers=headers).status_code,
    }


@pytest.mark.parametrize("audiences", [(), (API,), (API, "another-client")])
def test_an_id_token_opens_nothing(site: Site, provider: SmallProvider, audiences: tuple[str, ...]) -> None:
    """A renewed ID token has neither a nonce nor an at_hash, and is like an access token but for what it is for."""
    configured(site, provider, audiences=audiences)
    with site.running() as running:
        for what, token in {
            "ours": provider.signed(**PERSON),
            "ours, with azp": provider.signed(**PERSON, azp=CLIENT),
            "for us and the interface": provider.signed(**PERSON, aud=[CLIENT, API], azp=CLIENT),
            "of another client": provider.signed(**PERSON, aud="another-client"),
            "that says so": provider.signed(**PERSON, aud=API, scope="openid", typ="ID"),
            "with a nonce": provider.signed(**PERSON, aud=API, scope="openid", nonce="x"),
            "for the interface, without a sign of an access token": provider.signed(**PERSON, aud=API),
        }.items():
            assert set(opened(running, token).values()) == {401}, what


def test_an_access_token_opens_what_its_audience_allows(site: Site, provider: SmallProvider) -> None:
    configured(site, provider, audiences=[API])
    with site.running() as running:
        for token in (
            provider.signed("at+jwt", **PERSON, aud=API),
            provider.signed("application/at+jwt", **PERSON, aud=[API, "https://other.example"]),
            provider.signed(**PERSON, aud=API, scope="openid email"),
            provider.signed(**PERSON, aud=API, scp=["search"]),
        ):
            assert set(opened(running, token).values()) == {200}
        for token in (
            provider.signed("at+jwt", **PERSON, aud="https://other.example"),
            provider.signed("at+jwt", **PERSON, aud=[API, CLIENT]),
            provider.signed("at+jwt", **PERSON, scope="openid"),
        ):
            assert set(opened(running, token).values()) == {401}


@pytest.mark.usefixtures("no_refills")
@pytest.mark.parametrize(
    "key",
    [
        ECAlgorithm.to_jwk(ec.generate_private_key(ec.SECP384R1()).public_key(), as_dict=True),
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "AQAB"},
    ],
    ids=["another curve", "no point", "half a key"],
)
def test_a_token_of_a_listed_key_that_does_not_fit_is_refused(
    site: Site, provider: SmallProvider, key: dict[str, str]
) -> None:
    """The failure counts, and a renewal goes on."""
    configured(site, provider, audiences=[API])
    site.settings = site.settings.model_copy(update={"sign_in_failures": 2})
    provider.more_keys = [key | {"kid": "2", "use": "sig"}]
    provider.claims = dict(PERSON)
    own = provider.signing
    with site.running() as running:
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        provider.signing = (
            Signing("2", "ES256", ec.generate_private_key(ec.SECP256R1()))
            if key["kty"] == "EC"
            else own._replace(kid="2")
        )
        provider.nonce = None
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert running.http.get("/api/me", headers=cookie).status_code == 200
        token = provider.signed("at+jwt", **PERSON, aud=API)
        headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": "192.0.2.1"}
        assert [running.http.get("/api/me", headers=headers).status_code for _ in range(3)] == [401, 401, 429]
        provider.signing = own
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert running.http.get("/api/me", headers=cookie).status_code == 200


def test_an_access_token_may_expire_while_a_question_is_answered(
    site: Site, provider: SmallProvider, model_server: ModelServer
) -> None:
    site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN])
    configured(site, provider, audiences=[API])
    site.settings = site.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    body = {"query": "When does the ferry to the northern pier leave?"}
    with site.running() as running, ThreadPoolExecutor(1) as pool:
        assert set(opened(running, provider.signed("at+jwt", **PERSON, aud=API)).values()) == {200}
        begun = int(time.time()) - LEEWAY_SECONDS
        token = provider.signed("at+jwt", **PERSON, aud=API, iat=begun, exp=begun + 5)  # five seconds are left
        headers = {"Authorization": f"Bearer {token}"}
        model_server.hold()
        asked = pool.submit(running.http.post, "/api/ask", headers=headers, json=body)
        model_server.wait_for(1)
        until(lambda: running.http.get("/api/me", headers=headers).status_code != 200, "the token's end")
        model_server.release()
        assert "leaves at nine" in asked.result().text


@pytest.mark.usefixtures("no_refills")
def test_a_browser_whose_session_is_over_signs_in_without_a_failure(site: Site, provider: SmallProvider) -> None:
    configured(site, provider)
    site.settings = site.settings.model_copy(update={"sign_in_failures": 2})
    provider.claims = dict(PERSON)
    client = {"X-Forwarded-For": "192.0.2.1"}
    with site.running() as running:
        cookie = site.session(ANN)
        site.sql("DELETE FROM sessions")
        done = provider.sign_in(running, client | cookie)
        assert done.status_code == 303, done.text
        wrong = client | {"Authorization": "Bearer nonsense"}
        assert [running.http.get("/api/me", headers=wrong).status_code for _ in range(3)] == [401, 401, 429]


def test_without_audiences_no_token_of_a_provider_is_accepted(site: Site, provider: SmallProvider) -> None:
    configured(site, provider)
    with site.running() as running:
        for token in (
            provider.signed("at+jwt", **PERSON, scope="openid", client_id=CLIENT),
            provider.signed("at+jwt", **PERSON, aud=API, scope="openid"),
        ):
            assert set(opened(running, token).values()) == {401}


@pytest.mark.parametrize("with_token", [False, True])
def test_signing_out_puts_no_token_in_an_address(site: Site, provider: SmallProvider, with_token: bool) -> None:
    configured(site, provider, sign_out_with_id_token=with_token)
    provider.claims = dict(PERSON)
    with site.running() as running:
        cookie = provider.sign_in(running).headers["set-cookie"].partition(";")[0]
        [(stored,)] = site.sql("SELECT encode(secrets, 'escape') FROM sessions")
        ours = {"Cookie": cookie, "Origin": str(site.settings.public_url), "Sec-Fetch-Site": "same-origin"}
        page = running.http.post("/sign-out", headers=ours).text
        addresses = re.findall(r"(?:href|src|action|content)=\"([^\"]*)\"", page)
        assert not [one for one in addresses if "id_token" in one or "eyJ" in one]
        method = "post" if with_token else "get"
        assert f'<form id="leave" method="{method}" action="{provider.issuer}/session/end">' in page
        assert f'name="client_id" value="{CLIENT}"' in page
        hint = re.search(r'name="id_token_hint" value="([^"]+)"', page)
        assert (hint is not None) is with_token
        if hint is not None:
            assert hint[1] not in stored  # encrypted
            assert set(opened(running, hint[1]).values()) == {401}


@pytest.mark.parametrize(
    ("id_token", "userinfo", "email", "reason"),
    [
        ({"email": ANN}, {"email": "eve@acme.com", "email_verified": True}, "eve@acme.com", None),
        ({"email": ANN}, {"email_verified": True}, None, "email-unverified"),
        ({"email_verified": True}, {"email": ANN}, None, "email-unverified"),
        ({"email_verified": True}, {"email": ANN, "email_verified": False}, None, "email-unverified"),
        ({"email": ANN, "email_verified": False}, {"email": ANN, "email_verified": True}, None, "email-unverified"),
        ({"email": ANN, "email_verified": True}, {"email": ANN, "email_verified": False}, ANN, None),
        ({}, {"email": ANN, "email_verified": True}, ANN, None),
        ({"email": ANN}, {"email": ANN, "email_verified": True}, ANN, None),
    ],
)
def test_email_and_its_verification_come_from_one_answer(
    site: Site,
    provider: SmallProvider,
    id_token: dict[str, Any],
    userinfo: dict[str, Any],
    email: str | None,
    reason: str | None,
) -> None:
    configured(site, provider)  # with groups, which are asked of userinfo
    provider.claims, provider.userinfo = id_token, userinfo
    with site.running() as running:
        answer = provider.sign_in(running)
        assert answer.status_code == (303 if email else 403), answer.text
        assert site.sql("SELECT email FROM sessions") == ([(email,)] if email else [])
        running.settle()
        refused = site.sql("SELECT detail ->> 'reason' FROM audit_log WHERE action = 'sign_in_refused'")
        assert refused == ([(reason,)] if reason else [])


OVERAGE: dict[str, Any] = {
    "_claim_names": {"groups": "src1"},
    "_claim_sources": {"src1": {"endpoint": "https://graph.example/users/1/getMemberObjects"}},
}
"""What Entra ID sends for people in more than 200 groups."""


@pytest.mark.parametrize("claims", [OVERAGE, {"hasgroups": "true"}])
def test_groups_that_are_too_many_end_the_stored_ones_and_the_person_is_told(
    site: Site, provider: SmallProvider, claims: dict[str, Any]
) -> None:
    """Entra ID's userinfo endpoint takes no access token for another audience, and never has groups."""
    configured(site, provider)
    site.add("Open", ["The ferry timetable."], ["domain:acme.com"])
    site.add("Crew", ["The ferry timetable of the crew."], ["group:crew@acme.com"])
    provider.claims, provider.userinfo = PERSON | {"groups": ["crew"]}, None
    with site.running() as running:
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        ours = cookie | {"Origin": str(site.settings.public_url), "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}

        def found() -> tuple[list[str], list[str]]:
            answer = running.http.post("/api/rag/search", json={"query": "ferry timetable"}, headers=ours).json()
            return sorted(one["title"] for one in answer["results"]), [one["code"] for one in answer["warnings"]]

        assert found() == (["Crew", "Open"], [])
        assert "too many" not in running.http.get("/me", headers=cookie).text
        provider.claims, provider.nonce = PERSON | claims, None
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert found() == (["Open"], ["groups_omitted"])
        assert site.sql("SELECT groups, groups_omitted FROM sessions") == [([], True)]
        assert "because they are too many" in running.http.get("/me", headers=cookie).text
        assert "because they are too many" in running.http.get("/?q=ferry", headers=cookie).text
        assert running.http.get("/api/me", headers=cookie).json()["groups_omitted"] is True
        anew = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        assert "because they are too many" in running.http.get("/me", headers=anew).text
        provider.claims, provider.nonce = PERSON | {"groups": ["crew"]}, None
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert found() == (["Crew", "Open"], [])


@pytest.mark.parametrize(
    ("claims", "algorithm", "ends"),
    [
        (PERSON, "PS256", False),
        (PERSON | {"aud": "another-client"}, "RS256", False),
        (PERSON | {"iss": "https://elsewhere.example"}, "RS256", False),
        (PERSON | {"azp": "another-client"}, "RS256", False),
        ({"email_verified": True}, "RS256", False),
        ({"email": ANN}, "RS256", False),
        (PERSON | {"email_verified": False}, "RS256", True),
        (PERSON | {"sub": "2"}, "RS256", True),
        (PERSON | {"email": "ann@elsewhere.example"}, "RS256", True),
    ],
    ids=["algorithm", "audience", "issuer", "party", "no email", "unsaid", "unverified", "another", "domain"],
)
def test_a_renewal_ends_sessions_and_keys_only_by_what_it_says_about_the_person(
    site: Site, provider: SmallProvider, claims: dict[str, Any], algorithm: str, ends: bool
) -> None:
    """A provider whose signature or claims were set up otherwise would take the keys and agents of everyone."""
    configured(site, provider, domains=["acme.com"])
    provider.claims = dict(PERSON)
    with site.running() as running:
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        ours = cookie | {"Origin": str(site.settings.public_url), "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
        wanted = {"name": "Report", "scopes": ["read"], "expires_in_days": 1}
        assert running.http.post("/api/keys", json=wanted, headers=ours).status_code == 201
        site.agent(ANN, "Own agent")
        own = provider.signing
        provider.nonce, provider.claims, provider.signing = None, claims, own._replace(algorithm=algorithm)
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert running.http.get("/api/me", headers=cookie).status_code == (401 if ends else 200)
        provider.claims, provider.signing = dict(PERSON), own
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert running.http.get("/api/me", headers=cookie).status_code == (401 if ends else 200)
    left = site.sql("SELECT (SELECT count(*) FROM agents), count(*) FROM api_keys WHERE revoked_at IS NULL")
    assert left == [(0, 0) if ends else (1, 1)]


def test_sign_ins_in_two_tabs_both_succeed(site: Site, provider: SmallProvider) -> None:
    configured(site, provider)
    provider.claims = dict(PERSON)
    with site.running() as running:
        first, cookie = provider.begun(running)
        nonce = provider.nonce
        second, kept = provider.begun(running, {"Cookie": cookie})
        assert kept == cookie
        other, provider.nonce = provider.nonce, nonce
        ended = provider.ended(running, first, cookie)
        set_cookies = [one.partition("=")[0] for one in ended.headers.get_list("set-cookie")]
        assert (ended.status_code, set_cookies) == (303, ["__Host-concordance"])  # the browser keeps the other
        provider.nonce = other
        assert provider.ended(running, second, cookie).status_code == 303


def test_a_sign_in_may_end_after_the_key_was_rotated(site: Site, provider: SmallProvider) -> None:
    configured(site, provider)
    provider.claims = dict(PERSON)
    with site.running() as before:
        begun = provider.begun(before)
    keys = SecretStr(f"{'new key ' * 5},{secret_key(site.settings)}")
    site.settings = site.settings.model_copy(update={"secret_key": keys})
    with site.running() as after:
        assert provider.ended(after, *begun).status_code == 303


@pytest.mark.parametrize("seconds", [-7200, 7200], ids=["ahead", "behind"])
def test_while_the_clock_is_wrong_nobody_is_signed_out_or_loses_a_key(
    site: Site, provider: SmallProvider, seconds: int
) -> None:
    """The provider takes each refresh token once, and so must not be asked with the one before afterwards."""
    configured(site, provider)
    now = int(time.time())
    provider.claims = PERSON | {"groups": ["crew"]}
    with site.running() as running:
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        ours = cookie | {"Origin": str(site.settings.public_url), "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
        wanted = {"name": "Report", "scopes": ["read"], "expires_in_days": 1}
        made = running.http.post("/api/keys", json=wanted, headers=ours)
        assert made.status_code == 201
        provider.nonce = None
        for claims in ({"iat": now + seconds, "exp": now + seconds + 600}, {}):
            provider.claims = PERSON | {"groups": ["crew"]} | claims
            site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
            me = running.http.get("/api/me", headers=cookie)
            assert (me.status_code, "group:crew@acme.com" in me.text) == (200, True)
        assert site.sql("SELECT revoked_at FROM api_keys") == [(None,)]
        provider.claims = PERSON | {"iat": now + seconds, "exp": now + seconds + 600}
        assert "server differs from that of Acme" in provider.sign_in(running).text


def test_a_renewal_that_postgres_cannot_store_is_stored_a_moment_later(
    site: Site, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider takes each refresh token once: with the one before, it would end the session, the agents and the keys of its person."""
    configured(site, provider)
    provider.claims = dict(PERSON)

    def waiting() -> bool:
        found = site.sql(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%%sessions%%'"
        )
        return bool(found)

    with (
        site.running() as running,
        psycopg.connect(site.settings.postgres_dsn) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        ours = cookie | {"Origin": str(site.settings.public_url), "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
        wanted = {"name": "Report", "scopes": ["read"], "expires_in_days": 1}
        assert running.http.post("/api/keys", json=wanted, headers=ours).status_code == 201
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        provider.nonce = None
        provider.renewed = lambda: holder.execute("LOCK TABLE sessions IN ACCESS EXCLUSIVE MODE")
        with monkeypatch.context() as patch:
            patch.setattr("serving.http.database.STATEMENT_SECONDS", 0.5)
            asked = pool.submit(running.http.get, "/api/me", headers=cookie)
            until(waiting, "a statement that waits")
            until(lambda: not waiting(), "no statement that waits")
        holder.rollback()
        assert asked.result().status_code == 200
        provider.renewed = lambda: None
        site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
        assert running.http.get("/api/me", headers=cookie).status_code == 200
    assert site.sql("SELECT revoked_at FROM api_keys") == [(None,)]


def test_agents_and_keys_end_before_the_session_whose_renewal_is_refused(
    site: Site, provider: SmallProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the session is gone, no request would end them."""
    monkeypatch.setattr("serving.identity.sign_in.sessions.STORE_SECONDS", 0)
    configured(site, provider)
    provider.claims = dict(PERSON)
    with site.running() as running, psycopg.connect(site.settings.postgres_dsn) as holder:
        cookie = {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}
        ours = cookie | {"Origin": str(site.settings.public_url), "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
        wanted = {"name": "Report", "scopes": ["read"], "expires_in_days": 1}
        assert running.http.post("/api/keys", json=wanted, headers=ours).status_code == 201
        site.agent(ANN, "Own agent")
        provider.refresh_tokens.clear()
        statuses: list[int] = []
        for table in ("agents", "api_keys", None):
            if table is not None:
                holder.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            site.sql("UPDATE sessions SET refreshed_at = refreshed_at - interval '1 hour'")
            with monkeypatch.context() as patch:
                if table is not None:
                    patch.setattr("serving.http.database.STATEMENT_SECONDS", 0.5)
                statuses.append(running.http.get("/api/me", headers=cookie).status_code)
            holder.rollback()
    assert statuses == [503, 503, 401]
    assert site.sql("SELECT count(*) FROM agents") == [(0,)]
    assert site.sql("SELECT count(*) FROM api_keys WHERE revoked_at IS NULL") == [(0,)]


def test_a_group_has_the_same_principal_by_sign_in_and_by_scim(site: Site, provider: SmallProvider) -> None:
    configured(site, provider)
    names = ["Sales North", "R&D", "/eng/backend", "Crew", "board@acme.com", "Überwachung (Hafen)", "a@b@c"]
    provider.claims = PERSON | {"groups": names}
    scim = sorted(principal_of(name, None, "acme.com").removeprefix("group:") for name in names)
    with site.running() as running:
        assert provider.sign_in(running).status_code == 303
        assert site.sql("SELECT groups FROM sessions") == [(scim,)]
    assert "sales-north@acme.com" in scim
