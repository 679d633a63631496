"""On a full disk every route that only reads goes on: with Postgres as usual, and without Postgres as on a disk with room."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from litestar.handlers import HTTPRouteHandler

from resources import keys
from resources.core.domain import Role
from resources.stores.postgres import session
from serving.app import route
from serving.http.audit import AuditEvent, Spool
from serving.http.errors import READING
from serving.identity import api_keys
from serving.identity.secret_hash import secret_hash
from tests.fixtures.mounts import Mount, fill
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until
from tests.integration.test_originals_http import stored
from tests.machine import test_degradation_http
from tests.machine.test_audit_http import eventually, rows, rows_or_none, spooled
from tests.machine.test_degradation_http import codes, own_postgres, titles, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the writer of the audit log look for Postgres every second."""
    monkeypatch.setattr("serving.http.audit.MAX_RETRY_SECONDS", 1.0)


class Read(NamedTuple):
    """A request that only reads. `{doc_id}` and `{answer_id}` in its path stand for existing ones."""

    path: str
    json: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = {}


QUESTION = {"query": "When does the ferry leave?"}
MCP = {"accept": "application/json, text/event-stream"}
READS: Mapping[str, Read] = {
    "search": Read("/api/rag/search", {"query": "ferry pier"}),
    "ragSearch": Read("/api/rag.search", {"query": "ferry pier"}),
    "searchFiles": Read("/api/search", {"query": "ferry pier"}),
    "ask": Read("/api/ask", QUESTION),
    "chat": Read("/api/chat", {"message": "When does the ferry leave?"}),
    "askBook": Read("/ask", QUESTION),
    "askBookSelection": Read("/ask-local", QUESTION | {"context": "ferry", "source_file": "Open.md"}),
    "mcp": Read(
        "/mcp",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "search", "arguments": {"query": "ferry"}},
        },
        MCP,
    ),
    "formatCitations": Read("/api/citations/format", {"doc_ids": ["{doc_id}"]}),
    "getAnswer": Read("/api/answers/{answer_id}"),
    "listAnswers": Read("/api/answers"),
    "ingestStatus": Read("/api/ingest/{missing}"),
    "why": Read("/api/why?source={doc_id}"),
    "me": Read("/api/me"),
    "exportMe": Read("/api/me/export"),
    "listPrincipals": Read("/api/principals?prefix=ann"),
    "listDocuments": Read("/api/documents"),
    "listCollections": Read("/api/collections"),
    "getDocument": Read("/api/documents/{doc_id}"),
    "getOriginal": Read("/api/documents/{doc_id}/original"),
    "syncStatus": Read("/api/sync/status/{missing}"),
    "listSources": Read("/api/sources"),
    "listHeldDeletions": Read("/api/held-deletions"),
    "listAudit": Read("/api/audit"),
    "listAllKeys": Read("/api/admin/keys"),
    "listAllSessions": Read("/api/admin/sessions"),
    "listAllAgents": Read("/api/admin/agents"),
    "listQuestions": Read("/api/questions"),
    "listSavedSearches": Read("/api/saved-searches"),
    "listSessions": Read("/api/sessions"),
    "listKeys": Read("/api/keys"),
    "listAgents": Read("/api/agents"),
    "scimList": Read("/scim/v2/Users"),
    "scimGet": Read("/scim/v2/Users/{missing}"),
    "alive": Read("/healthz"),
    "ready": Read("/readyz"),
    "metrics": Read("/metrics"),
    "docsPage": Read("/docs"),
    "docsDocument": Read("/docs/openapi.json"),
    "docsFile": Read("/docs/static/none"),
    "home": Read("/?q=ferry"),
    "results": Read("/results?q=ferry"),
    "viewAnswer": Read("/answers/{answer_id}"),
    "history": Read("/history"),
    "uploadPage": Read("/upload"),
    "mePage": Read("/me"),
    "sourcesPage": Read("/sources"),
    "sourceCard": Read("/sources/files"),
    "setUpPage": Read("/sources/files/set-up"),
    "auditPage": Read("/admin"),
    "keysPage": Read("/admin/keys"),
    "sessionsPage": Read("/admin/sessions"),
    "agentsPage": Read("/admin/agents"),
    "policiesPage": Read("/admin/policies"),
    "questionsPage": Read("/admin/questions"),
    "usagePage": Read("/admin/usage"),
    "feedbackPage": Read("/admin/feedback"),
    "takeDownsPage": Read("/admin/take-downs"),
    "viewDocument": Read("/documents/{doc_id}"),
    "viewOriginal": Read("/documents/{doc_id}/original"),
    "staticFile": Read("/static/none/none"),
    "signInPage": Read("/sign-in"),
    "linkPage": Read("/sign-in/link"),
    "dagsterRights": Read("/dagster/rights"),
    "protectedResource": Read("/.well-known/oauth-protected-resource"),
    "authorizationServer": Read("/.well-known/oauth-authorization-server"),
    "widgetScript": Read("/widget.js"),
}
WRITES = {
    "connectGoogle", "googleCallback", "connectSource", "sourceCallback", "startSignIn", "finishSignIn", "authorizeAgent", "agentConsent",
    "openDagster",
}  # fmt: skip
"""GET routes that begin or complete something, for which a row is stored."""


