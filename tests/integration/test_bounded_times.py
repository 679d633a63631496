"""Times from outside, at every door: what is accepted is indexed by the next sync and equal at the next call; the rest is refused."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

import dagster as dg
import httpx
import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestration.schedules import sync_job, waiting_sensor
from resources.core.domain import Batch, SourceName
from resources.core.moments import EARLIEST, END
from resources.sources import spec_of
from resources.sources.files import Files
from resources.stores.migrate import MIGRATIONS, migrate
from resources.stores.postgres import session
from serving.http.cursors import encode
from sql.sync import Jobs
from tests.fixtures.installation import Installation
from tests.fixtures.postgres import PostgresProcess, with_database
from tests.fixtures.serving import Running, Site
from tests.fixtures.upkeep import as_environment, do
from tests.integration.test_push_http import batch, push, pushed, with_publishers

BEFORE_ALL = "0001-01-01T00:00:00+14:00"
"""The year 1 where it is written, and 1 BC in UTC."""
AFTER_ALL = "9999-12-31T23:59:59-12:00"
WRONG = (BEFORE_ALL, AFTER_ALL, "1969-12-31T23:59:59Z", "9999-12-31T00:00:00Z")
AUDITOR = "helen@acme.com"
OWN_CLOCK = {
    "agent_requests.expires_at", "agent_tokens.expires_at", "agent_tokens.used_at", "agents.created_at", "agents.expires_at",
    "agents.seen_at", "alert_notices.created_at", "alert_notices.next_at", "alerts.fired_at", "alerts.noticed_at", "alerts.resolved_at",
    "alerts.seen_at", "alerts.since", "answer_cache.created_at", "answer_cache.expires_at", "answers.created_at", "answers.erased_at",
    "answers.shared_at", "api_keys.created_at", "api_keys.revoked_at", "api_keys.used_at", "audit_log.at", "capacity_samples.sampled_at",
    "conversations.created_at",
    "conversations.erased_at", "credentials.connected_at", "credentials.updated_at",
    "source_settings.updated_at", "deletion_receipts.caches_gone_at",
    "deletion_receipts.erased_at", "deletion_receipts.points_gone_at", "deletion_receipts.tombstone_at",
    "deletion_receipts.verified_at", "departures.left_at", "documents.changed_at", "documents.deleted_at",
    "documents.first_seen_at", "evaluations.at", "feedback.created_at", "grant_audit.at", "grant_audit.effective_at",
    "held_deletions.approved_at", "held_deletions.held_at", "hidden_documents.hidden_at", "index_collections.created_at",
    "index_collections.replaced_at", "index_entries.indexed_at", "ingest_jobs.created_at", "notification_channels.created_at",
    "notification_channels.notified_at", "offered_waves.taken_at", "partition_leases.until",
    "partitions.acl_checked_at", "partitions.acl_indexed_at",
    "lake_keys.at", "lake_tables.after",
    "partitions.counted_at", "passkeys.created_at", "passkeys.used_at",
    "partitions.last_sync_at", "partitions.lost_at", "people.moved_at", "people.tokens_since", "people.updated_at",
    "questions.added_at", "revoked_tokens.revoked_at",
    "schema_migrations.applied_at", "scim_groups.created_at", "scim_groups.modified_at", "scim_users.created_at",
    "saved_searches.saved_at", "embedding_reservations.until", "rate_buckets.at", "rate_buckets.full_at",
    "sync_jobs.webhook_next_at", "sync_jobs.webhook_told_at",
    "repeated_requests.claimed_at", "repeated_requests.expires_at",
    "scim_users.modified_at", "sessions.created_at", "sessions.expires_at", "sessions.groups_at", "sessions.refreshed_at",
    "sessions.seen_at", "sign_ins.expires_at", "slack_questions.leased_until", "slack_questions.rated_at",
    "slack_questions.received_at", "source_events.asked_at", "source_events.received_at", "source_states.directory_at",
    "source_states.paused_at", "source_states.set_up_at", "source_states.tried_at", "sync_errors.at",
    "sync_jobs.claimed_at", "sync_jobs.completed_at", "sync_jobs.heartbeat_at", "sync_jobs.requested_at", "sync_jobs.started_at",
    "unwithheld.noted_at",
    "uploads.deleted_at", "uploads.taken_down_at", "widget_visitors.latest",
}  # fmt: skip
"""Columns whose times come from the clock of Postgres or of a process of ours, and from no one else."""


@pytest.fixture
def pushing(installation: Installation, bundled_model: Any) -> Iterator[Running]:
    """The installation behind HTTP, with publishers."""
    with with_publishers(Site(installation.settings, bundled_model)).running() as running:
        yield running


def states(installation: Installation) -> dict[str, str]:
    rows = installation.rows("SELECT source_title, state FROM documents")
    return {row["source_title"]: row["state"] for row in rows}


def test_every_time_in_postgres_is_bounded_or_our_own(installation: Installation) -> None:
    columns = installation.rows(
        "SELECT c.table_name || '.' || c.column_name AS name, EXISTS (SELECT FROM pg_constraint AS k"
        " WHERE k.conrelid = c.table_name::regclass AND k.contype = 'c'"
        " AND pg_get_constraintdef(k.oid) LIKE '%%is_bounded(' || c.column_name || ')%%') AS bounded"
        " FROM information_schema.columns AS c INNER JOIN information_schema.tables AS t USING (table_schema, table_name)"
        " WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.data_type LIKE 'timestamp%%'"
    )
    assert {row["name"] for row in columns if not row["bounded"]} == OWN_CLOCK
    bounds = installation.rows(
        "SELECT is_bounded(%s) AS first, is_bounded(%s - interval '1 microsecond') AS before,"
        " is_bounded(%s) AS after, is_bounded(%s - interval '1 microsecond') AS last",
        EARLIEST, EARLIEST, END, END,
    )  # fmt: skip
    assert bounds == [{"first": True, "before": False, "after": False, "last": True}]


@pytest.mark.parametrize("time", WRONG)
def test_a_push_with_a_time_out_of_bounds_is_refused_and_stops_nothing(
    pushing: Running, installation: Installation, time: str
) -> None:
    refused = push(pushing, "broken", title="Broken", modified_at=time)
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (400, "modified_at")
    pushed(pushing, "tea", title="Tea")
    assert installation.sync(SourceName.PUSH).counts.synced == 1
    assert states(installation) == {"Tea": "live"}


@pytest.mark.parametrize(
    ("method", "path", "more", "field"),
    [
        ("POST", "/api/rag/search", {"json": {"query": "x", "filters": {"date_range": {"start": "T"}}}}, "filters.date_range.start"),
        ("POST", "/api/rag/search", {"json": {"query": "x", "filters": {"date_range": {"end": "T"}}}}, "filters.date_range.end"),
        ("POST", "/api/ask", {"json": {"query": "x", "filters": {"date_range": {"end": "T"}}}}, "filters.date_range.end"),
        ("GET", "/api/documents", {"params": {"start": "T"}}, "start"),
        ("GET", "/api/documents", {"params": {"end": "T"}}, "end"),
        ("GET", "/api/audit", {"params": {"since": "T"}}, "since"),
        ("GET", "/api/audit", {"params": {"until": "T"}}, "until"),
        ("GET", "/admin", {"params": {"since": "D"}}, "since"),
        ("GET", "/admin", {"params": {"until": "D"}}, "until"),
        ("POST", "/track", {"json": {"query": "x", "answer": "y", "timestamp": "T"}}, "timestamp"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("time", WRONG)
def test_a_time_out_of_bounds_is_a_400_that_names_the_field(
    site: Site, running: Running, method: str, path: str, more: dict[str, Any], field: str, time: str
) -> None:
    sent = json.loads(json.dumps(more).replace('"T"', f'"{time}"').replace('"D"', f'"{time[:10]}"'))
    if path == "/admin":
        cookie = site.session(AUDITOR)
        site.sql("UPDATE sessions SET administrator = TRUE")
        response = running.http.get(path, headers=cookie, **sent)
        assert (response.status_code, field in response.text) == (400, True)
        return
    response: httpx.Response = running.request(method, path, AUDITOR, admin=True, **sent)
    assert (response.status_code, response.json()["detail"].partition(":")[0]) == (400, field), response.text


@pytest.mark.parametrize("path", ["/api/documents", "/api/audit", "/api/answers"])
def test_a_cursor_with_a_time_out_of_bounds_is_a_400(running: Running, path: str) -> None:
    for time in WRONG:
        for last in (str(uuid4()), 1):
            response = running.request("GET", path, AUDITOR, admin=True, params={"cursor": encode((time, last))})
            assert (response.status_code, response.json()["detail"].partition(":")[0]) == (400, "cursor")


TIMES = st.datetimes(timezones=st.integers(-839, 839).map(lambda minutes: timezone(timedelta(minutes=minutes))))
PAST = st.datetimes(
    datetime(1969, 12, 30),  # noqa: DTZ001 (the strategy adds offsets)
    datetime(2026, 1, 1),  # noqa: DTZ001
    timezones=st.integers(-839, 839).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(times=st.lists(TIMES | PAST, min_size=12, max_size=12, unique=True))
def test_what_a_door_accepts_the_next_sync_indexes_and_a_second_call_finds_equal(
    pushing: Running, installation: Installation, times: list[datetime]
) -> None:
    run = uuid4().hex
    documents = [
        {"id": f"{run} {n}", "title": f"{run} {n}", "content": f"Tea {run} {n}", "modified_at": time.isoformat()}
        for n, time in enumerate(times)
    ]
    first = batch(pushing, *documents).json()["results"]
    accepted = {one["id"] for one in first if one["status"]}
    assert {one["error"]["detail"].partition(":")[0] for one in first if not one["status"]} <= {"modified_at"}
    for n, time in enumerate(times):
        sidecar = {"created_at": time.isoformat(), "modified_at": time.isoformat()}
        installation.write(f"{run}/{n}.md", f"Coffee {run} {n}", **sidecar)
        path = installation.write(f"{run}/mtime {n}.md", f"Milk {run} {n}")
        seconds = (time - EARLIEST) // timedelta(seconds=1)
        os.utime(path, (seconds, seconds))
    for source in (SourceName.PUSH, SourceName.FILES):
        job = installation.sync(source)
        assert (job.error, job.counts.failed) == (None, 0)
        assert installation.agrees()
    live = {title for title, state in states(installation).items() if state == "live"}
    assert accepted == {title for title in live if title.startswith(run)}
    assert {f"mtime {n}.md" for n in range(len(times))} <= live
    again = batch(pushing, *documents).json()["results"]
    assert {one["id"] for one in again if one["status"] == "unchanged"} == accepted
    assert installation.sync(SourceName.FILES).counts.synced == 0
    shutil.rmtree(installation.root / run)


class Wrong(Files):
    """A connector that hands over the times of its service as they are."""

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        early, late = datetime.fromisoformat(BEFORE_ALL), datetime.max.replace(tzinfo=UTC)
        for found in super().changes(partition, cursor):
            seen = [msgspec.structs.replace(item, created_at=early, modified_at=late) for item in found.seen]
            yield msgspec.structs.replace(found, seen=seen)


def test_times_of_any_source_are_bounded_before_they_are_stored(installation: Installation) -> None:
    installation.write("tea.md", "Tea is served at four.")
    assert installation.sync(port=Wrong(installation.settings)).counts.synced == 1
    assert installation.rows("SELECT state, created_at, modified_at FROM documents") == [
        {"state": "live", "created_at": None, "modified_at": None}
    ]
    assert installation.agrees()


def test_a_record_that_cannot_be_read_costs_that_document_only(pushing: Running, installation: Installation) -> None:
    for name in ("a", "b", "c"):
        pushed(pushing, name, title=name, content=f"Text of {name}")
    do(installation, "ALTER TABLE uploads DROP CONSTRAINT uploads_modified_at_bounded")
    do(installation, "UPDATE uploads SET modified_at = '0044-03-15 BC' WHERE title = 'b'")
    job = installation.sync(SourceName.PUSH)
    assert (job.error, job.counts.synced, job.counts.skipped) == (None, 2, 1)
    assert states(installation) == {"a": "live", "c": "live", "b.md": "skipped"}
    pushed(pushing, "d", title="d", content="Text of d")
    assert installation.sync(SourceName.PUSH).counts.synced == 1


def test_an_upgrade_repairs_times_that_are_stored_already(postgres_server: PostgresProcess, tmp_path: Path) -> None:
    name = f"e_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    dsn = with_database(postgres_server.dsn, name)
    for file in sorted(MIGRATIONS.glob("*.sql")):
        if "bounded_times" in file.name:
            break
        shutil.copy(file, tmp_path)
    migrate(dsn, tmp_path)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO uploads (source, source_id, doc_id, owner, partition, content_hash, file_name, title, mime_type, size,"
            " permissions, modified_at, change) VALUES ('push', 'x', gen_random_uuid(), 'a@b.c', 'wiki', '', 'x', 'x', '', 1, '{}',"
            " '0044-03-15 BC', 1)"
        )
        connection.execute(
            "INSERT INTO documents (doc_id, source, source_id, partition, source_title, state, created_at, modified_at)"
            " VALUES (gen_random_uuid(), 'files', 'x', 'docs', 'x', 'live', '1906-01-01Z', '30000-01-01Z')"
        )
        connection.execute(
            "INSERT INTO conversations (conversation_id, email, query, answer, sources, asked_at)"
            " VALUES (gen_random_uuid(), 'a@b.c', 'q', 'a', '[]', 'infinity')"
        )
    migrate(dsn)
    with psycopg.connect(dsn, autocommit=True) as connection:
        assert connection.execute("SELECT modified_at FROM uploads").fetchall() == [(EARLIEST,)]
        assert connection.execute("SELECT created_at, modified_at FROM documents").fetchall() == [(None, None)]
        assert connection.execute("SELECT asked_at FROM conversations").fetchall() == [
            (END - timedelta(microseconds=1),)
        ]
        for statement in (
            "UPDATE uploads SET modified_at = '0044-03-15 BC'",
            "UPDATE conversations SET asked_at = 'infinity'",
        ):
            with pytest.raises(psycopg.errors.CheckViolation):
                connection.execute(statement.encode())
    with psycopg.connect(postgres_server.dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def test_what_waits_for_a_source_that_fails_at_once_waits_longer_each_time(
    pushing: Running, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_environment(installation, monkeypatch)
    pushed(pushing)
    work = spec_of(SourceName.PUSH).waiting
    assert work is not None
    sensor = waiting_sensor(SourceName.PUSH, work, sync_job(SourceName.PUSH), set_up=True)

    def tick() -> dg.RunRequest | dg.SkipReason:
        found: Any = sensor(dg.build_sensor_context())
        return found

    def fail() -> float | None:
        """Let the sync that was just requested fail, and return the pause that follows, as of the same moment."""
        with session(installation.settings.postgres_dsn) as connection:
            connection.execute(
                "UPDATE sync_jobs SET status = 'failed', started_at = now(), completed_at = now() WHERE status = 'running'"
            )
            return Jobs(connection).retry_after(source="push", longest=600)

    pauses: list[float | None] = []
    for _ in range(8):
        assert isinstance(tick(), dg.RunRequest)
        pauses.append(fail())
        do(installation, "UPDATE sync_jobs SET completed_at = now() + interval '1 hour' WHERE completed_at IS NOT NULL")
        skipped = tick()
        assert isinstance(skipped, dg.SkipReason)
        assert "The last syncs of Pushed documents failed" in str(skipped.skip_message)
        do(installation, "UPDATE sync_jobs SET completed_at = now() - interval '1 hour' WHERE completed_at IS NOT NULL")
    assert pauses == [20, 40, 80, 160, 320, 600, 600, 600]
    installation.sync(SourceName.PUSH)
    with session(installation.settings.postgres_dsn) as connection:
        assert Jobs(connection).retry_after(source="push", longest=600) is None
