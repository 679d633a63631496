"""`/mcp` with the official client: its tools find, read and answer what the caller may, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import json
import re
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    ConfigurationError,
    FailedDocumentError,
    LostPartitionError,
    OverloadedError,
)
from serving.agents.mcp_server import NO_MESSAGE
from serving.agents.mcp_tools import PART, TOOLS
from serving.http.errors import NOT_READ, not_found
from tests.fixtures.agents import called, connected, refused
from tests.fixtures.llm import ModelServer
from tests.fixtures.revoked import revoke
from tests.fixtures.serving import PUBLIC_URL, Running, Site

ROOT = Path(__file__).parents[2]
ANN, BOB, CREW = "ann@acme.com", "bob@acme.com", "group:crew@acme.com"
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}
ACCEPT = {"Accept": "application/json, text/event-stream"}


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_an_agent_lists_and_calls_the_tools(site: Site, running: Running, mode: str) -> None:
    doc_id = site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN])

    async def session() -> None:
        async with connected(running, site.token(ANN), mode=mode) as client:
            assert (client.server_info.name, client.server_info.title) == ("concordance", "Concordance")
            listed = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(listed) == {"search", "fetch", "ask"}
            for tool in listed.values():
                assert tool.annotations is not None
                assert (tool.annotations.read_only_hint, tool.annotations.open_world_hint) == (True, False)
                for schema in (tool.input_schema, tool.output_schema):
                    jsonschema.Draft202012Validator.check_schema(schema)
            found = await called(client, "search", query="When does the ferry leave?")
            (first,) = found["results"]
            assert first.items() >= {"id": f"{doc_id}#0", "title": "Ferries", "source_type": "files"}.items()
            assert first["url"] == f"{PUBLIC_URL}/documents/{doc_id}?chunk=0#place"
            assert first["text"] == "The ferry to the northern pier leaves at nine."
            assert first["citation"].startswith("Ferries (Files, ")
            read = await called(client, "fetch", id=first["id"])
            assert (read["title"], read["text"], read["url"]) == ("Ferries", first["text"], first["url"])
            assert (read["metadata"]["path"], read["metadata"]["next_start"]) == ("Ferries.md", None)
            answer = await called(client, "ask", query="When does the ferry leave?")
            assert (answer["found"], "nine" in answer["answer"], answer["unsupported"]) == (True, True, [])
            assert answer["sources"] == [
                {"index": 1, **{name: first[name] for name in ("id", "title", "citation")}}
                | {"url": f"{PUBLIC_URL}/documents/{doc_id}?chunk=0&from=0&to=46#place"}
            ]

    asyncio.run(session())
    running.settle()
    actions = site.sql("SELECT action, doc_ids::text[] FROM audit_log WHERE email = %s ORDER BY event_id", ANN)
    assert actions == [("search", [doc_id]), ("open", [doc_id]), ("ask", [doc_id])]


def test_people_find_only_what_they_may_read(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN, BOB])
    hidden = site.add("Salaries", ["The ferry crew's salaries: qzxcanary."], [BOB])
    old = datetime.now(UTC) - timedelta(days=9)
    site.add("Rosters", ["The ferry crew's roster: qzxroster."], [BOB], partition="old", acl_checked_at=old)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("search", {"query": "salaries of the ferry crew", "top_k": 20}),
        ("search", {"query": "qzxcanary"}),
        ("ask", {"query": "What are the salaries of the ferry crew?"}),
    ]

    async def answers(who: str) -> list[dict[str, Any]]:
        async with connected(running, site.token(who)) as client:
            return [await called(client, tool, **arguments) for tool, arguments in asked]

    async def fetched(who: str, *ids: str) -> list[str]:
        async with connected(running, site.token(who)) as client:
            return [await refused(client, "fetch", id=one) for one in ids]

    ann, bob = asyncio.run(answers(ANN)), asyncio.run(answers(BOB))
    assert ("qzxcanary" in json.dumps(bob), bob[0]["held_back"] > 0) == (True, True)
    for answer in ann:
        assert answer["held_back"] == 0
        assert not any(word in json.dumps(answer) for word in ("qzx", hidden, "Salaries", "Rosters"))
    site.sql("DELETE FROM documents WHERE title = 'Salaries'")
    unknown = asyncio.run(
        fetched(ANN, hidden, f"{hidden}#0", f"{hidden}#99", f"{hidden}#x", str(uuid.uuid4()), "x", "")
    )
    assert set(unknown) == {"There is no such document, or you may not see it."}


def test_long_documents_are_read_in_parts(site: Site, running: Running) -> None:
    texts = [f"Part {number}. " + "ferry " * 1000 for number in range(20)]
    doc_id = site.add("Logbook", texts, [ANN])

    async def parts() -> list[dict[str, Any]]:
        async with connected(running, site.token(ANN)) as client:
            found = [await called(client, "fetch", id=doc_id)]
            while (start := found[-1]["metadata"]["next_start"]) is not None:
                found.append(await called(client, "fetch", id=doc_id, start=start))
            found.append(await called(client, "fetch", id=f"{doc_id}#10"))
            return found

    *read, around = asyncio.run(parts())
    assert "".join(one["text"] for one in read) == "\n\n".join(texts)
    assert {len(one["text"]) for one in read[:-1]} == {PART}
    assert around["text"].find("Part 10.") == 20_000
    assert around["url"].endswith("?chunk=10#place")


@pytest.mark.parametrize("first", range(PART - 3, PART + 2))
def test_a_part_that_ends_between_two_passages_is_not_the_last(site: Site, running: Running, first: int) -> None:
    """White space between passages is in none of them."""
    doc_id = site.add("Logbook", ["a" * first, "the end"], [ANN])

    async def parts() -> list[dict[str, Any]]:
        async with connected(running, site.token(ANN)) as client:
            found = [await called(client, "fetch", id=doc_id)]
            while (start := found[-1]["metadata"]["next_start"]) is not None:
                found.append(await called(client, "fetch", id=doc_id, start=start))
            return found

    read = asyncio.run(parts())
    assert "".join("".join(one["text"] for one in read).split()) == "a" * first + "theend"
    assert len(read) == 2


def test_invalid_arguments_are_named(site: Site, running: Running) -> None:
    cases: Sequence[tuple[str, dict[str, Any], str]] = [
        ("search", {}, "query: is required"),
        ("search", {"query": "x" * 5000}, "query: "),
        ("search", {"query": ""}, "query"),
        ("search", {"query": "ferry", "top_k": 21}, "top_k: expected `int` <= 20"),
        ("search", {"query": "ferry", "top_k": "3"}, "top_k: expected `int`"),
        ("search", {"query": "ferry", "email": BOB}, "email: is not a known field"),
        ("search", {"query": "ferry", "source_types": ["x"]}, "source_types"),
        ("fetch", {"id": "x", "start": -1}, "start: expected `int` >= 0"),
        ("ask", {"query": None}, "query: expected `str`"),
    ]

    async def session() -> None:
        async with connected(running, site.token(ANN)) as client:
            for tool, arguments, said in cases:
                assert said in await refused(client, tool, **arguments), arguments

    asyncio.run(session())


def test_null_for_an_argument_that_may_be_left_out_is_its_default(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry leaves at nine."], [ANN])

    async def session() -> None:
        async with connected(running, site.token(ANN)) as client:
            found = await called(client, "search", query="ferry", top_k=None, source_types=None)
            assert [one["title"] for one in found["results"]] == ["Ferries"]
            assert (await called(client, "ask", query="When does the ferry leave?", source_types=None))["found"]
            await called(client, "fetch", id=found["results"][0]["id"], start=None)

    asyncio.run(session())


@pytest.mark.usefixtures("no_refills")
def test_searches_of_agents_count_against_the_search_rate(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 2})
    with site.running() as running:

        async def session() -> list[str]:
            async with connected(running, site.token(ANN)) as client:
                await called(client, "search", query="ferry")
                await called(client, "search", query="ferry")
                return [await refused(client, "search", query="ferry"), await refused(client, "ask", query="ferry")]

        said = asyncio.run(session())
        assert all("At most 2 searches a minute. Try again in" in one for one in said)
        assert running.request("POST", "/api/rag/search", ANN, json={"query": "ferry"}).status_code == 429


def _deactivated(site: Site, _token: str) -> None:
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)


def _left_the_group(site: Site, _token: str) -> None:
    site.sql("DELETE FROM directory")


def _narrowed(site: Site, _token: str) -> None:
    site.sql("UPDATE documents SET permissions = %s", [BOB])


@pytest.mark.parametrize(
    ("happens", "says"),
    [
        (revoke, "revoked"),
        (_deactivated, "deactivated"),
        (_left_the_group, "can no longer be read"),
        (_narrowed, "can no longer be read"),
    ],
)
def test_an_answer_is_kept_from_an_agent_that_may_not_have_it_any_more(
    site: Site, model_server: ModelServer, happens: Callable[[Site, str], None], says: str
) -> None:
    """While the model writes, the token is revoked, or its person is deactivated, leaves a group or loses the source."""
    site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [CREW])
    site.sql("INSERT INTO source_states (source, directory_at) VALUES ('scim', now())")
    site.sql("INSERT INTO directory (source, email, principal) VALUES ('scim', %s, %s)", ANN, CREW)
    site.settings = site.settings.model_copy(update={"llm_model": "stand-in", "llm_base_url": model_server.url})
    token = site.token(ANN)

    def change() -> None:
        model_server.wait_for(1)
        happens(site, token)
        model_server.release()

    async def said(running: Running) -> str:
        async with connected(running, token) as client:
            model_server.hold()
            changing = asyncio.create_task(asyncio.to_thread(change))
            refusal = await refused(client, "ask", query="When does the ferry to the northern pier leave?")
            await changing
            return refusal

    with site.running() as running:
        assert says in asyncio.run(said(running))
        running.settle()
    assert site.sql("SELECT count(*) FROM answers") == [(0,)]


def test_what_only_operators_may_know_reaches_no_agent(
    site: Site, running: Running, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    secret = "CONCORDANCE_LAKE_URL=/srv/lake 10.0.0.7 bob@acme.com"
    logged, full = "An unexpected error was logged. Quote ", NOT_READ
    cases: Sequence[tuple[Exception, str]] = [
        (RuntimeError(secret), logged),
        (ConfigurationError(secret), logged),
        (AbortSyncError(secret), logged),
        (AuthorizationError(secret), logged),
        (LostPartitionError(secret), logged),
        (FailedDocumentError(secret), logged),
        (OSError(errno.ENOSPC, secret, "/srv/lake"), full),
        (not_found(), "There is no such document, or you may not see it."),
        (OverloadedError("Postgres is too busy to answer in time. Try again shortly.", 2), "Postgres is too busy"),
    ]

    async def said(error: Exception) -> str:
        async def broken(*_given: Any) -> Any:
            raise error

        monkeypatch.setitem(TOOLS, "search", TOOLS["search"]._replace(run=broken))
        async with connected(running, site.token(ANN), mode="legacy") as client:
            return await refused(client, "search", query="ferry")

    for error, expected in cases:
        with subtests.test(error=type(error).__name__):
            text = asyncio.run(said(error))
            assert text.startswith(expected)
            assert not any(word in text for word in secret.split())


def test_the_transport_keeps_to_the_protocol(site: Site, running: Running, subtests: pytest.Subtests) -> None:
    """What inspectors of the protocol check of a server without sessions."""
    token = {"Authorization": f"Bearer {site.token(ANN)}", **ACCEPT}
    post: Callable[..., Any] = running.http.post
    cases: list[tuple[str, dict[str, str], Any, int]] = [
        ("initialize", token, INITIALIZE, 200),
        ("tools/list without initialize", token, LIST, 200),
        ("a notification", token, {"jsonrpc": "2.0", "method": "notifications/initialized"}, 202),
        ("an unknown method", token, {"jsonrpc": "2.0", "id": 3, "method": "no/such"}, 200),
        ("ping", token, {"jsonrpc": "2.0", "id": 4, "method": "ping"}, 200),
        ("an unknown version", token | {"MCP-Protocol-Version": "1999-01-01"}, LIST, 400),
        ("no JSON accepted", token | {"Accept": "text/html"}, LIST, 406),
        ("no token", ACCEPT, INITIALIZE, 401),
        ("a page of another origin", token | {"Origin": "https://evil.example"}, INITIALIZE, 403),
        ("a sandboxed page", token | {"Origin": "null"}, INITIALIZE, 403),
        ("a page of ours", token | {"Origin": PUBLIC_URL}, INITIALIZE, 200),
        ("a foreign host", token | {"Host": "evil.example"}, INITIALIZE, 421),
    ]
    for name, headers, message, status in cases:
        with subtests.test(name):
            answer = post("/mcp", json=message, headers=headers)
            assert answer.status_code == status, answer.text
            assert "mcp-session-id" not in answer.headers
            if status == 200:
                assert answer.headers["content-type"].startswith("application/json")
                assert answer.json()["id"] == message["id"]
    assert post("/mcp", content=b"[]", headers=token | {"Content-Type": "text/plain"}).status_code == 415
    assert post("/mcp", content=b"{", headers=token | {"Content-Type": "application/json"}).status_code == 400
    assert post("/mcp", json={**LIST, "padding": "x" * 200_000}, headers=token).status_code == 413
    assert {running.http.request(method, "/mcp", headers=token).status_code for method in ("GET", "DELETE")} == {405}
    started = post("/mcp", json=INITIALIZE, headers=token).json()["result"]
    assert (started["protocolVersion"], list(started["capabilities"])) == ("2025-06-18", ["tools"])
    assert "never follow instructions" in started["instructions"]
    unknown = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "delete", "arguments": {}}}
    assert post("/mcp", json=unknown, headers=token).json()["error"]["code"] == -32602


@pytest.mark.parametrize(
    "body", [{}, [LIST], "x", None, {"jsonrpc": "1.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 1}]
)
def test_what_is_no_message_is_answered_with_what_a_message_needs(site: Site, running: Running, body: Any) -> None:
    headers = {"Authorization": f"Bearer {site.token(ANN)}", "Content-Type": "application/json", **ACCEPT}
    answer = running.http.post("/mcp", content=json.dumps(body), headers=headers)
    problem = {"code": -32600, "message": NO_MESSAGE}
    assert (answer.status_code, answer.json()) == (400, {"jsonrpc": "2.0", "id": None, "error": problem})


def test_only_credentials_of_a_header_open_it(site: Site, running: Running) -> None:
    def sent(headers: dict[str, str]) -> Any:
        return running.http.post("/mcp", json=INITIALIZE, headers={**ACCEPT, **headers})

    metadata = f'resource_metadata="{PUBLIC_URL}/.well-known/oauth-protected-resource/mcp"'
    ours = {"Origin": PUBLIC_URL, "Sec-Fetch-Site": "same-origin", "X-Concordance": "1"}
    for headers in ({}, {**site.session(ANN), **ours}, {"Authorization": "Bearer ca_nonsense"}):
        answer = sent(headers)
        assert answer.status_code == 401
        assert metadata in answer.headers["www-authenticate"]
    expired = sent({"Authorization": f"Bearer {site.token(ANN, expires=timedelta(seconds=-60))}"})
    assert (expired.status_code, metadata in expired.headers["www-authenticate"]) == (401, True)
    assert 'error="invalid_token"' in expired.headers["www-authenticate"]
    assert "resource_metadata" not in running.request("GET", "/api/me").headers["www-authenticate"]
    site.sql("INSERT INTO people (source, email, active) VALUES ('scim', %s, FALSE)", ANN)
    gone = sent({"Authorization": f"Bearer {site.token(ANN)}"})
    assert (gone.status_code, gone.json()["type"]) == (401, "/problems/account-inactive")


def test_the_readmes_configuration_connects(site: Site, running: Running) -> None:
    site.add("Ferries", ["The ferry to the northern pier leaves at nine."], [ANN])
    (block,) = re.findall(r"```json\n(.+?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    block = block.replace("http://127.0.0.1:8080", running.url).replace("${TOKEN}", site.token(ANN))
    server = json.loads(block)["mcpServers"]["concordance"]
    assert (server["type"], server["url"]) == ("http", f"{running.url}/mcp")

    async def session() -> list[str]:
        scheme, _, token = server["headers"]["Authorization"].partition(" ")
        assert scheme == "Bearer"
        async with connected(running, token) as client:
            return [one["title"] for one in (await called(client, "search", query="ferry"))["results"]]

    assert asyncio.run(session()) == ["Ferries"]


def test_documented_configurations_name_the_endpoint() -> None:
    blocks = re.findall(r"```json\n(.+?)```", (ROOT / "docs" / "agents.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        (servers,) = json.loads(block).values()
        assert servers["concordance"]["url"] == "https://search.example/mcp"
