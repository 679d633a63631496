"""Statements that are sent again because their connection was lost, although they had been committed: each is done once and succeeds."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import pytest
from psycopg import AsyncConnection
from structlog.testing import capture_logs

from resources.core.errors import ServiceUnavailableError
from serving.http.database import Database
from sql.agents import AgentReads
from sql.own_keys import OwnKeyRows
from sql.passkeys import PasskeyReads
from sql.repeated_requests import RepeatedRequests
from sql.serving import WebReads, WebSession
from sql.sign_in import SignInReads
from tests.fixtures.serving import Site

T = TypeVar("T")
ANN = "ann@acme.com"
NOW = datetime.now(UTC)
SOON = NOW + timedelta(minutes=5)
Statement = Callable[[Database, str], Awaitable[object]]
"""Runs for a request, which is named by its random ID."""


class LosingDatabase(Database):
    """Loses the connection of each statement once it is committed, before its answer comes."""

    def __init__(self, site: Site) -> None:
        super().__init__(site.settings.postgres_dsn, prepare_threshold=5)
        self._site = site

    async def _with_connection(self, name: str, work: Callable[[AsyncConnection[Any]], Awaitable[T]]) -> T:
        lost = False

        async def run(connection: AsyncConnection[Any]) -> T:
            nonlocal lost
            result = await work(connection)
            if not lost:
                lost = True
                self._site.sql("SELECT pg_terminate_backend(%s)", connection.info.backend_pid)
                await connection.execute("SELECT 1")
            return result

        return await super()._with_connection(name, run)


SESSION, AGENT, PASSKEY, LINK = (str(uuid.uuid4()) for _ in range(4))


async def session_insert(database: Database, request: str) -> object:
    return await SignInReads(database).session_insert(
        session_id=request, secret_hash=request, email=ANN, provider="acme", subject="", passkey_id=None, browser="",
        groups=[], groups_omitted=False, secrets=None, administrator=False, now=NOW, expires_at=SOON,
    )  # fmt: skip


async def sign_in_use(database: Database, request: str) -> object:
    return await WebReads(database).sign_in_use(
        sign_in_id=AGENT, provider="acme", claim=request, now=NOW, expires_at=SOON
    )


async def sign_in_finish(database: Database, request: str) -> object:
    return await WebReads(database).sign_in_finish(sign_in_id=LINK, claim=request, now=NOW)


async def claim(database: Database, request: str) -> object:
    return await RepeatedRequests(database).claim(
        key_hash=b"key", email=ANN, claim=request, now=NOW, expires_at=SOON, lost_before=NOW - timedelta(minutes=1), most=10
    )  # fmt: skip


async def agent_request_decide(database: Database, request: str) -> object:
    return await AgentReads(database).agent_request_decide(request_hash="x", claim=request, now=NOW, expires_at=SOON)


async def agent_insert(database: Database, request: str) -> object:
    return await AgentReads(database).agent_insert(
        agent_id=request, session_id=SESSION, client_hash="", name="", redirect_uri="", redirect_uri_sent=True, code_challenge="",
        code_hash=request, now=NOW, expires_at=SOON,
    )  # fmt: skip


async def agent_token_use(database: Database, request: str) -> object:
    return await AgentReads(database).agent_token_use(
        token_hash="code", access_hash=f"a{request}", access_expires_at=SOON, refresh_hash=f"r{request}", lifetime_days=30,
        kept_since=NOW, shared_since=NOW - timedelta(minutes=1), now=NOW,
    )  # fmt: skip


async def use_passkey(database: Database, request: str) -> object:
    now = NOW + timedelta(microseconds=uuid.UUID(request).int % 1_000_000)  # a moment of its own
    return await PasskeyReads(database).use_passkey(passkey_id=PASSKEY, sign_count=8, now=now)


async def insert_passkey(database: Database, request: str) -> object:
    return await PasskeyReads(database).insert_passkey(
        passkey_id=request, session_id=SESSION, email=ANN, since=NOW - timedelta(hours=1), user_handle=b"", credential_id=b"new",
        public_key=b"", sign_count=0, name="Laptop", now=NOW, most=2,
    )  # fmt: skip


async def insert_own(database: Database, request: str) -> object:
    return await OwnKeyRows(database).insert_own(
        session_id=SESSION, email=ANN, key_id=request, key_hash=request, name="Report", scopes=["read"], now=NOW, expires_at=SOON, most=1,
    )  # fmt: skip


NEW = str(uuid.uuid4())
QUEUED: dict[str, dict[str, Any]] = {
    "answer_insert": {
        "answer_id": NEW, "query_id": NEW, "put_at": NOW, "email": ANN, "principals": [], "question": "q", "standalone": None,
        "answer": "a", "found": True, "mode": "none", "model": None, "sources": "[]", "sentences": "[]", "unsupported": 0,
        "removed_citations": 0, "removed_links": 0, "warnings": [],
        "cached": False, "completed": True, "shareable": True, "latency_ms": 1.0, "model_ms": 1.0,
    },
    "conversation_insert": {
        "conversation_id": NEW, "put_at": NOW, "email": ANN, "query": "q", "answer": "a", "sources": "[]", "asked_at": NOW,
    },
}  # fmt: skip
"""Writes that no request waits for, with a row of each."""


@pytest.mark.parametrize("name", QUEUED)
def test_a_queued_write_recognises_its_own_repetition(site: Site, name: str) -> None:
    async def write() -> None:
        database = LosingDatabase(site)
        await database.open()
        try:
            await database.execute_many(name, [QUEUED[name]])
        finally:
            await database.close()

    asyncio.run(write())
    assert site.sql("SELECT answer_id FROM answers UNION ALL SELECT conversation_id FROM conversations") == [
        (uuid.UUID(NEW),)
    ]


AGAIN_BY_ANOTHER: dict[Statement, bool] = {
    sign_in_use: False,
    sign_in_finish: False,
    claim: False,
    agent_request_decide: False,
    agent_token_use: False,
    use_passkey: False,
    insert_passkey: False,
    insert_own: False,
    session_insert: True,
    agent_insert: True,
}
"""Whether another request, which does the same afterwards, gets what the first one got."""


@pytest.mark.parametrize("run", AGAIN_BY_ANOTHER, ids=lambda one: one.__name__)
def test_a_statement_recognises_its_own_repetition_and_no_other(site: Site, run: Statement) -> None:
    site.session(ANN)
    site.sql("UPDATE sessions SET session_id = %s", SESSION)
    site.agent(ANN, "Agent")
    site.sql("UPDATE agents SET agent_id = %s", AGENT)
    site.sql(
        "INSERT INTO agent_tokens (token_hash, agent_id, kind, expires_at) VALUES ('code', %s, 'code', %s)", AGENT, SOON
    )
    site.sql(
        "INSERT INTO passkeys (passkey_id, email, user_handle, credential_id, public_key, sign_count, name, created_at)"
        " VALUES (%s, %s, '', '', '', 7, '', now())",
        PASSKEY,
        ANN,
    )
    WebSession(site.connection).sign_in_begin(sign_in_id=LINK, requested_by="link", now=NOW, expires_at=SOON)

    async def both() -> list[bool]:
        database = LosingDatabase(site)
        await database.open()
        try:
            return [bool(await run(database, str(uuid.uuid4()))) for _ in range(2)]
        finally:
            await database.close()

    assert asyncio.run(both()) == [True, AGAIN_BY_ANOTHER[run]]


DEADLOCK = "DO $$ BEGIN IF nextval('attempts') = 1 THEN RAISE deadlock_detected; END IF; END $$"
"""Ends the first transaction as Postgres does for one that waits for another, which waits for it."""


@pytest.mark.parametrize("threaded", [False, True], ids=["statement", "thread"])
def test_a_transaction_that_postgres_ended_for_another_is_repeated(site: Site, threaded: bool) -> None:
    site.sql("CREATE SEQUENCE attempts")

    async def work() -> object:
        database = Database(site.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            if threaded:
                return await database.in_thread(lambda connection: connection.execute(DEADLOCK).statusmessage)
            return await database.run(SignInReads.declared["session_end"]._replace(text=DEADLOCK), {})
        finally:
            await database.close()

    with capture_logs() as logs:
        assert asyncio.run(work()) == ("DO" if threaded else -1)
    assert [one["event"] for one in logs] == ["deadlock"]
    assert site.sql("SELECT nextval('attempts')") == [(3,)]


def test_a_service_that_is_down_while_postgres_works_is_not_said_to_be_postgres(site: Site) -> None:
    def fail(_: object) -> None:
        raise ServiceUnavailableError("The vector index does not answer.")

    async def work() -> None:
        database = Database(site.settings.postgres_dsn, prepare_threshold=5)
        await database.open()
        try:
            await database.in_thread(fail)
        finally:
            await database.close()

    with capture_logs() as logs, pytest.raises(ServiceUnavailableError, match="The vector index does not answer"):
        asyncio.run(work())
    assert logs == []
