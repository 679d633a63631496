"""Connecting agents: the official client's OAuth flow against real sessions, and everything that a code or token must not do."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import AuthorizationCodeResult
from pydantic import SecretStr

from resources.servers.processes import free_port
from resources.stores.offboarding import offboard
from resources.stores.postgres import session
from serving.agents.connections import MOST_RENEWALS, RENEWED_TOO_OFTEN, USED_TWICE
from tests.fixtures.agents import REDIRECT, Browser, Storage, called, connected, oauth
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running, Site
from tests.fixtures.small_provider import CLIENT, small_provider

ANN, BOB = "ann@acme.com", "bob@acme.com"
CREW = "group:crew@acme.com"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}


ASK = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "ask", "arguments": {"query": "When does the ferry to the northern pier leave?"}},
}


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
    """The installation behind HTTP at its own public address, where agents find its metadata."""
    port = free_port()
    site.settings = site.settings.model_copy(update={"public_url": f"http://127.0.0.1:{port}"})
    with site.running(port=port) as running:
        yield running


class Agent:
    """An agent that speaks OAuth by hand, to do what the official client does not."""

    def __init__(self, running: Running, **registered: Any) -> None:
        self.running = running
        wanted = {"client_name": "Own agent", "redirect_uris": [REDIRECT], **registered}
        self.registered = running.http.post("/oauth/register", json=wanted)
        self.client_id: str = self.registered.json().get("client_id", "")
        self.verifier = secrets.token_urlsafe(32)

    def asks(self, **changed: str | None) -> httpx.Response:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": REDIRECT,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "state": "the state",
            "resource": f"{self.running.url}/mcp",
        } | changed
        given = {name: value for name, value in query.items() if value is not None}
        return self.running.http.get("/oauth/authorize", params=given)

    def code(self, browser: Browser) -> str:
        """What the agent receives once the person has decided."""
        browser.decide(self.asks().headers["location"])
        return browser.returned.get("code", "")

    def token(self, **changed: str | None) -> httpx.Response:
        form = {"client_id": self.client_id, **changed}
        return self.running.http.post("/oauth/token", data={name: one for name, one in form.items() if one is not None})

    def exchange(self, code: str, **changed: str | None) -> httpx.Response:
        wanted = {"grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECT}
        return self.token(**(wanted | {"code_verifier": self.verifier} | changed))

    def refresh(self, token: str, **changed: str | None) -> httpx.Response:
        return self.token(**({"grant_type": "refresh_token", "refresh_token": token} | changed))

    def connect(self, browser: Browser) -> dict[str, Any]:
        tokens = self.exchange(self.code(browser))
        assert tokens.status_code == 200, tokens.text
        return tokens.json()

    def opens(self, token: str, path: str = "/mcp") -> int:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return self.running.http.post(path, json=INITIALIZE, headers=headers).status_code


def audited(running: Running, action: str) -> list[tuple[str, dict[str, Any]]]:
    running.settle()
    return running.site.sql("SELECT email, detail FROM audit_log WHERE action = %s ORDER BY event_id", action)


@pytest.mark.parametrize(
    "form", [b"client_id=%C3%A9", b"client_id=%ff", b"client_id=\xff", b"scope=\xc3\xa9&client_id=x&grant_type=y"]
)
def test_a_form_that_is_not_ascii_gets_an_error_of_oauth(running: Running, form: bytes) -> None:
    answer = running.http.post(
        "/oauth/token", content=form, headers={"Content-Type": "application/x-www-form-urlencoded"}
    )
    assert (answer.status_code in {400, 401}, "error" in answer.json()) == (True, True), answer.text


def test_the_official_client_connects_after_the_persons_consent(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], [ANN])
    site.add("Salaries", ["The ferry crew's salaries."], [BOB])
    browser, storage = Browser(running, site.session(ANN)), Storage()

    async def search() -> list[str]:
        async with connected(running, auth=oauth(running, browser, storage)) as client:
            return [one["title"] for one in (await called(client, "search", query="ferry"))["results"]]

    assert asyncio.run(search()) == ["Ferries"]
    assert ANN in browser.page
    assert "Connect Test agent?" in browser.page
    assert "127.0.0.1:33418" in browser.page
    assert browser.returned["iss"] == running.url
    assert storage.tokens is not None
    assert storage.tokens.expires_in == 900
    browser.returned = {}
    assert asyncio.run(search()) == ["Ferries"]
    assert browser.returned == {}  # nobody was asked again
    storage.tokens = storage.tokens.model_copy(update={"access_token": "ca_expired"})
    assert asyncio.run(search()) == ["Ferries"]  # by the consent page again, or by the refresh token
    ((who, detail), *_) = audited(running, "agent_connected")
    assert (who, detail["name"], detail["host"]) == (ANN, "Test agent", "127.0.0.1:33418")


def test_metadata_names_the_endpoints(running: Running) -> None:
    base = running.url
    for path in ("/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"):
        found = running.http.get(path).json()
        assert (found["resource"], found["authorization_servers"]) == (f"{base}/mcp", [base])
    server = running.http.get("/.well-known/oauth-authorization-server").json()
    assert (server["issuer"], server["code_challenge_methods_supported"]) == (base, ["S256"])
    assert server["token_endpoint_auth_methods_supported"] == ["none"]
    for name in ("authorization", "token", "registration", "revocation"):
        assert server[f"{name}_endpoint"].startswith(f"{base}/oauth/")


def test_only_public_clients_at_https_or_loopback_register(running: Running, subtests: pytest.Subtests) -> None:
    agent = Agent(running, token_endpoint_auth_method="client_secret_post", scope="everything")
    assert agent.registered.status_code == 201
    body = agent.registered.json()
    assert (body["token_endpoint_auth_method"], "client_secret" in body) == ("none", False)
    for uris, status in [
        (["https://claude.ai/api/mcp/auth_callback"], 201),
        (["http://localhost:8765/callback", "http://[::1]/callback"], 201),
        (["http://example.com/callback"], 400),
        (["cursor://anysphere.cursor-mcp/oauth/callback"], 201),
        (["javascript:alert(1)", "file:///etc/passwd", "not a uri"], 400),
        (["javascript:alert(1)"], 400),
        (["https://user@example.com/callback"], 400),
        (["https://["], 400),
        (["https://example.com:99999/callback", "https://a%zz/callback"], 400),
        (["https://[", "https://example.com:99999/callback", "https://a%zz/callback", REDIRECT], 201),
        (["https://example.com/callback#fragment"], 400),
        ([f"https://example.com/{'x' * 600}"], 400),
        ([REDIRECT] * 11, 400),
        ([], 400),
    ]:
        with subtests.test(uris=uris):
            assert Agent(running, redirect_uris=uris).registered.status_code == status


def test_requests_that_are_wrong_reach_no_person(running: Running, subtests: pytest.Subtests) -> None:
    agent = Agent(running)
    forged = agent.client_id[:-4] + ("AAAA" if not agent.client_id.endswith("AAAA") else "BBBB")
    cases: list[tuple[dict[str, str | None], str]] = [
        ({"client_id": "nobody"}, ""),
        ({"client_id": forged}, ""),
        ({"client_id": "https://a..b/x"}, ""),
        ({"client_id": f"https://{'a' * 64}.example/x"}, ""),
        ({"client_id": "https://xn--a/x"}, ""),
        ({"client_id": running.site.token(ANN)}, ""),
        ({"redirect_uri": "https://evil.example/callback"}, ""),
        ({"redirect_uri": REDIRECT + "/more"}, ""),
        ({"redirect_uri": "https://["}, ""),
        ({"redirect_uri": "https://example.com:99999/callback"}, ""),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": running.url}, "invalid_target"),
    ]
    for changed, error in cases:
        with subtests.test(changed=changed):
            answer = agent.asks(**changed)
            if not error:  # it is not told at an address that nobody vouches for
                assert answer.status_code == 400
                continue
            assert answer.headers["location"].startswith(REDIRECT)
            query = parse_qs(urlsplit(answer.headers["location"]).query)
            assert (query["error"], query["state"], query["iss"]) == ([error], ["the state"], [running.url])
    assert running.site.sql("SELECT count(*) FROM agent_requests") == [(0,)]
    any_port = agent.asks(redirect_uri=REDIRECT.replace("33418", "40001"))
    assert any_port.headers["location"].startswith(f"{running.url}/oauth/consent?request=")


def test_a_link_to_us_sends_nobody_to_a_site_that_anyone_registered(running: Running) -> None:
    site = "https://evil.example/callback?a=%22%3E"
    agent = Agent(running, redirect_uris=[site])
    answer = agent.asks(redirect_uri=site, response_type="token")
    assert (answer.status_code, "location" in answer.headers) == (400, False)
    assert "http-equiv" not in answer.text
    assert "Back to evil.example" in answer.text
    assert "error=unsupported_response_type" in answer.text
    assert f"iss={quote(running.url, safe='')}" in answer.text
    asked = agent.asks(redirect_uri=site)
    assert asked.headers["location"].startswith(f"{running.url}/oauth/consent?request=")


def test_consent_is_given_by_the_signed_in_person_on_our_own_page(site: Site, running: Running) -> None:
    agent, ann, bob = Agent(running, client_name="<b>Bad</b>\nname"), site.session(ANN), site.session(BOB)
    asked = agent.asks().headers["location"].removeprefix(running.url)
    nobody = running.http.get(asked)
    assert (nobody.status_code, nobody.headers["location"]) == (303, f"/sign-in?next={quote(asked, safe='')}")
    page = running.http.get(asked, headers=ann)
    assert "&lt;b&gt;Bad&lt;/b&gt; name" in page.text.replace("name?", "name")
    assert "<b>Bad" not in page.text
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    form = {"request": asked.partition("=")[2], "answer": "allow", "email": ANN}
    ours = {"Origin": running.url, "Sec-Fetch-Site": "same-origin"}
    post = running.http.post
    assert post("/oauth/consent", data=form, headers=ann).status_code == 403
    assert post("/oauth/consent", data=form, headers={**ann, "Sec-Fetch-Site": "cross-site"}).status_code == 403
    evil = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
    assert post("/oauth/consent", data=form, headers={**ann, **evil}).status_code == 403
    assert post("/oauth/consent", data=form, headers=ours).status_code == 303
    other = post("/oauth/consent", data=form, headers={**bob, **ours})
    assert f'value="{BOB}"' in other.text  # asked again, under the name of who is signed in
    assert site.sql("SELECT count(*) FROM agents") == [(0,)]
    forged = post("/oauth/consent", data={**form, "request": "forged"}, headers={**ann, **ours})
    assert forged.status_code == 404
    assert "code=" in post("/oauth/consent", data=form, headers={**ann, **ours}).text
    assert post("/oauth/consent", data=form, headers={**ann, **ours}).status_code == 404
    assert running.http.get(asked, headers=ann).status_code == 404
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", BOB)
    assert running.http.get(agent.asks().headers["location"], headers=bob).status_code == 303


def test_a_person_may_refuse(site: Site, running: Running) -> None:
    agent, browser = Agent(running), Browser(running, site.session(ANN), answer="refuse")
    assert agent.code(browser) == ""
    assert browser.returned == {"error": "access_denied", "state": "the state", "iss": running.url}
    assert audited(running, "agent_refused") == [(ANN, {"name": "Own agent", "host": "127.0.0.1:33418"})]
    assert site.sql("SELECT count(*) FROM agents") == [(0,)]


def test_the_official_client_refuses_a_forged_state(site: Site, running: Running) -> None:
    class Forging(Browser):
        async def answered(self) -> AuthorizationCodeResult:
            return (await super().answered()).model_copy(update={"state": "forged"})

    async def session() -> None:
        async with connected(running, auth=oauth(running, Forging(running, site.session(ANN)))):
            pass

    with pytest.raises(BaseExceptionGroup) as refused:
        asyncio.run(session())
    assert refused.group_contains(OAuthFlowError, match="State parameter mismatch")


def test_a_code_is_good_once_for_its_client_and_verifier(
    site: Site, running: Running, subtests: pytest.Subtests
) -> None:
    browser, agent = Browser(running, site.session(ANN)), Agent(running)
    code, other = agent.code(browser), Agent(running, client_name="Other")
    for changed in (
        {"code_verifier": secrets.token_urlsafe(32)},
        {"code_verifier": None},
        {"redirect_uri": "http://127.0.0.1:33418/other"},
        {"redirect_uri": None},
        {"client_id": other.client_id},
        {"client_id": "forged"},
        {"code": "forged"},
        {"resource": "https://other.example/mcp"},
    ):
        with subtests.test(changed=changed):
            assert agent.exchange(**({"code": code} | changed)).status_code in {400, 401}
    tokens = agent.exchange(code).json()
    assert agent.opens(tokens["access_token"]) == 200
    assert agent.exchange(code).json()["error"] == "invalid_grant"
    assert agent.opens(tokens["access_token"]) == 401  # a second use ends what the first one gave
    assert agent.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    ((who, detail),) = audited(running, "agent_ended")
    assert (who, detail["by"], detail["reason"]) == (ANN, "concordance", USED_TWICE)
    late = agent.code(browser)
    site.sql("UPDATE agent_tokens SET expires_at = expires_at - interval '61 seconds'")
    assert agent.exchange(late).json()["error"] == "invalid_grant"


def test_refresh_tokens_rotate_and_a_second_use_ends_the_family(site: Site, running: Running) -> None:
    agent, other = Agent(running), Agent(running, client_name="Other")
    first = agent.connect(Browser(running, site.session(ANN)))
    assert other.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    second = agent.refresh(first["refresh_token"], resource=f"{running.url}/mcp").json()
    assert second["refresh_token"] != first["refresh_token"]
    assert agent.opens(second["access_token"]) == 200
    site.sql("UPDATE agent_tokens SET used_at = used_at - interval '61 seconds'")
    assert agent.refresh(first["refresh_token"]).json()["error"] == "invalid_grant"
    assert agent.opens(second["access_token"]) == 401
    assert agent.refresh(second["refresh_token"]).json()["error"] == "invalid_grant"
    ((who, detail),) = audited(running, "agent_ended")
    assert (who, detail["reason"]) == (ANN, USED_TWICE)


def test_processes_that_share_a_refresh_token_each_get_tokens_for_a_minute(site: Site, running: Running) -> None:
    """Two windows of one agent, or one whose response was lost. The minute begins with the first use, and only once."""
    agent, other = Agent(running), Agent(running, client_name="Other")
    shared = agent.connect(Browser(running, site.session(ANN)))["refresh_token"]
    found = [agent.refresh(shared).json()]
    assert other.refresh(shared).json()["error"] == "invalid_grant"
    site.sql("UPDATE agent_tokens SET used_at = used_at - interval '40 seconds' WHERE kind = 'refresh'")
    found += [agent.refresh(shared).json(), agent.refresh(found[0]["refresh_token"]).json()]
    assert [agent.opens(one["access_token"]) for one in found] == [200, 200, 200]
    assert len({one["refresh_token"] for one in found} | {shared}) == 4
    site.sql("UPDATE agent_tokens SET used_at = used_at - interval '21 seconds' WHERE kind = 'refresh'")
    assert agent.refresh(shared).json()["error"] == "invalid_grant"
    assert [agent.opens(one["access_token"]) for one in found] == [401, 401, 401]


def test_a_refresh_token_is_remembered_however_often_it_was_renewed_since(site: Site, running: Running) -> None:
    agent = Agent(running)
    tokens = agent.connect(Browser(running, site.session(ANN)))
    stolen = tokens["refresh_token"]
    tokens = agent.refresh(stolen).json()
    site.sql("UPDATE agent_tokens SET used_at = used_at - interval '1 hour' WHERE kind = 'refresh'")
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at, used_at)"
        " SELECT 'used' || n, agent_id, 'refresh', expires_at, now() FROM agents, generate_series(1, 150) AS s (n)"
    )
    tokens = agent.refresh(tokens["refresh_token"]).json()
    assert agent.refresh(stolen).json()["error"] == "invalid_grant"
    assert agent.opens(tokens["access_token"]) == 401


def test_an_agent_that_never_stops_renewing_is_connected_anew(site: Site, running: Running) -> None:
    agent = Agent(running)
    tokens = agent.connect(Browser(running, site.session(ANN)))
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at, used_at)"
        " SELECT 'used' || n, agent_id, 'refresh', expires_at, now() FROM agents, generate_series(1, %s) AS s (n)",
        MOST_RENEWALS,
    )
    assert agent.refresh(tokens["refresh_token"]).json()["error"] == "invalid_grant"
    assert agent.opens(tokens["access_token"]) == 401
    ((who, detail),) = audited(running, "agent_ended")
    assert (who, detail["reason"]) == (ANN, RENEWED_TOO_OFTEN)


def test_an_agent_that_names_the_scope_of_refresh_tokens_gets_and_renews_them(site: Site, running: Running) -> None:
    """As ChatGPT and others do once the metadata list it: they ask for it, and name it again when they renew."""
    server = running.http.get("/.well-known/oauth-authorization-server").json()
    assert server["scopes_supported"] == ["offline_access"]
    assert "scopes_supported" not in running.http.get("/.well-known/oauth-protected-resource").json()
    agent, browser = Agent(running), Browser(running, site.session(ANN))
    browser.decide(agent.asks(scope="offline_access").headers["location"])
    tokens = agent.exchange(browser.returned["code"]).json()
    for scope in ("offline_access", "offline_access openid", None):
        renewed = agent.refresh(tokens["refresh_token"], scope=scope)
        assert renewed.status_code == 200, renewed.text
        assert renewed.json()["refresh_token"] != tokens["refresh_token"]
        tokens = renewed.json()
    assert agent.opens(tokens["access_token"]) == 200


def test_tokens_of_agents_open_mcp_and_nothing_else(site: Site, running: Running) -> None:
    doc_id = site.add("Ferries", ["The ferry leaves at nine."], [ANN])
    agent = Agent(running)
    tokens = agent.connect(Browser(running, site.session(ANN)))
    access = tokens["access_token"]
    assert agent.opens(access) == 200
    headers = {"Authorization": f"Bearer {access}"}
    for method, path in [
        ("GET", "/api/me"),
        ("GET", "/api/agents"),
        ("GET", "/api/documents"),
        ("GET", f"/documents/{doc_id}"),
        ("GET", "/scim/v2/Users"),
    ]:
        assert running.http.request(method, path, headers=headers).status_code == 401, path
    refused = running.http.post("/api/rag/search", json={"query": "ferry"}, headers=headers)
    assert refused.json()["detail"] == "This token of an agent is for /mcp only."
    assert agent.opens(tokens["refresh_token"]) == 401
    assert agent.opens(access + "x") == 401
    site.sql("UPDATE agent_tokens SET expires_at = expires_at - interval '16 minutes' WHERE kind = 'access'")
    assert agent.opens(access) == 401


def test_nothing_that_is_stored_opens_anything(site: Site, running: Running) -> None:
    agent = Agent(running)
    code = agent.code(Browser(running, site.session(ANN)))
    tokens = agent.exchange(code).json()
    running.settle()
    stored = str([site.sql(f"SELECT * FROM {name}") for name in ("agents", "agent_tokens", "audit_log")])  # noqa: S608
    for secret in (code, tokens["access_token"], tokens["refresh_token"]):
        assert secret not in stored
        assert secret[3:] not in stored


def test_people_list_and_end_their_own_agents_only(site: Site, running: Running) -> None:
    agent = Agent(running)
    access = agent.connect(Browser(running, site.session(ANN)))["access_token"]
    agent.code(Browser(running, site.session(ANN)))  # allowed, but not connected
    ((found),) = running.request("GET", "/api/agents", ANN).json()["agents"]
    assert (found["name"], found["host"]) == ("Own agent", "127.0.0.1:33418")
    assert running.request("GET", "/api/agents", BOB).json() == {"agents": []}
    path = f"/api/agents/{found['agent_id']}"
    assert running.request("DELETE", path, BOB, admin=True).status_code == 404
    assert running.request("DELETE", "/api/agents/x", ANN).status_code == 404
    assert agent.opens(access) == 200
    ended = running.request("DELETE", path, ANN)
    assert ended.json() == {"agent_id": found["agent_id"], "status": "ended"}
    assert agent.opens(access) == 401
    assert running.request("DELETE", path, ANN).status_code == 404
    ((who, detail),) = audited(running, "agent_ended")
    assert (who, detail["by"], detail["reason"]) == (ANN, ANN, "ended by its user")


def test_an_agent_may_end_its_own_connection(site: Site, running: Running) -> None:
    agent, other = Agent(running), Agent(running, client_name="Other")
    tokens = agent.connect(Browser(running, site.session(ANN)))
    post = running.http.post
    for client_id, status in ((other.client_id, 200), ("forged", 200), (agent.client_id, 401)):
        revoked = post("/oauth/revoke", data={"token": tokens["refresh_token"], "client_id": client_id})
        assert (revoked.status_code, revoked.content) == (200, b"")
        assert agent.opens(tokens["access_token"]) == status
    assert post("/oauth/revoke", data={}).status_code == 200


@pytest.mark.parametrize("ends", [False, True], ids=["expires", "is ended"])
def test_a_token_may_expire_while_an_agents_question_is_answered(
    site: Site, model_server: ModelServer, ends: bool
) -> None:
    """The agent renews its tokens meanwhile, as for another call. An answer to an agent whose connection was ended is withheld."""
    site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN])
    port = free_port()
    site.settings = site.settings.model_copy(
        update={
            "public_url": f"http://127.0.0.1:{port}",
            "llm_model": "stand-in",
            "llm_base_url": model_server.url,
        }
    )

    def change(agent: Agent, refresh_token: str) -> None:
        model_server.wait_for(1)
        site.sql("UPDATE agent_tokens SET expires_at = now() WHERE kind = 'access'")
        assert agent.refresh(refresh_token).status_code == 200
        if ends:
            site.sql("DELETE FROM agents")
        model_server.release()

    with site.running(port=port) as running, ThreadPoolExecutor(1) as pool:
        agent = Agent(running)
        tokens = agent.connect(Browser(running, site.session(ANN)))
        model_server.hold()
        changing = pool.submit(change, agent, tokens["refresh_token"])
        headers = {"Authorization": f"Bearer {tokens['access_token']}", "Accept": "application/json, text/event-stream"}
        said = running.http.post("/mcp", json=ASK, headers=headers).text
        changing.result()
        assert ("leaves at nine" in said, "was ended" in said) == (not ends, ends), said
        assert agent.opens(tokens["access_token"]) == 401


def test_offboarding_ends_agents_at_once(site: Site, running: Running) -> None:
    agent = Agent(running)
    ann, bob = (agent.connect(Browser(running, site.session(who)))["access_token"] for who in (ANN, BOB))
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
    assert (agent.opens(ann), agent.opens(bob)) == (401, 200)
    site.sql("DELETE FROM people")
    assert agent.opens(ann) == 200
    with session(site.settings.postgres_dsn) as connection, connection.transaction():
        offboard(connection, {ANN: "left"}, by="scim")
    assert (agent.opens(ann), agent.opens(bob)) == (401, 200)


def test_groups_come_from_a_fresh_session_of_the_person(site: Site, running: Running) -> None:
    site.add("Crew", ["The ferry crew meets at nine."], [CREW])
    browser = Browser(running, site.session(ANN, "crew@acme.com"))
    site.session(BOB, "crew@acme.com")
    access = Agent(running).connect(browser)["access_token"]

    async def found() -> int:
        async with connected(running, access) as client:
            return len((await called(client, "search", query="ferry crew"))["results"])

    assert asyncio.run(found()) == 1
    site.sql("UPDATE sessions SET groups_at = now() - interval '25 hours' WHERE email = %s", ANN)
    assert asyncio.run(found()) == 0
    site.session(ANN, "crew@acme.com")
    assert asyncio.run(found()) == 1
    site.sql("UPDATE sessions SET seen_at = now() - interval '13 hours' WHERE email = %s", ANN)
    assert asyncio.run(found()) == 0  # nobody has used the browser for so long that it is signed out
    site.session(ANN, "crew@acme.com")
    assert asyncio.run(found()) == 1
    site.sql("DELETE FROM sessions WHERE email = %s", ANN)
    assert asyncio.run(found()) == 0


def test_agents_end_with_the_provider_that_vouched_for_the_person(site: Site, running: Running) -> None:
    agent, cookie = Agent(running), site.session(ANN)
    access = agent.connect(Browser(running, cookie))["access_token"]
    site.sql("UPDATE agents SET provider = 'gone'")
    assert agent.opens(access) == 401
    site.sql("UPDATE agents SET provider = 'acme'")
    assert agent.opens(access) == 200
    site.sql("UPDATE agents SET provider = 'gone'")
    site.sql("UPDATE sessions SET provider = 'gone'")
    assert (
        running.http.get("/api/sessions", headers=cookie).status_code == 401
    )  # the session ends, and the agent with it
    assert site.sql("SELECT count(*) FROM agents") == [(0,)]


@pytest.mark.parametrize("signed_out", [False, True])
def test_what_the_former_holder_of_an_address_has_made_ends_when_another_account_signs_in(
    site: Site, signed_out: bool
) -> None:
    port = free_port()
    wanted = {"name": "Report", "scopes": ["read"], "expires_in_days": 1}
    with small_provider() as provider:
        row = {"name": "Acme", "issuer": provider.issuer, "client_id": CLIENT}
        site.settings = site.settings.model_copy(
            update={"public_url": f"http://127.0.0.1:{port}", "oidc_providers": SecretStr(json.dumps([row]))}
        )
        with site.running(port=port) as running:

            def signed_in(subject: str) -> dict[str, str]:
                provider.claims = {"email": ANN, "email_verified": True, "sub": subject}
                return {"Cookie": provider.sign_in(running).headers["set-cookie"].partition(";")[0]}

            def works() -> tuple[int, int, int]:
                reader = {"Authorization": f"Bearer {key}"}
                return (
                    running.http.get("/api/me", headers=former).status_code,
                    running.http.get("/api/documents", headers=reader).status_code,
                    agent.opens(token),
                )

            former, agent = signed_in("A"), Agent(running)
            ours = former | {"Origin": running.url, "X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
            key = running.http.post("/api/keys", json=wanted, headers=ours).json()["key"]
            token = agent.connect(Browser(running, former))["access_token"]
            signed_in("A")
            assert works() == (200, 200, 200)
            if signed_out:
                site.sql("DELETE FROM sessions")
            new = signed_in("B")
            assert works() == (401, 401, 401)
            assert running.http.get("/api/me", headers=new).status_code == 200
            ((by, detail),) = audited(running, "offboard")
            assert (by, detail["person"], len(detail["keys"]), len(detail["agents"])) == ("concordance", ANN, 1, 1)
