"""Agents of today register with the bodies that they send, and those of them that live in an application connect through its own scheme."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.agents import Browser
from tests.fixtures.oidc_provider import free_port
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


@pytest.fixture
def running(site: Site) -> Iterator[Running]:
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
