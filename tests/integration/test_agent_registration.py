"""Agents of today register with the bodies that they send, and those of them that live in an application connect through its own scheme."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx
import pytest

from resources.public_web import PublicWeb
from resources.servers.processes import free_port
from tests.fixtures.agents import REDIRECT, Browser
from tests.fixtures.serving import Running, Site
from tests.integration.test_agents_http import ANN, Agent

CURSOR = "cursor://anysphere.cursor-mcp/oauth/callback"
CODE = ["authorization_code", "refresh_token"]
BODIES: dict[str, dict[str, Any]] = {
    # Source: https://cursor.com/docs/mcp; the three URIs of one request: https://github.com/erp-mafia/accounted/pull/2225
    "cursor": {
        "client_name": "Cursor",
        "redirect_uris": [
            CURSOR,
            "https://www.cursor.com/agents/mcp/oauth/callback",
            "http://localhost:8787/callback",
        ],
        "grant_types": CODE,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    },
    # Source: https://support.anthropic.com/en/articles/11503834-building-custom-connectors-via-remote-mcp-servers
    "claude": {
        "client_name": "Claude",
        "redirect_uris": ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
        "grant_types": [*CODE, "urn:ietf:params:oauth:grant-type:jwt-bearer"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "client_secret_post",
        "scope": "claudeai",
    },
    # Source: https://claude.com/docs/connectors/building/authentication
    "claude code": {
        "client_name": "Claude Code (concordance)",
        "redirect_uris": ["http://localhost:54212/callback"],
        "grant_types": CODE,
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    },
    # Source: https://developers.openai.com/apps-sdk/build/auth
    "chatgpt": {
        "client_name": "ChatGPT",
        "redirect_uris": [
            "https://chatgpt.com/connector_platform_oauth_redirect",
            "https://chatgpt.com/connector/oauth/aBcD1234",
        ],
        "grant_types": CODE,
        "response_types": ["code"],
        "token_endpoint_auth_method": "private_key_jwt",
    },
    # Source: https://code.visualstudio.com/api/extension-guides/ai/mcp; https://github.com/microsoft/vscode/blob/main/src/vs/base/common/oauth.ts
    "vs code": {
        "client_name": "Visual Studio Code",
        "client_uri": "https://code.visualstudio.com",
        "grant_types": [*CODE, "urn:ietf:params:oauth:grant-type:device_code"],
        "response_types": ["code"],
        "redirect_uris": [
            "https://insiders.vscode.dev/redirect",
            "https://vscode.dev/redirect",
            "http://127.0.0.1/",
            "http://127.0.0.1:33418/",
        ],
        "scope": "",
        "token_endpoint_auth_method": "none",
        "application_type": "native",
    },
    "an extension of vs code": {
        "client_name": "Extension",
        "redirect_uris": ["vscode://publisher.extension/callback", "http://127.0.0.1:33418"],
    },
}


URL = "https://app.example/oauth/client.json"
DOCUMENT = {
    "client_id": URL,
    "client_name": "An app",
    "redirect_uris": [REDIRECT, "https://app.example/callback"],
    "token_endpoint_auth_method": "none",
}


class Web:
    """A web of one document, which counts who reads it."""

    def __init__(self) -> None:
        self.reads = 0
        self.gone = False

    def answer(self, _: httpx.Request) -> httpx.Response:
        self.reads += 1
        return httpx.Response(404 if self.gone else 200, json=DOCUMENT)

    async def resolve(self, host: str) -> list[str]:
        return ["10.0.0.7"] if host == "intranet.example" else ["93.184.216.34"]

    def public(self) -> PublicWeb:
        client = partial(httpx.AsyncClient, transport=httpx.MockTransport(self.answer))
        return PublicWeb(most_bytes=5120, seconds=5, resolve=self.resolve, client=client)


@pytest.fixture
def web(site: Site) -> Web:
    web = Web()
    site.web = web.public()
    return web


@pytest.fixture
def running(site: Site, web: Web) -> Iterator[Running]:
    port = free_port()
    site.settings = site.settings.model_copy(update={"public_url": f"http://127.0.0.1:{port}"})
    with site.running(port=port) as running:
        yield running


def test_agents_of_today_register(running: Running, subtests: pytest.Subtests) -> None:
    for name, body in BODIES.items():
        with subtests.test(name=name):
            agent = Agent(running, **body)
            assert agent.registered.status_code == 201, agent.registered.text
            found = agent.registered.json()
            assert [one.rstrip("/") for one in found["redirect_uris"]] == [
                one.rstrip("/") for one in body["redirect_uris"]
            ]
            assert (found["grant_types"], found["token_endpoint_auth_method"]) == (CODE, "none")
            assert "client_secret" not in found
            for uri in body["redirect_uris"]:
                asked = agent.asks(redirect_uri=uri)
                assert asked.headers["location"].startswith(f"{running.url}/oauth/consent?request="), uri


def test_one_unacceptable_redirect_does_not_refuse_the_registration(running: Running) -> None:
    agent = Agent(running, redirect_uris=["javascript:alert(1)", CURSOR, "http://example.com/cb", "not a uri"])
    assert agent.registered.status_code == 201
    assert agent.registered.json()["redirect_uris"] == [CURSOR]
    for uri in ("javascript:alert(1)", "http://example.com/cb"):
        assert agent.asks(redirect_uri=uri).status_code == 400
    refused = Agent(running, redirect_uris=["javascript:alert(1)", "data:text/html,x"]).registered
    assert (refused.status_code, refused.json()["error"]) == (400, "invalid_redirect_uri")


def test_an_agent_connects_through_the_scheme_of_its_application(site: Site, running: Running) -> None:
    browser = Browser(running, site.session(ANN))
    agent = Agent(running, **BODIES["cursor"])
    decided = browser.decide(agent.asks(redirect_uri=CURSOR).headers["location"])
    assert "<b>cursor:</b>" in browser.page
    assert f"{CURSOR}?code=" in decided.text
    tokens = agent.exchange(browser.returned["code"], redirect_uri=CURSOR)
    assert agent.opens(tokens.json()["access_token"]) == 200
    assert [one["host"] for one in running.request("GET", "/api/agents", ANN).json()["agents"]] == ["cursor:"]


def test_a_scheme_of_an_application_needs_pkce_and_gets_no_error_without_a_person(running: Running) -> None:
    agent = Agent(running, **BODIES["cursor"])
    for changed in ({"code_challenge": None}, {"code_challenge_method": "plain"}):
        answer = agent.asks(redirect_uri=CURSOR, **changed)
        assert (answer.status_code, "location" in answer.headers) == (400, False)
        assert "Back to cursor:" in answer.text
        assert "http-equiv" not in answer.text


def test_an_agent_connects_with_the_url_of_its_document(site: Site, running: Running, web: Web) -> None:
    server = running.http.get("/.well-known/oauth-authorization-server").json()
    assert server["client_id_metadata_document_supported"] is True
    assert "none" in server["token_endpoint_auth_methods_supported"]
    browser, agent = Browser(running, site.session(ANN)), Agent(running)
    agent.client_id = URL
    code = agent.code(browser)
    assert "Connect An app?" in browser.page
    assert "described by <b>app.example</b>" in browser.page
    assert web.reads == 1
    web.gone = True  # tokens do not depend on the document
    tokens = agent.exchange(code).json()
    assert agent.opens(tokens["access_token"]) == 200
    refreshed = agent.refresh(tokens["refresh_token"]).json()
    assert agent.opens(refreshed["access_token"]) == 200
    other = Agent(running)
    other.client_id = URL + "?other"
    assert other.refresh(refreshed["refresh_token"]).json()["error"] == "invalid_grant"
    assert agent.asks().status_code == 302  # the document is kept
    assert web.reads == 1


def test_a_document_says_where_answers_go(running: Running, web: Web) -> None:
    agent = Agent(running)
    agent.client_id = URL
    assert agent.asks(redirect_uri="https://app.example/callback").status_code == 302
    assert agent.asks(redirect_uri="https://evil.example/callback").status_code == 400
    assert agent.asks(redirect_uri=None).status_code == 400
    for client_id in (URL + "x", "https://intranet.example/client.json", "https://app.example/"):
        answer = agent.asks(client_id=client_id)
        assert (answer.status_code, "location" in answer.headers) == (400, False)
    told = agent.asks(client_id="https://intranet.example/client.json").json()["error_description"]
    assert "10.0.0.7" not in told
    assert web.reads == 2
