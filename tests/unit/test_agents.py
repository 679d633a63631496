"""Clients of agents: what their IDs hold, and where answers to them may go."""

from __future__ import annotations

import pytest

from serving.agents.clients import NAMELESS, AgentClient, acceptable, client_of, new_client_id, shown_name
from serving.agents.events import host
from serving.agents.registration import NOT_ACCEPTABLE, TOO_MANY, replace
from serving.identity.tokens import encode

KEY, OLD = "k" * 40, "o" * 40
CLIENT = AgentClient("Claude", ["https://claude.ai/callback"])


def test_a_client_id_is_known_while_its_key_is() -> None:
    client_id = new_client_id(OLD, CLIENT)
    assert client_of([KEY, OLD], client_id) == CLIENT
    assert client_of([KEY], client_id) is None
    assert client_id != new_client_id(OLD, CLIENT)


@pytest.mark.parametrize("client_id", ["", "nobody", encode(KEY, "ann@acme.com")])
def test_nothing_else_is_a_client_id(client_id: str) -> None:
    assert client_of([KEY], client_id) is None


@pytest.mark.parametrize(
    ("registered", "asked", "allowed"),
    [
        ("https://a.example/cb", "https://a.example/cb", True),
        ("https://a.example/cb", "https://a.example:8443/cb", False),
        ("https://a.example/cb", "https://a.example/cb?x=1", False),
        ("https://a.example/cb", "http://a.example/cb", False),
        ("https://a.example", "https://a.example/", True),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1:2/cb", True),
        ("http://127.0.0.1/cb", "http://127.0.0.1:2/cb", True),
        ("http://127.0.0.1:1/cb", "http://localhost:1/cb", False),
        ("http://127.0.0.1:1/cb", "http://127.0.0.1.evil.example:1/cb", False),
        ("http://127.0.0.1:1/cb", "http://user@127.0.0.1:1/cb", False),
    ],
)
def test_answers_go_to_registered_addresses_only(registered: str, asked: str, allowed: bool) -> None:
    assert AgentClient("x", [registered]).redirects_to(asked) is allowed


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Claude", "Claude"),
        ("  A\n\tname ", "A name"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("x" * 500, "x" * 100),
        ("\u200b", NAMELESS),
        (None, NAMELESS),
    ],
)
def test_a_name_is_one_short_line(name: str | None, shown: str) -> None:
    assert shown_name(name) == shown


@pytest.mark.parametrize(
    "uri",
    [
        "https://a.example/cb",
        "http://localhost:1/cb",
        "http://[::1]/cb",
        "cursor://anysphere.cursor-mcp/oauth/callback",
        "vscode://vscode.github-authentication/did-authenticate",
        "com.example.app:/oauth/callback",
    ],
)
def test_answers_go_to_https_to_loopback_and_to_applications(uri: str) -> None:
    assert acceptable([uri]) == [uri]


@pytest.mark.parametrize(
    "uri",
    [
        "http://a.example/cb",
        "http://127.0.0.1.a.example/cb",
        "https:///cb",
        "https://a@b.example/",
        "https://a.example/#x",
        "https://a.example/#",
        "https://a.example/a b",
        "https://a.example/\u202e",
        f"https://a.example/{'x' * 500}",
        "javascript:alert(1)",
        "JavaScript://a.example/%0aalert(1)",
        "java\nscript:alert(1)",
        " javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "blob:https://a.example/x",
        "about:blank",
        "vbscript:x",
        "search-ms:query=x",
        "mailto:a@b.example",
        "urn:ietf:wg:oauth:2.0:oob",
        "cursor:",
        "cursor://user@x/cb",
        "com.example.app:/",
        "not a uri",
        "",
    ],
)
def test_answers_go_nowhere_else(uri: str) -> None:
    assert acceptable([uri, "https://a.example/cb"]) == ["https://a.example/cb"]


def test_a_registration_keeps_what_is_supported() -> None:
    wanted = {
        "redirect_uris": ["javascript:alert(1)", 7, "https://a.example/cb"],
        "grant_types": ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:jwt-bearer"],
        "token_endpoint_auth_method": "private_key_jwt",
        "client_name": "An agent",
    }
    assert replace(wanted) is None
    assert wanted == {
        "redirect_uris": ["https://a.example/cb"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
        "client_name": "An agent",
    }
    assert replace({"redirect_uris": ["file:///x"]}) == NOT_ACCEPTABLE
    assert replace({"redirect_uris": []}) == TOO_MANY
    assert replace({"redirect_uris": ["https://a.example/cb"] * 11}) == TOO_MANY
    assert replace({"redirect_uris": "https://a.example/cb"}) is None
    assert replace({}) is None


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("https://claude.ai/cb", "claude.ai"),
        ("http://127.0.0.1:33418/", "127.0.0.1:33418"),
        ("cursor://anysphere.cursor-mcp/cb", "cursor:"),
        ("com.example.app:/cb", "com.example.app:"),
    ],
)
def test_people_see_where_answers_go(uri: str, shown: str) -> None:
    assert host(uri) == shown