MISSING = {"ingestStatus", "syncStatus", "scimGet", "docsFile", "staticFile", "dagsterRights"}
"""Reads that find nothing here, or need the secret of another service."""


def routes() -> Iterator[tuple[str, str]]:
    """Yield the method and name of each route."""
    for path in route().routes:
        for handler in getattr(path, "route_handlers", []):
            if isinstance(handler, HTTPRouteHandler) and handler.operation_id:
                yield from ((method, str(handler.operation_id)) for method in handler.http_methods)


def test_every_route_that_reads_is_asked_here() -> None:
    assert {name for method, name in routes() if method == "GET"} - WRITES <= READS.keys()
    assert READING - READS.keys() == {"askWidget"}  # which asks as askBook does


def ask_all(
    running: Running, answer_id: str, doc_id: str, headers: Mapping[str, str], scim_key: str = ""
) -> dict[str, int]:
    """Return the status of each read."""
    names = {"doc_id": doc_id, "answer_id": answer_id, "missing": str(uuid.uuid4())}

    def put(text: str) -> str:
        for name, value in names.items():
            text = text.replace(f"{{{name}}}", value)
        return text

    found: dict[str, int] = {}
    for name, read in READS.items():
        body = {
            key: [put(one) for one in value] if key == "doc_ids" else value for key, value in (read.json or {}).items()
        }
        sent: dict[str, Any] = {"json": body} if body else {}
        method = "POST" if body else "GET"
        sent["headers"] = {**headers, **read.headers}
        if name.startswith("scim") and scim_key:
            sent["headers"] = {"Authorization": f"Bearer {scim_key}"}
        elif name == "metrics":
            sent["headers"] = {"Authorization": f"Bearer {keys.metrics_token(running.site.settings)}"}
        answer = running.http.request(method, put(read.path), **sent)
        assert 'isError":true' not in answer.text, (name, answer.text)
        found[name] = answer.status_code
    return found


REFUSE = (
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
    " $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"
)


def refuse_writes(site: Site) -> None:
    """Have Postgres answer each write as on a full disk."""
    site.sql(REFUSE)
    for (name,) in site.sql("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"):
        site.sql(
            f"CREATE TRIGGER refuse BEFORE INSERT OR UPDATE OR DELETE ON {name} FOR EACH ROW EXECUTE FUNCTION refuse()"
        )


def accept_writes(site: Site) -> None:
    site.sql("DROP FUNCTION refuse() CASCADE")


def until_noticed(running: Running) -> None:
    until(lambda: running.ready().json()["services"]["disk"]["state"] == "down", "the disk shown as down")


def prepare(site: Site, mount: Mount) -> str:
    """Add documents, and mount a disk with room for the audit log. Returns the ID of a document that everyone may read."""
    roles: Any = {Role.ADMINISTRATOR: (ANN,)}
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1_000_000, "roles": roles})
    test_degradation_http.fill(site)
    mount(site.settings.home / "audit", megabytes=32)
    return stored(site, "Rates", b"The ferry costs nine crowns at the pier.", ["public"])


def credential(site: Site, kind: str) -> dict[str, str]:
    """Return the header of a credential of Ann's whose last use has to be noted again."""
    if kind == "token":
        return {"Authorization": f"Bearer {site.token(ANN, admin=True)}"}
    headers = site.session(ANN) | {"X-Concordance": "1", "Sec-Fetch-Site": "same-origin"}
    site.sql("UPDATE sessions SET seen_at = now() - interval '5 minutes'")
    return headers


