"""The audit log stores each event exactly once despite outages and kills, and refuses requests that it cannot record."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from resources.core.errors import ServiceUnavailableError
from resources.servers.shared import Shared
from serving.http.audit import MAX_WAITING, Audit, AuditEvent, Spool
from serving.http.database import Database
from serving.http.metrics import Metrics
from tests.fixtures.serving import Running, Site
from tests.machine.test_degradation_http import codes, fill, own_postgres, titles, until_ready

__all__ = ["own_postgres"]

ANN, BOB = "ann@acme.com", "bob@acme.com"


def rows(site: Site) -> list[Any]:
    return site.sql("SELECT email, query FROM audit_log ORDER BY event_id")


def eventually(found: Callable[[], object], wanted: object) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + 60
    while (last := found()) != wanted:
        assert time.monotonic() < deadline, f"{last!r} instead of {wanted!r}"
        time.sleep(0.05)


def spooled(site: Site) -> list[Path]:
    return list((site.settings.home / "audit").glob("*.jsonl"))


def test_searches_without_postgres_are_audited_once_it_is_back(own_postgres: tuple[Site, Any]) -> None:
    site, process = own_postgres
    fill(site)
    with site.running() as running:
        until_ready(running)
        process.stop()
        assert codes(running.search("ferry at nine", BOB)) == ["registry_unavailable"]
        assert titles(running.search("ferry at ten", ANN)) == {"Open", "Private"}
        (file,) = spooled(site)
        assert (stat.S_IMODE(file.stat().st_mode), stat.S_IMODE(file.parent.stat().st_mode)) == (0o600, 0o700)
        assert len(file.read_bytes().splitlines()) == 2
        process.start()
        eventually(lambda: rows_or_none(site), [(BOB, "ferry at nine"), (ANN, "ferry at ten")])
        eventually(lambda: spooled(site), [])
        running.wait_for_metrics("serving_audit_waiting 0.0")


def rows_or_none(site: Site) -> list[Any] | None:
    try:
        return rows(site)
    except psycopg.OperationalError:
        return None


def test_events_of_a_killed_process_are_written_once(site: Site) -> None:
    event = AuditEvent(email=BOB, action="search", query_id=str(uuid.uuid4()), query="ferry \x00 at nine")
    left = Spool.new(site.settings.home / "audit")
    left.append(event)
    left.append(event)  # as after a kill between writing to Postgres and removing the file
    with left.path.open("ab") as partial:
        partial.write(b'{"email": "cut sho')
    left.close()
    with site.running() as running:
        eventually(lambda: rows(site), [(BOB, "ferry \ufffd at nine")])
        eventually(lambda: spooled(site), [])
        running.settle()
    with site.running():
        assert len(rows(site)) == 1


def test_a_file_of_a_running_process_is_not_adopted(site: Site) -> None:
    held = Spool.new(site.settings.home / "audit")
    held.append(AuditEvent(email=ANN, action="search", query="not yet"))
    with site.running() as running:
        running.search("ferry", BOB)
        running.settle()
        assert (rows(site), spooled(site)) == ([(BOB, "ferry")], [held.path])
    held.close()


def test_events_rejected_by_postgres_are_kept_and_retried(site: Site, running: Running) -> None:
    fill(site)
    site.sql("ALTER TABLE audit_log ADD CONSTRAINT nothing CHECK (query <> 'ferry') NOT VALID")
    assert titles(running.search("ferry", BOB)) == {"Open"}
    # refused together with others and by itself: the next event goes to another file
    eventually(lambda: site.sql("SELECT last_value > 1 FROM audit_log_event_id_seq"), [(True,)])
    assert titles(running.search("ferry pier", BOB)) == {"Open"}
    eventually(lambda: rows(site), [(BOB, "ferry pier")])
    site.sql("ALTER TABLE audit_log DROP CONSTRAINT nothing")
    eventually(lambda: rows(site), [(BOB, "ferry pier"), (BOB, "ferry")])


def test_other_writes_do_not_delay_the_audit_log(site: Site, running: Running) -> None:
    with psycopg.connect(site.settings.postgres_dsn) as connection:
        connection.execute("LOCK TABLE conversations IN ACCESS EXCLUSIVE MODE")
        told = {"query": "q", "answer": "a", "sources": [], "timestamp": "2026-01-01T00:00:00Z"}
        assert running.request("POST", "/track", BOB, json=told).status_code == 202
        running.search("ferry", BOB)
        eventually(lambda: rows(site), [(BOB, "ferry")])


def test_with_a_full_disk_an_event_is_written_to_postgres_or_the_request_is_refused(
    own_postgres: tuple[Site, Any],
) -> None:
    site, process = own_postgres
    fill(site)
    (site.settings.home / "audit").touch()  # where the folder should be
    with site.running() as running:
        until_ready(running)
        assert titles(running.search("ferry", BOB)) == {"Open"}
        assert rows(site) == [(BOB, "ferry")]
        process.stop()
        refused = running.request("POST", "/api/rag/search", BOB, json={"query": "ferry"})
        assert (refused.status_code, refused.json()["type"]) == (503, "/problems/service-unavailable")
        assert "audit log" in refused.json()["detail"]
        assert int(refused.headers["Retry-After"]) >= 1


def test_an_event_that_can_be_recorded_nowhere_is_logged_and_counted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = AuditEvent(
        email=BOB, action="key_create", query="the secret ferry", doc_ids=[str(uuid.uuid4())], detail='{"name": "Bob"}'
    )

    def full(_spool: Spool, _event: AuditEvent) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Spool, "append", full)
    site.sql("ALTER TABLE audit_log ADD CONSTRAINT nothing CHECK (action <> 'key_create') NOT VALID")
    metrics, database = Metrics(), Database(site.settings.postgres_dsn, prepare_threshold=0)

    async def record() -> None:
        await database.open()
        try:
            with pytest.raises(ServiceUnavailableError):
                await Audit(site.settings.home / "audit", database, metrics, Shared.alone()).record(event)
        finally:
            await database.close()

    with capture_logs() as logs:
        asyncio.run(record())
    (said,) = (one for one in logs if one["event"] == "audit_event_missing")
    assert (said["recorded"], said["event_key"], said["doc_ids"]) == (event.action, event.event_key, event.doc_ids)
    assert "secret" not in str(said)
    assert "Bob" not in str(said)
    assert metrics.registry.get_sample_value("serving_audit_missing_total") == 1


def test_a_deletion_and_its_event_are_one_transaction(site: Site, running: Running) -> None:
    site.sql("ALTER TABLE audit_log ADD CONSTRAINT nothing CHECK (action <> 'delete') NOT VALID")
    file = {"file": ("notes.md", f"# Notes {os.getpid()}\n\nThe ferry.".encode(), "text/markdown")}
    doc_id = running.request("POST", "/api/upload", BOB, files=file).json()["doc_id"]
    assert running.request("DELETE", f"/api/documents/{doc_id}", BOB).status_code >= 500
    assert site.sql("SELECT deleted_at FROM uploads") == [(None,)]
    site.sql("ALTER TABLE audit_log DROP CONSTRAINT nothing")
    assert running.request("DELETE", f"/api/documents/{doc_id}", BOB).status_code == 200
    assert site.sql("SELECT action, email, doc_ids::text[] FROM audit_log") == [("delete", BOB, [doc_id])]


def test_past_two_thousand_unwritten_events_requests_wait_or_are_refused(site: Site) -> None:
    fill(site)
    left = Spool.new(site.settings.home / "audit")
    for number in range(MAX_WAITING):
        left.append(AuditEvent(email=ANN, action="search", query=f"before {number}"))
    left.close()
    with psycopg.connect(site.settings.postgres_dsn) as holder:
        holder.execute("LOCK TABLE audit_log IN ACCESS EXCLUSIVE MODE")  # Postgres answers, and takes no event
        with site.running() as running:
            running.wait_for_metrics(f"serving_audit_waiting {MAX_WAITING}.0")
            refused = running.request("POST", "/api/rag/search", BOB, json={"query": "ferry refused"})
            assert (refused.status_code, refused.json()["type"]) == (503, "/problems/overloaded")
            assert int(refused.headers["retry-after"]) >= 1
            assert f"serving_audit_waiting {MAX_WAITING}.0" in running.metrics()
            with ThreadPoolExecutor(1) as pool:
                waiting = pool.submit(running.request, "POST", "/api/rag/search", BOB, json={"query": "ferry waited"})
                holder.rollback()
                answered = waiting.result(60).status_code == 200
            # the writer may be pausing after its failed attempts: then that request was told to come back, and does
            deadline = time.monotonic() + 120
            while not answered:
                assert time.monotonic() < deadline, "requests are still refused though Postgres takes events again"
                time.sleep(0.05)
                again = running.request("POST", "/api/rag/search", BOB, json={"query": "ferry waited"})
                assert again.status_code in (200, 503)
                answered = again.status_code == 200
            eventually(lambda: len(rows(site)), MAX_WAITING + 1)
    found = rows(site)
    assert {query for email, query in found if email == ANN} == {f"before {number}" for number in range(MAX_WAITING)}
    assert [query for email, query in found if email == BOB] == ["ferry waited"]
