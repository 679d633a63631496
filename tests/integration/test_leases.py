"""Leases of partitions: one process at a time writes to a partition, and one that was paused beyond its lease writes nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from assets import pipeline
from assets.index import targets
from orchestration.supervision.environment import child_environment
from resources.core.domain import SourceName
from resources.core.errors import BusyError, LostLeaseError
from resources.stores import leases
from resources.stores.fenced import FencedConnection, connect_fenced, fenced_session
from resources.stores.leases import Lease, alone, claim
from resources.stores.postgres import session
from resources.syncs import jobs
from resources.syncs.jobs import create_job, end_job, hold, hold_all, stored_sources
from resources.syncs.syncing import SyncJob, open_sync
from sql.sync import Jobs
from tests.fixtures.dagster_runs import stored_instance
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until
from tests.integration.test_waves import Watched

FILES = SourceName.FILES
SHORT = 0.5
"""A lease in seconds that tests can wait for."""


@pytest.fixture
def unrenewed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are short, and owners do not renew them, as if they were paused."""
    monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)
    monkeypatch.setattr(leases, "RENEW_SECONDS", 3600.0)


@pytest.fixture
def two_roots(installation: Installation) -> Installation:
    (docs,) = installation.settings.file_roots
    notes = installation.root.parent / "notes"
    notes.mkdir()
    roots = (docs, docs.model_copy(update={"name": "notes", "url": notes.as_uri()}))
    installation.settings = installation.settings.model_copy(update={"file_roots": roots})
    installation.write("otter.md", "# Otter\n\nThe otter sleeps until noon.\n")
    (notes / "heron.md").write_text("# Heron\n\nThe heron stands in the pond.\n")
    return installation


def claimed(dsn: str, *partitions: str, source: str = "files") -> Lease:
    lease = claim(dsn, source, partitions or None, seconds=0)
    assert lease is not None
    return lease


def is_free(dsn: str, *partitions: str, source: str = "files") -> bool:
    lease = claim(dsn, source, partitions or None, seconds=0)
    if lease is not None:
        lease.release()
    return lease is not None


def end(dsn: str) -> Any:
    """Return when the only lease ends."""
    with session(dsn) as connection:
        row = connection.execute("SELECT until FROM partition_leases").fetchone()
    return row and row["until"]


@pytest.fixture
def owner(database: str) -> Iterator[FencedConnection]:
    """A connection of the owner of partition `a`."""
    lease = claimed(database, "a")
    with fenced_session(database, lease) as connection:
        yield connection
    lease.release()


def partitions(dsn: str) -> list[str]:
    with session(dsn) as connection:
        rows = connection.execute("SELECT partition FROM partitions ORDER BY partition").fetchall()
    return [row["partition"] for row in rows]


INSERT = "INSERT INTO partitions (source, partition) VALUES ('files', 'a')"


def test_partitions_are_independent_and_a_whole_source_excludes_them(database: str) -> None:
    a, b = claimed(database, "a"), claimed(database, "b")
    assert not is_free(database, "a")
    assert not is_free(database, "c", "b")
    assert not is_free(database), "the whole source"
    assert is_free(database, "c")
    assert is_free(database, source="slack")
    a.release()
    assert not is_free(database)
    b.release()
    whole = claimed(database)
    assert not is_free(database, "a")
    assert not is_free(database)
    assert is_free(database, source="slack")
    whole.release()
    assert is_free(database, "a")


def test_claims_that_meet_never_both_succeed(database: str) -> None:
    """Whole sources and partitions are claimed by eight threads; none finds another one in what it has."""
    held: list[set[str]] = []
    lock = threading.Lock()
    overlaps: list[object] = []
    successes: list[int] = []

    def work(seed: int) -> None:
        random = Random(seed)
        for _ in range(40):
            wanted = random.choice([{"a"}, {"b"}, {"a", "b"}, {leases.WHOLE}])
            lease = claim(database, "files", sorted(wanted), seconds=0)
            if lease is None:
                continue
            with lock:
                overlaps.extend(one for one in held if one & wanted or leases.WHOLE in one or leases.WHOLE in wanted)
                held.append(wanted)
                successes.append(seed)
            time.sleep(random.random() / 200)
            with lock:
                held.remove(wanted)
            lease.release()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert overlaps == []
    assert len(successes) > 20