@pytest.mark.usefixtures("quick_figures")
@pytest.mark.parametrize("kind", ["token", "session"])
def test_reads_go_on_while_the_disk_is_full(site: Site, mount: Mount, kind: str) -> None:
    doc_id = prepare(site, mount)
    headers = credential(site, kind)
    with session(site.settings.postgres_dsn) as connection:
        scim_key = api_keys.create(connection, BOB, scim=True)
    with site.running() as running:
        answer_id = running.request("POST", "/api/ask", ANN, json=QUESTION).json()["answer_id"]
        running.settle()
        eventually(lambda: spooled(site), [])
        first = len(rows(site))
        usual = ask_all(running, answer_id, doc_id, headers, scim_key)
        assert {name for name, status in usual.items() if status != 200} == MISSING | (
            {"mcp"} if kind == "session" else set()
        )
        running.settle()
        site.sql("UPDATE sessions SET seen_at = now() - interval '5 minutes'")
        eventually(lambda: spooled(site), [])
        before = len(rows(site))
        refuse_writes(site)
        fill(site.settings.home / "audit")
        until_noticed(running)
        assert ask_all(running, answer_id, doc_id, headers, scim_key) == usual
        assert codes(running.search("ferry pier", BOB)) == []
        refused = running.request("POST", "/api/upload", ANN, files={"file": ("a.txt", b"A few words.")})
        assert (refused.status_code, refused.json()["type"]) == (507, "/problems/storage-full")
        assert len(rows(site)) == before
        (site.settings.home / "audit" / "filler").unlink()
        accept_writes(site)
        eventually(lambda: spooled(site), [])
        assert rows(site)[-1] == (BOB, "ferry pier")
        assert len(rows(site)) == before + (before - first) + 1


@pytest.mark.usefixtures("quick_figures")
def test_reads_go_on_as_without_postgres_when_the_full_disk_has_stopped_it(
    own_postgres: tuple[Site, Any], mount: Mount
) -> None:
    site, process = own_postgres
    doc_id = prepare(site, mount)
    headers = credential(site, "token")
    with site.running() as running:
        until_ready(running)
        answer_id = running.request("POST", "/api/ask", ANN, json=QUESTION).json()["answer_id"]
        running.settle()
        process.stop()
        assert codes(running.search("ferry pier", BOB)) == ["registry_unavailable"]
        roomy = ask_all(running, answer_id, doc_id, headers)
        assert {"search", "ragSearch", "searchFiles", "ask", "chat", "askBook", "mcp"} <= {
            name for name, status in roomy.items() if status == 200
        }
        assert 507 not in roomy.values()
        fill(site.settings.home / "audit")
        until_noticed(running)
        assert ask_all(running, answer_id, doc_id, headers) == roomy
        answer = running.search("ferry pier", BOB)
        assert (titles(answer), codes(answer)) == ({"Open"}, ["registry_unavailable"])
        (site.settings.home / "audit" / "filler").unlink()
        process.start()
        eventually(lambda: (rows_or_none(site) or [None])[-1], (BOB, "ferry pier"))


def test_an_agent_reads_while_the_disk_is_full(site: Site, mount: Mount) -> None:
    prepare(site, mount)
    agent, token = site.agent(ANN, "Claude"), "ca_" + "x" * 43
    site.sql("UPDATE agents SET seen_at = now() - interval '5 minutes'")
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at) VALUES (%s, %s, 'access', now() + interval '1 hour')",
        secret_hash(token), agent,
    )  # fmt: skip
    refuse_writes(site)
    with site.running() as running:
        answer = running.http.post("/mcp", json=READS["mcp"].json, headers={"Authorization": f"Bearer {token}", **MCP})
    assert (answer.status_code, "The ferry leaves" in answer.text) == (200, True), answer.text


def test_what_the_reserved_space_does_not_hold_is_refused(
    own_postgres: tuple[Site, Any], mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.http.audit.RESERVE_BYTES", 4096)
    site, process = own_postgres
    prepare(site, mount)
    with site.running() as running:
        until_ready(running)
        process.stop()
        fill(site.settings.home / "audit")
        statuses = [
            running.request("POST", "/api/rag/search", BOB, json={"query": f"ferry {number}" + 400 * "x"}).status_code
            for number in range(20)
        ]
        answered = statuses.index(503)
        assert statuses == [200] * answered + [503] * (20 - answered)
        assert answered > 0
        process.start()
        eventually(lambda: len(rows_or_none(site) or []), answered)


def test_a_reserved_file_of_a_killed_process_is_used_again_and_holds_no_events(tmp_path: Path) -> None:
    left = Spool.reserve(tmp_path)
    event = AuditEvent(email=BOB, action="search", query="ferry")
    held = Spool.reserve(tmp_path)
    assert held.path != left.path
    left.close()
    again = Spool.reserve(tmp_path)
    assert (again.path, again.bytes, again.has_room) == (left.path, 0, True)
    held.use()
    held.append(event)
    assert Spool.adopted(held.path) is None
    held.close()
    adopted = Spool.adopted(held.path)
    assert adopted is not None
    assert list(adopted.events()) == [event]
    adopted.remove()
    again.remove()
    assert list(tmp_path.iterdir()) == []
