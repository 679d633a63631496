"""Clients of agents: what their IDs hold, and where answers to them may go."""

from __future__ import annotations

import pytest

from serving.agents.clients import NAMELESS, AgentClient, client_of, new_client_id, redirect_fault, shown_name
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


def test_redirect_uris_are_https_or_loopback() -> None:
    assert redirect_fault(["https://a.example/cb", "http://localhost:1/cb", "http://[::1]/cb"]) is None
    for uri in ("http://a.example/cb", "cursor://x/cb", "https:///cb", "https://a@b.example/", "https://a.example/#x"):
        assert redirect_fault([uri]) is not None
