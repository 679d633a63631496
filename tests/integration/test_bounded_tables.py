"""Every table that requests append to has a bound by person and time, and the bounds are enforced."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from serving.agents.connections import MAX_STATE
from serving.http.database import Database
from serving.http.request_limits import CLASSES
from serving.widget.visitors import VISITOR_QUESTIONS
from sql import ROOT, statement
from sql.own_keys import OwnKeyRows
from sql.passkeys import PasskeyReads
from sql.saved_searches import SavedSearches
from tests.fixtures.routes import limits_of
from tests.fixtures.serving import Running, Site
from tests.fixtures.waiting import until

ANN = "ann@acme.com"
NOW, DAY = datetime.now(UTC), timedelta(days=1)
SYNC = "written by syncs and events of a source, which is one process at a time"
COMMAND = "written by commands, and by administrators and operators at their rate of writes"
EVENT = "signed by Slack or Google, at the rate of `event`; repeated ones add nothing"
SCIM = "written with a key for SCIM, which operators make; one row for each user, group or member"
BOUNDS = {
    "agent_requests": "a decision of a person who is signed in; dropped after a day",
    "agent_tokens": "a hundred access tokens of a connection, and MOST_RENEWALS refresh tokens",
    "agents": "a decision of a person who is signed in; dropped after a minute, or 30 days once the agent has used it",
    "alert_notices": "the latest `MOST_NOTICES` that the webhook has not accepted",
    "alerts": "one row of a rule and source",
    "answer_cache": "as answers",
    "answers": "`a_day` of the classes `answer` and `agent`; `daily_questions` of widgets",
    "api_keys": "twenty valid keys that a person has made; the rest " + COMMAND,
    "audit_log": "one event of a request, at the rates of the classes and of failed sign-ins; `MAX_SPOOLED` without Postgres",
    "capacity_samples": "two an hour, of `KEPT_DAYS`, of each disk and the index",
    "conversations": "`a_day` of the class `track`",
    "credentials": COMMAND,
    "deletion_receipts": SYNC,
    "departures": SYNC,
    "directory": SYNC,
    "document_counts": "rows of a statement that writes documents; merged by each sync to one of a partition and state",
    "documents": SYNC,
    "embedding_reservations": SYNC,
    "embedding_usage": SYNC,
    "evaluation_results": COMMAND,
    "evaluations": COMMAND,
    "feedback": "one row of a person and answer or search",
    "fetched_contents": SYNC,
    "held_deletions": SYNC,
    "index_collections": SYNC,
    "index_entries": SYNC,
    "index_passes": "one row of a source and collection",
    "index_work": "one row of a document",
    "ingest_jobs": "`a_day` of the classes `ingest` and `upload`",
    "lake_keys": "one row of a key for each time that its row was written to the lake, until the row is erased",
    "lake_tables": "one row of a table of the lake",
    "listed_documents": SYNC,
    "listing_keys": "one row of a document",
    "model_turns": "one row of a language model in the settings",
    "notification_channels": SYNC,
    "offered_waves": "one row of a run that prepares documents for a sync; dropped when that ends",
    "partition_leases": "one row of a partition; released when the sync ends, or lapsed and deleted by the next claim",
    "partitions": SYNC,
    "passage_counts": "as document_counts",
    "passkeys": "ten of a person",
    "people": SCIM,
    "questions": "one row of a person and question; as feedback",
    "rate_buckets": "one row of a limit and caller; dropped each day once the bucket is full, which takes a minute or a day",
    "repeated_requests": "a thousand of a person, for a day",
    "revoked_tokens": COMMAND,
    "saved_searches": "a hundred of a person",
    "scim_groups": SCIM,
    "scim_members": SCIM,
    "scim_users": SCIM,
    "sessions": "fifty sessions of a person",
    "sign_ins": "a sign-in that a provider vouches for, a command, or an email to a mailbox that is due one; dropped after a day",
    "slack_questions": EVENT,
    "source_accounts": EVENT,
    "source_events": EVENT,
    "source_memory": SYNC,
    "source_settings": COMMAND,
    "source_states": SYNC,
    "source_versions": SYNC,
    "sources": "one row of an installed connector",
    "sync_errors": SYNC,
    "sync_jobs": "one at a time of a source",
    "unwithheld": "one row of a document, person, token or partition, until the index answers again",
    "uploads": "`upload_quota_files` of a person; `a_day` of the classes `ingest` and `upload` for pushes",
    "widget_days": "one row of a widget",
    "widget_visitors": "`daily_questions` of a widget; dropped after a minute",
}
"""The bound of each table into which a statement inserts."""


def test_every_table_with_an_insert_has_a_bound() -> None:
    inserts = {
        table
        for path in ROOT.rglob("*.sql")
        if path.parent.name != "migrations"
        for table in re.findall(r"^\s*INSERT INTO (\w+)", path.read_text(), re.MULTILINE)
    }
    assert inserts == set(BOUNDS)
    for name in ("answer", "agent", "track", "ingest", "upload"):
        assert CLASSES[name].a_day is not None
    assert limits_of("trackConversation") == "track"


SESSION = str(uuid4())
LIMITS: dict[str, Callable[[Database, str], Awaitable[object]]] = {
    "api_keys": lambda database, one: OwnKeyRows(database).insert_own(
        session_id=SESSION, email=ANN, key_id=one, key_hash=one, name="Report", scopes=["read"], now=NOW, expires_at=NOW + DAY, most=3,
    ),
    "passkeys": lambda database, one: PasskeyReads(database).insert_passkey(
        passkey_id=one, session_id=SESSION, email=ANN, since=NOW - DAY, user_handle=b"", credential_id=one.encode(), public_key=b"",
        sign_count=0, name="Laptop", now=NOW, most=3,
    ),
    "saved_searches": lambda database, one: SavedSearches(database).save(
        search_id=one, email=ANN, name=one, query="q", filters={}, now=NOW, most=3
    ),
}  # fmt: skip
"""What adds a row with this ID to a table of which a person has at most three."""


@pytest.mark.parametrize("table", LIMITS)
def test_requests_at_once_keep_a_persons_limit(site: Site, table: str) -> None:
    site.session(ANN)
    site.sql("UPDATE sessions SET session_id = %s", SESSION)

    async def add() -> list[object]:
        database = Database(site.settings.postgres_dsn, prepare_threshold=5, size=24)  # none waits for a connection
        await database.open()
        try:
            return await asyncio.gather(*(LIMITS[table](database, str(uuid4())) for _ in range(24)))
        finally:
            await database.close()

    with psycopg.connect(site.settings.postgres_dsn) as other, ThreadPoolExecutor(1) as pool:
        other.execute(f"LOCK TABLE {table} IN EXCLUSIVE MODE".encode())
        added = pool.submit(lambda: asyncio.run(add()))
        waiting = (
            "SELECT count(*) FROM pg_locks AS l INNER JOIN pg_database AS d ON l.database = d.oid"
            " WHERE NOT l.granted AND d.datname = current_database()"
        )
        until(lambda: added.done() or site.sql(waiting) == [(24,)], "all requests")
        other.commit()
        assert len([one for one in added.result() if one]) == 3
    assert site.sql(f"SELECT count(*) FROM {table}") == [(3,)]  # noqa: S608


def tracked(running: Running, size: int = 1000) -> Any:
    body = {"query": "q", "answer": "a" * size, "timestamp": "2026-01-15T08:00:00Z"}
    return running.request("POST", "/track", ANN, json=body)


@pytest.mark.usefixtures("no_refills")
def test_conversations_are_bounded_by_minute_day_and_size(site: Site) -> None:
    site.settings = site.settings.model_copy(update={"search_rate_limit": 10})
    kind = CLASSES["track"]
    assert (kind.share, kind.a_day, kind.body_bytes) == (0.3, 20, 64 * 1024)
    with site.running() as running:
        answers = [tracked(running) for _ in range(4)]
        assert [one.status_code for one in answers] == [202, 202, 202, 429]
        assert answers[-1].headers["retry-after"]
        assert running.request("POST", "/track", "bob@acme.com", json={}).status_code == 400  # others are not affected
        assert tracked(running, 70_000).status_code == 413


def test_a_day_has_fewer_conversations_than_its_minutes(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        CLASSES, "track", CLASSES["track"]._replace(share=100, a_day=5)
    )  # so that the day's limit is reached first
    site.settings = site.settings.model_copy(update={"search_rate_limit": 1})
    with site.running() as running:
        statuses = [tracked(running).status_code for _ in range(6)]
        refused = tracked(running)
        assert statuses == [202] * 5 + [429]
        assert refused.json()["detail"].startswith("At most 5 requests of this kind (track) a day. Try again in ")
        running.settle()
        assert site.sql("SELECT count(*) FROM conversations") == [(5,)]


def test_feedback_is_one_row_of_a_person_and_answer(site: Site, running: Running) -> None:
    site.add("Tea", ["Tea is served at four in the kitchen."], [ANN])
    answer = running.request("POST", "/api/ask", ANN, json={"query": "When is tea served?"}).json()
    running.settle()
    ids = [
        running.request("POST", "/api/feedback", ANN, json={"verdict": verdict, **named, "comment": comment})
        for verdict, named, comment in (
            ("good", {"answer_id": answer["answer_id"]}, "first"),
            ("bad", {"answer_id": answer["answer_id"]}, "second"),
            ("bad", {"query_id": answer["query_id"]}, "third"),
            ("bad", {"query_id": answer["query_id"], "answer_id": answer["answer_id"]}, "fourth"),
        )
    ]
    assert [one.status_code for one in ids] == [201] * 4
    assert len({one.json()["feedback_id"] for one in ids}) == 1
    assert site.sql("SELECT verdict, comment FROM feedback") == [("bad", "fourth")]


def test_nothing_is_stored_of_an_agents_request_before_a_person_decides(site: Site, running: Running) -> None:
    def ask(state: str) -> Any:
        return running.http.get("/oauth/authorize", params={**query, "state": state}, follow_redirects=False)

    registered = running.http.post(
        "/oauth/register",
        json={
            "redirect_uris": ["https://agent.example/callback"],
            "client_name": "Agent",
            "token_endpoint_auth_method": "none",
        },
    ).json()
    query = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": "https://agent.example/callback",
        "code_challenge": "a" * 43,
        "code_challenge_method": "S256",
    }
    before = sizes(site)
    asked = [ask("s" * MAX_STATE) for _ in range(20)]
    assert {one.status_code for one in asked} == {302}
    assert all("/oauth/consent?request=" in one.headers["location"] for one in asked)
    assert max(len(one.headers["location"]) for one in asked) < 3000
    long = ask("s" * (MAX_STATE + 1))
    assert "/oauth/consent" not in long.headers.get("location", "") + long.text
    assert sizes(site) == before


def sizes(site: Site) -> dict[str, int]:
    """Rows of each table that anonymous requests could append to."""
    (row,) = site.sql(
        "SELECT (SELECT count(*) FROM agent_requests), (SELECT count(*) FROM agents), (SELECT count(*) FROM sign_ins),"
        " (SELECT count(*) FROM sessions)"
    )
    return dict(zip(("agent_requests", "agents", "sign_ins", "sessions"), row, strict=True))


def test_a_person_keeps_the_latest_sessions_only(site: Site) -> None:
    for email in (ANN, "bob@acme.com"):
        site.sql(
            "INSERT INTO sessions (session_id, secret_hash, email, provider, subject, browser, groups, groups_at, refreshed_at,"
            " created_at, seen_at, expires_at) SELECT gen_random_uuid(), %s || n, %s, 'acme', '', '', '{}', now(), now(), now(),"
            " now() - n * interval '1 minute', now() + interval '1 day' FROM generate_series(1, 60) AS s (n)",
            email,
            email,
        )
    now = datetime.now(UTC)
    values: dict[str, Any] = {
        "session_id": str(uuid4()), "secret_hash": "new", "email": ANN, "provider": "acme", "subject": "", "passkey_id": None,
        "browser": "", "groups": [], "groups_omitted": False, "secrets": None, "administrator": False, "now": now,
        "expires_at": now + timedelta(days=1),
    }  # fmt: skip
    run(site, "sign_in", "session_insert", values)
    assert site.sql("SELECT email, count(*) FROM sessions GROUP BY 1 ORDER BY 1") == [(ANN, 50), ("bob@acme.com", 60)]
    assert site.sql("SELECT count(*) FROM sessions WHERE secret_hash IN ('new', %s, %s)", f"{ANN}1", f"{ANN}49") == [
        (3,)
    ]


def run(site: Site, family: str, name: str, values: dict[str, Any]) -> tuple[Any, ...] | None:
    """Run a statement of the service on a connection of its own, and return its row."""
    with psycopg.connect(site.settings.postgres_dsn, autocommit=True) as connection:
        cursor = connection.execute(statement(family, name).encode(), values)
        return cursor.fetchone() if cursor.description else None


def count(site: Site, widget: str, visitor: bytes, *, a_day: int, a_minute: int) -> bool:
    row = run(
        site,
        "serving",
        "widget_question",
        {"widget": widget, "visitor": visitor, "a_day": a_day, "a_minute": a_minute},
    )
    assert row is not None
    return bool(row[0])


def test_a_widgets_questions_are_exact_for_requests_at_once_and_several_services(site: Site) -> None:
    start = threading.Barrier(8)

    def visit(number: int) -> list[bool]:
        start.wait(30)
        address = bytes([number % 4])
        return [count(site, "handbook", address, a_day=25, a_minute=VISITOR_QUESTIONS) for _ in range(12)]

    with ThreadPoolExecutor(8) as pool:
        by_address: dict[int, int] = {}
        for number, allowed in enumerate(pool.map(visit, range(8))):
            by_address[number % 4] = by_address.get(number % 4, 0) + sum(allowed)
    assert sum(by_address.values()) == 25
    assert max(by_address.values()) <= VISITOR_QUESTIONS
    assert site.sql("SELECT widget, questions FROM widget_days") == [("handbook", 25)]
    assert not count(site, "handbook", b"another", a_day=25, a_minute=VISITOR_QUESTIONS)
    assert site.sql("SELECT count(*) FROM widget_visitors WHERE visitor = 'another'") == [(0,)]
    site.sql("UPDATE widget_days SET day = day - 1")
    site.sql("UPDATE widget_visitors SET latest = now() - interval '2 minutes'")
    assert count(site, "handbook", b"another", a_day=25, a_minute=VISITOR_QUESTIONS)
    assert site.sql("SELECT count(*) FROM widget_visitors") == [(1,)]


def test_an_address_asks_ten_questions_in_any_minute(site: Site) -> None:
    asked = [count(site, "w", b"x", a_day=1000, a_minute=10) for _ in range(12)]
    assert asked == [True] * 10 + [False] * 2
    site.sql(
        "UPDATE widget_visitors SET questions[1] = now() - interval '61 seconds', questions[2] = now() - interval '61 seconds'"
    )
    assert [count(site, "w", b"x", a_day=1000, a_minute=10) for _ in range(4)] == [True, True, False, False]


def test_an_agent_keeps_its_latest_tokens_only(site: Site) -> None:
    agent, now = site.agent(ANN, "Agent"), datetime.now(UTC)
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at, used_at) SELECT 'used' || n, %s, 'refresh',"
        " now() + interval '30 days', now() - n * interval '1 minute' FROM generate_series(1, 150) AS s (n)",
        agent,
    )
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at) SELECT 'access' || n, %s, 'access',"
        " now() + n * interval '1 second' FROM generate_series(100, 250) AS s (n)",
        agent,
    )
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at) VALUES ('now', %s, 'refresh', now() + interval '1 day')",
        agent,
    )
    run(
        site, "agents", "agent_token_use",
        {
            "token_hash": "now", "access_hash": "a new one", "access_expires_at": now + timedelta(minutes=15),
            "refresh_hash": f"refresh {uuid4()}", "lifetime_days": 30, "kept_since": now,
            "shared_since": now - timedelta(minutes=1), "now": now,
        },
    )  # fmt: skip
    kept = dict(site.sql("SELECT kind || (used_at IS NOT NULL)::text, count(*) FROM agent_tokens GROUP BY 1"))
    assert kept == {"refreshtrue": 151, "accessfalse": 101, "refreshfalse": 1}
    assert site.sql(
        "SELECT count(*) FROM agent_tokens WHERE token_hash IN ('used1', 'used150', 'access100', 'access250')"
    ) == [(3,)]