@pytest.mark.usefixtures("unrenewed")
def test_a_lease_lapses_by_time(database: str) -> None:
    first = claimed(database, "a")
    first_end = end(database)
    second = claim(database, "files", ["a"])
    assert second is not None
    second_end = end(database)
    assert second_end >= first_end + timedelta(seconds=SHORT), "claimed after the first has lapsed"
    with pytest.raises(LostLeaseError):
        first.confirm()
    first.release()  # not the other's
    assert end(database) == second_end
    second.release()


def test_a_lease_is_renewed_while_its_owner_works(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", SHORT / 5)
    lease = claimed(database, "a")
    first_end = end(database)
    until(lambda: end(database) > first_end, "a lease that is renewed")
    assert not is_free(database, "a")
    lease.release()


def test_a_lease_survives_a_restart_of_postgres(postgres_process: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from resources.schema import prepare

    dsn = postgres_process.dsn
    prepare(dsn)
    monkeypatch.setattr(leases, "RENEW_SECONDS", SHORT / 5)
    lease = claimed(dsn, "a")
    postgres_process.stop()
    postgres_process.start()

    def renewed() -> bool:
        with suppress(psycopg.OperationalError):  # the first call finds its connection broken
            lease.confirm()
            return True
        return False

    until(renewed, "the lease confirmed again")
    with fenced_session(dsn, lease) as connection:
        connection.execute(INSERT)
    lease.release()
    assert partitions(dsn) == ["a"]


def test_a_lease_survives_a_postgres_that_is_read_only_for_a_while(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", SHORT / 5)
    lease = claimed(database, "a")
    connection = lease._connection
    assert connection is not None

    with capture_logs() as logs:
        with lease._using:
            connection.execute("SET default_transaction_read_only = on")
        until(lambda: "lease_not_renewed" in {one["event"] for one in logs}, "a lease that is not renewed")
        with lease._using:
            connection.execute("SET default_transaction_read_only = off")
    before = end(database)
    until(lambda: end(database) > before, "a lease that is renewed")
    lease.release()


def test_leases_and_jobs_from_before_the_clock_was_set_back_hold_nothing_up(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = installation.settings.postgres_dsn
    monkeypatch.setattr(leases, "LEASE_SECONDS", SHORT)
    with session(dsn) as connection:
        connection.execute(
            "INSERT INTO partition_leases (source, partition, owner, fence, until) "
            "VALUES ('files', '', 'dead', 0, now() + interval '1 day')"
        )
    until(lambda: is_free(dsn), "the end of the lease")
    lost = create_job(dsn, FILES, partitions=None, full=False, requested_by="test").job_id
    installation.rows("UPDATE sync_jobs SET started_at = now() + interval '1 day' RETURNING job_id")
    again = create_job(dsn, FILES, partitions=None, full=False, requested_by="test").job_id
    assert again == lost, "no process will begin it"
    end_job(dsn, lost, "It failed.")
    installation.rows("UPDATE sync_jobs SET completed_at = now() + interval '1 day' RETURNING job_id")
    with session(dsn) as connection:
        seconds = Jobs(connection).retry_after(source="files", longest=3600)
    assert seconds is not None
    assert seconds <= 20


def single(connection: FencedConnection) -> None:
    connection.execute(INSERT)


def transaction(connection: FencedConnection) -> None:
    with connection.transaction():
        connection.execute(INSERT)


def family(connection: FencedConnection) -> None:
    Jobs(connection).insert_job(source="files", partitions=None, full_sync=False, requested_by="test", accepts=False)


@pytest.mark.parametrize("write", [single, transaction, family])
@pytest.mark.usefixtures("unrenewed")
def test_a_paused_owner_writes_nothing(database: str, write: Callable[[FencedConnection], None]) -> None:
    lease = claimed(database, "a")
    with fenced_session(database, lease) as connection:
        other = claim(database, "files", ["a"])
        assert other is not None
        with pytest.raises(LostLeaseError, match="taken over"):
            write(connection)
        assert connection.execute("SELECT 1 AS n").fetchone() == {"n": 1}, "it may read"
    lease.release()
    other.release()
    assert partitions(database) == []
    with session(database) as reader:
        assert reader.execute("SELECT FROM sync_jobs").fetchall() == []


@pytest.mark.usefixtures("unrenewed")
def test_a_transaction_that_writes_is_not_overtaken(database: str, owner: FencedConnection) -> None:
    with owner.transaction():
        owner.execute(INSERT)
        time.sleep(2 * SHORT)
        assert not is_free(database, "a"), "its lease has lapsed, but it is writing"
    assert is_free(database, "a")
    assert partitions(database) == ["a"]


def test_a_renewal_does_not_wait_for_a_transaction(owner: FencedConnection) -> None:
    assert owner.lease is not None
    with owner.transaction():
        owner.execute(INSERT)
        owner.lease.confirm()


def test_another_one_is_refused_until_the_block_ends(database: str) -> None:
    with alone(database, "work", "One is running."):
        with (
            pytest.raises(BusyError, match=r"running\. One that was killed no longer counts after 15 s"),
            alone(database, "work", "One is running."),
        ):
            pass
        with alone(database, "other work", "One is running."):
            pass
    with pytest.raises(ZeroDivisionError), alone(database, "work", "One is running."):
        raise ZeroDivisionError
    with alone(database, "work", "One is running."):
        pass


PAUSED = """
import sys
from resources.core.domain import SourceName
from resources.core.errors import LostLeaseError
from resources.settings import load
from resources.stores import leases
from resources.syncs.syncing import open_sync
leases.LEASE_SECONDS, leases.RENEW_SECONDS = 1.0, 0.2
try:
    with open_sync(load(), SourceName.FILES, partitions=["docs"]) as job:
        print("claimed", flush=True)
        sys.stdin.readline()
        job.stores.partitions.save_cursor(
            partition="docs", cursor="of the paused process", title=None, whole=False, by=0, count=None
        )
except LostLeaseError:
    print("refused", flush=True)
"""


def test_a_process_that_was_stopped_beyond_its_lease_writes_nothing(installation: Installation) -> None:
    """SIGSTOP, as a machine that is suspended: the process knows nothing of it when it continues."""
    process = subprocess.Popen(
        [sys.executable, "-c", PAUSED],
        env=child_environment(installation.settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    lines = iter(process.stdout.readline, "")
    assert "claimed\n" in lines
    process.send_signal(signal.SIGSTOP)
    try:
        installation.write("otter.md", "# Otter\n\nThe otter sleeps until noon.\n")
        run = installation.sync()
        assert (run.error, run.counts.synced) == (None, 1)
        before = installation.rows("SELECT partition, cursor FROM partitions")
    finally:
        process.send_signal(signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.close()
    assert "refused\n" in lines
    process.wait()
    process.stdout.close()
    assert installation.rows("SELECT partition, cursor FROM partitions") == before
    jobs = installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at")
    assert [row["status"] for row in jobs] == ["failed", "success"]
    assert jobs[0]["error_message"] == "The process that ran this sync died."


@pytest.mark.usefixtures("unrenewed")
def test_a_sync_that_pauses_while_it_embeds_changes_no_store(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused, go_on = threading.Event(), threading.Event()
    real = targets.embedder_of
    first: list[int] = [threading.get_ident()]

    def before() -> None:
        if threading.get_ident() != first[0] and not paused.is_set():
            paused.set()
            assert go_on.wait(120)

    installation.write("first.md", "# First\n\nThe first document.\n")
    installation.sync()
    monkeypatch.setattr(targets, "embedder_of", lambda settings, row: Watched(real(settings, row), before))
    installation.write("annals.md", "# Annals\n\nThe mill ground seven sacks of rye.\n")
    errors: list[BaseException | str | None] = []

    def sync() -> None:
        try:
            with open_sync(installation.settings, FILES) as job:
                pipeline.sync(job)
        except LostLeaseError as error:
            errors.append(error)

    thread = threading.Thread(target=sync)
    thread.start()
    assert paused.wait(120)
    installation.write("annals.md", "# Annals\n\nThe mill ground nine sacks of rye.\n")
    monkeypatch.setattr(leases, "RENEW_SECONDS", SHORT / 5)  # of the process that takes over
    run = installation.sync()
    assert run.error is None
    stored = installation.rows("SELECT * FROM documents"), installation.rows("SELECT * FROM index_entries")
    points = installation.points()
    go_on.set()
    thread.join()
    assert [type(error) for error in errors] == [LostLeaseError]
    assert (installation.rows("SELECT * FROM documents"), installation.rows("SELECT * FROM index_entries")) == stored
    assert installation.points() == points
    assert sorted("nine" in point["chunk_text"] for point in points) == [False, True]
    assert installation.agrees()


def test_two_partitions_of_a_source_are_synced_at_once(two_roots: Installation) -> None:
    settings = two_roots.settings
    meeting = threading.Barrier(2, timeout=120)

    def sync(partition: str) -> SyncJob:
        with open_sync(settings, FILES, partitions=[partition], requested_by="test") as job:
            meeting.wait()  # both have their leases
            pipeline.sync(job)
            meeting.wait()
        return job

    two_roots.sync()  # makes the collection
    two_roots.write("otter.md", "# Otter\n\nThe otter sleeps until dusk.\n")
    (two_roots.root.parent / "notes" / "heron.md").write_text("# Heron\n\nThe heron stands in the reeds.\n")
    with ThreadPoolExecutor(2) as pool:
        jobs = list(pool.map(sync, ["docs", "notes"]))
    assert [job.error for job in jobs] == [None, None]
    assert [job.counts.synced for job in jobs] == [1, 1]
    two_roots.last = {}
    assert two_roots.agrees()
    assert {point["chunk_text"].split()[-1] for point in two_roots.points()} == {"dusk.", "reeds."}
    assert two_roots.sync().counts.synced == 0


def test_a_whole_source_waits_for_its_partitions_and_they_for_it(two_roots: Installation) -> None:
    settings, order = two_roots.settings, list[str]()

    def sync(partitions: list[str] | None) -> None:
        with open_sync(settings, FILES, partitions=partitions, requested_by="test"):
            order.append("whole" if partitions is None else partitions[0])

    with open_sync(settings, FILES, partitions=["docs"], requested_by="test"):
        thread = threading.Thread(target=sync, args=(None,))
        thread.start()
        with open_sync(settings, FILES, partitions=["notes"], requested_by="test"):
            order.append("notes")
        thread.join(1)
        assert (thread.is_alive(), order) == (True, ["notes"])
    thread.join()
    with hold(settings, FILES):
        threads = [threading.Thread(target=sync, args=([name],)) for name in ("docs", "notes")]
        for one in threads:
            one.start()
        time.sleep(2 * leases.POLL_SECONDS)
        assert order == ["notes", "whole"]
    for one in threads:
        one.join()
    assert sorted(order[2:]) == ["docs", "notes"]


def test_the_partitions_of_a_request_are_claimed_by_the_running_sync(
    two_roots: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process works on one of them, so the sync waits for it before it ends."""
    settings = two_roots.settings
    refused: list[bool] = []
    claims = SyncJob.claim

    def watched(job: SyncJob, *arguments: Any, **more: Any) -> bool:
        found = claims(job, *arguments, **more)
        if not found and not refused:
            refused.append(True)
            other.release()
        return found

    other = claimed(settings.postgres_dsn, "notes")
    job_id = create_job(
        settings.postgres_dsn, FILES, partitions=["docs"], full=False, requested_by="test", merge=True
    ).job_id
    with open_sync(settings, FILES, job_id=job_id) as job:
        with pytest.raises(BusyError) as busy:
            create_job(settings.postgres_dsn, FILES, partitions=None, full=False, requested_by="test", merge=True)
        assert (busy.value.job_id, busy.value.merged) == (job_id, True)
        monkeypatch.setattr(SyncJob, "claim", watched)
        pipeline.sync(job)
    assert (job.error, refused) == (None, [True])
    assert {point["path"] for point in two_roots.points()} == {"otter.md", "heron.md"}


def test_a_job_that_waits_in_a_queue_is_not_lost(installation: Installation) -> None:
    """Neither in Dagster's, nor for the lease of its partitions, however long."""
    dsn = installation.settings.postgres_dsn

    def requested(*names: str) -> str:
        return create_job(dsn, FILES, partitions=list(names) or None, full=False, requested_by="test").job_id

    job_id = requested("docs")
    installation.rows("UPDATE sync_jobs SET started_at = now() - interval '1 day' RETURNING job_id")
    with stored_instance(dsn):
        installation.rows(
            "WITH run AS (INSERT INTO dagster.runs (run_id, status, run_body) VALUES ('r1', 'QUEUED', '{}'))"
            " INSERT INTO dagster.run_tags (run_id, key, value) VALUES ('r1', 'concordance/job_id', %s) RETURNING id",
            job_id,
        )
        for names in (("docs",), ()):
            with pytest.raises(BusyError) as busy:
                requested(*names)
            assert busy.value.job_id == job_id
        installation.rows("UPDATE dagster.runs SET status = 'FAILURE' RETURNING id")
        with hold(installation.settings, FILES), pytest.raises(BusyError):
            requested("docs")
        assert requested("docs") == job_id, "no process will begin it, so it is taken over"
    assert installation.rows("SELECT status FROM sync_jobs") == [{"status": "running"}]


def test_a_claimed_job_is_lost_once_its_lease_has_lapsed(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    dsn = installation.settings.postgres_dsn
    monkeypatch.setattr(leases, "RENEW_SECONDS", 3600.0)
    following: list[str] = []

    def overtaken() -> bool:
        with suppress(BusyError):
            following.append(create_job(dsn, FILES, partitions=None, full=False, requested_by="test").job_id)
        return bool(following)

    with open_sync(installation.settings, FILES) as job:
        assert not overtaken()
        installation.rows("UPDATE partition_leases SET until = now() - interval '5 seconds' RETURNING until")
        assert overtaken()
        with pytest.raises(BusyError):
            create_job(dsn, FILES, partitions=None, full=False, requested_by="test")
    assert following != [job.job_id]
    rows = installation.rows("SELECT status, error_message FROM sync_jobs WHERE job_id = %s", job.job_id)
    assert rows == [{"status": "failed", "error_message": "The process that ran this sync died."}]


def test_every_connection_that_syncs_write_with_is_fenced(installation: Installation) -> None:
    with open_sync(installation.settings, FILES) as job, job.for_thread() as other:
        for one in (job, other):
            assert isinstance(one.stores.connection, FencedConnection)
            assert one.stores.connection.lease is job.stores.lease
    lease = claimed(installation.settings.postgres_dsn, "a")
    connection = connect_fenced(installation.settings.postgres_dsn, lease)
    connection.close()
    lease.release()


def test_threads_share_a_connection_for_single_writes(installation: Installation) -> None:
    lease = claim(installation.settings.postgres_dsn, "files", ["docs"])
    assert lease is not None
    try:
        with fenced_session(installation.settings.postgres_dsn, lease) as connection:
            connection.execute("CREATE TABLE written (number integer)")

            def write(number: int) -> None:
                connection.execute("INSERT INTO written VALUES (%s)", (number,))

            with ThreadPoolExecutor(8) as threads:
                list(threads.map(write, range(200)))
            assert connection.execute("SELECT count(*) AS n FROM written").fetchone() == {"n": 200}
    finally:
        lease.release()


@pytest.mark.usefixtures("unrenewed")
def test_a_process_that_is_paused_in_a_transaction_keeps_others_out_for_a_time_only(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that is gone is such a process: Postgres learns hours later that nobody is there."""
    monkeypatch.setattr(leases, "IDLE_SECONDS", 1)
    paused = claimed(database, "a")
    connection = connect_fenced(database, paused)
    others: list[Lease | None] = []

    def write() -> None:
        with connection.transaction():
            connection.execute(INSERT)
            others.append(claim(database, "files", ["a"], seconds=60))
            connection.execute("SELECT 1")

    with pytest.raises(LostLeaseError, match="paused for more than 1 s"):
        write()
    assert partitions(database) == []
    connection.close()
    for lease in (paused, *others):
        assert lease is not None, "nobody else could claim it"
        lease.release()


@pytest.mark.parametrize("kept", [0.0, 2 * leases.WAIT_SECONDS])
def test_who_needs_all_sources_keeps_none_of_them_while_one_is_busy_but_at_the_end_of_the_wait(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, kept: float
) -> None:
    monkeypatch.setattr(jobs, "ALL_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "KEPT_SECONDS", kept)
    dsn = installation.settings.postgres_dsn
    with session(dsn) as connection:
        first, *_, last = stored_sources(connection)
    busy = claim(dsn, last.value, None)
    assert busy is not None
    asked, held = threading.Event(), threading.Event()

    def watched(dsn: str, source: str, *given: Any, **named: Any) -> Lease | None:
        if source == last.value:
            asked.set()
        return claim(dsn, source, *given, **named)

    monkeypatch.setattr(jobs, "claim", watched)

    def erase() -> None:
        with hold_all(installation.settings):
            held.set()

    thread = threading.Thread(target=erase)
    thread.start()
    assert asked.wait(60)
    other = claim(dsn, first.value, None, seconds=1 if kept else 60)
    assert (other is None) == bool(kept)
    assert not held.is_set()
    if other is not None:
        other.release()
    busy.release()
    assert held.wait(60)
    thread.join()
