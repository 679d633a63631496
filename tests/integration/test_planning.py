"""A large sync is divided: partitions to list whole are left to other runs, and the sync of the source goes on beside them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import sql.sync
from assets import pipeline, waves
from assets.index.agreement import changed
from assets.planning import FEWEST, divided
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError, EndedJobError, NotRunningError
from resources.settings import Settings
from resources.stores import leases
from resources.stores.postgres import session
from resources.syncs import jobs, launch
from resources.syncs.jobs import NOT_BEGUN, create_job, end_job
from resources.syncs.launch import JOB_TAG, PARENT_TAG, PARTITION_TAG, WHOLE
from resources.syncs.syncing import SyncJob, open_sync
from sql.cli import Commands
from sql.sync import Jobs
from tests.fixtures.dagster_runs import DagsterRuns
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until

FILES = SourceName.FILES
ROOTS = [f"r{number}" for number in range(6)]
INDEXED = "SELECT d.partition, count(*) AS documents FROM documents AS d WHERE d.state = 'live' GROUP BY 1 ORDER BY 1"


class Queue:
    """What was given to Dagster's queue."""

    def __init__(self) -> None:
        self.jobs: list[str] = []
        self.refuses_after = 1000
        self.before: Callable[[], None] = lambda: None
        """Called before each launch."""

    def launch(self, _settings: Settings, source: SourceName, job_id: str, *, planned: bool = False) -> str:
        assert source == FILES
        assert planned
        self.before()
        if len(self.jobs) >= self.refuses_after:
            raise NotRunningError("Dagster does not answer.")
        self.jobs.append(job_id)
        return job_id


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    made = Queue()
    monkeypatch.setattr(launch, "launch_run", made.launch)
    monkeypatch.setattr(jobs, "ORPHAN_SECONDS", 0)
    return made


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, queue: Queue) -> set[str]:
    """Jobs whose runs Dagster has lost; it has those of all others."""
    gone: set[str] = set()

    def launched_run(_self: Any, *, job_id: str) -> str | None:
        return job_id if job_id in queue.jobs and job_id not in gone else None

    monkeypatch.setattr("sql.sync.Jobs.launched_run", launched_run)
    return gone


def roots(installation: Installation, *names: str) -> None:
    (first,) = installation.settings.file_roots[:1]
    base = installation.root.parent
    made: list[Any] = []
    for name in names:
        (base / name).mkdir(exist_ok=True)
        (base / name / "one.md").write_text(f"# {name}\n\nThe first note of {name}, about herons.\n")
        made.append(first.model_copy(update={"name": name, "url": (base / name).as_uri()}))
    installation.settings = installation.settings.model_copy(update={"file_roots": tuple(made)})


@pytest.fixture
def large(installation: Installation, queue: Queue, waiting: set[str]) -> Installation:
    roots(installation, *ROOTS)
    return installation


def sync(
    installation: Installation, *, runs: int = 2, job_id: str | None = None, meanwhile: Callable[[], None] | None = None
) -> SyncJob:
    with open_sync(installation.settings, FILES, job_id=job_id, requested_by="test") as job:
        job.runs = runs
        pipeline.sync(job)
        if meanwhile is not None:
            meanwhile()
    return job


def documents(installation: Installation) -> dict[str, int]:
    return {row["partition"]: row["documents"] for row in installation.rows(INDEXED)}


def statuses(installation: Installation) -> list[str]:
    return [row["status"] for row in installation.rows("SELECT status FROM sync_jobs ORDER BY started_at, job_id")]


def test_a_first_sync_of_many_partitions_is_left_to_other_runs(large: Installation, queue: Queue) -> None:
    sync(large)
    assert len(queue.jobs) == len(ROOTS)
    assert documents(large) == {}
    for job_id in queue.jobs:
        sync(large, job_id=job_id)
    assert documents(large) == dict.fromkeys(ROOTS, 1)
    assert set(statuses(large)) == {"success"}
    assert large.agrees()
    points = [one["doc_id"] for one in large.points()]
    assert len(points) == len(set(points)) == len(ROOTS)
    sync(large)
    assert len(queue.jobs) == len(ROOTS), "only changes are left to read"
    assert large.rows("SELECT count(*) AS leases FROM partition_leases") == [{"leases": 0}]


def test_a_request_ends_when_the_last_of_its_runs_does(large: Installation, queue: Queue) -> None:
    job = sync(large)
    assert asked(large, job) == ("running", "queued", 0)
    for job_id in queue.jobs[:-1]:
        sync(large, job_id=job_id)
    assert asked(large, job) == ("running", "queued", len(ROOTS) - 1)
    (large.root.parent / "r5" / "broken.docx").write_bytes(b"no archive")
    sync(large, job_id=queue.jobs[-1])
    assert asked(large, job) == ("success", "done", len(ROOTS))
    with session(large.settings.postgres_dsn) as connection:
        (fault,) = Commands(connection).job_errors(job_id=job.job_id)
    assert fault.source_id == "r5/broken.docx"
    large.rows(
        "UPDATE sync_jobs SET status = 'failed', error_message = 'It broke.' WHERE job_id = %s RETURNING 1",
        queue.jobs[0],
    )
    assert asked(large, job)[:2] == ("failed", "failed")


def test_a_planned_job_that_waits_for_its_launch_is_not_lost(large: Installation, queue: Queue) -> None:
    """Launches follow one another, and each may take half a minute."""

    def request() -> None:
        with pytest.raises(BusyError):
            create_job(large.settings.postgres_dsn, FILES, partitions=ROOTS[-1:], full=False, requested_by="api")

    queue.before = request
    sync(large)
    assert len(queue.jobs) == len(ROOTS)
    assert statuses(large)[1:] == ["running"] * len(ROOTS)


def asked(installation: Installation, job: SyncJob) -> tuple[str, str, int]:
    """Return status, stage and synced documents of a request, as `concordance sync --wait` and the API show them."""
    with session(installation.settings.postgres_dsn) as connection:
        row = Commands(connection).job(job_id=job.job_id)
    assert row is not None
    return row.status, row.stage or "", row.synced


def test_few_partitions_stay_in_one_run(installation: Installation, queue: Queue) -> None:
    roots(installation, *ROOTS[: FEWEST - 1])
    sync(installation)
    assert queue.jobs == []
    assert len(documents(installation)) == FEWEST - 1


def test_one_run_does_everything_by_default(large: Installation, queue: Queue) -> None:
    sync(large, runs=1)
    assert queue.jobs == []
    assert documents(large) == dict.fromkeys(ROOTS, 1)


def test_the_source_is_synced_beside_its_first_listings(large: Installation, queue: Queue) -> None:
    """What is known stays fresh while a first sync takes days, and what appears meanwhile is read, too."""
    roots(large, *ROOTS[:2])
    sync(large)
    assert documents(large) == dict.fromkeys(ROOTS[:2], 1)
    roots(large, *ROOTS)
    sync(large)
    assert len(queue.jobs) == 4
    (large.root.parent / "r0" / "two.md").write_text("# Second\n\nA second note.\n")
    roots(large, *ROOTS, "r9")

    def beside() -> None:
        job = sync(large)
        assert job.rest
        assert job.partitions == ["r0", "r1", "r9"]

    sync(large, job_id=queue.jobs[0], meanwhile=beside)
    assert documents(large) == {"r0": 2, "r1": 1, "r2": 1, "r9": 1}
    for job_id in queue.jobs[1:]:
        sync(large, job_id=job_id)
    assert documents(large) == {**dict.fromkeys(ROOTS, 1), "r0": 2, "r9": 1}
    assert large.agrees()


def test_a_request_for_the_source_is_taken_by_the_sync_of_the_rest(large: Installation, queue: Queue) -> None:
    roots(large, *ROOTS[:1])
    sync(large)
    roots(large, *ROOTS)
    sync(large)
    dsn = large.settings.postgres_dsn
    job = create_job(dsn, FILES, partitions=None, full=False, requested_by="schedule", merge=True)
    queue.jobs.append(job.job_id)
    (large.root.parent / "r0" / "two.md").write_text("# Second\n\nA second note.\n")
    with pytest.raises(BusyError) as busy:
        create_job(dsn, FILES, partitions=None, full=False, requested_by="schedule", merge=True)
    assert busy.value.merged
    sync(large, job_id=job.job_id)
    assert documents(large) == {"r0": 2}
    with pytest.raises(BusyError):
        create_job(dsn, FILES, partitions=["r3"], full=False, requested_by="api")


@pytest.mark.parametrize("died", [False, True])
def test_a_request_for_what_a_planned_run_has_waits_without_reading_the_marks(
    large: Installation, queue: Queue, monkeypatch: pytest.MonkeyPatch, died: bool
) -> None:
    """`died`: meanwhile another process takes the sync that waits for one whose process died. It then waits for nothing more."""
    roots(large, *ROOTS[:2])
    sync(large)
    roots(large, *ROOTS)
    sync(large)
    dsn = large.settings.postgres_dsn
    rest = create_job(dsn, FILES, partitions=None, full=False, requested_by="schedule", merge=True)
    queue.jobs.append(rest.job_id)
    with pytest.raises(BusyError) as busy:
        create_job(dsn, FILES, partitions=["r2"], full=False, requested_by="api", merge=True)
    assert busy.value.merged
    monkeypatch.setattr(waves, "CLAIM_SECONDS", 0.01)
    reads, refused = count(monkeypatch, "IndexWork.by_urgency"), count(monkeypatch, "Jobs.add_request")
    ended: list[SyncJob] = []
    thread = threading.Thread(target=lambda: ended.append(sync(large, job_id=rest.job_id)))

    def beside() -> None:
        before = len(reads)
        thread.start()
        until(lambda: len(refused) >= 10, "ten refused requests")
        assert len(reads) - before == 1
        if died:
            large.rows(
                "UPDATE sync_jobs SET status = 'failed', accepts = FALSE WHERE job_id = %s RETURNING 1", rest.job_id
            )
            thread.join(60)
            assert not thread.is_alive()

    sync(large, job_id=queue.jobs[0], meanwhile=beside)
    thread.join()
    assert died or [one.partitions for one in ended] == [["r0", "r1", "r2"]]


def count(monkeypatch: pytest.MonkeyPatch, statement: str) -> list[Any]:
    """Return a list to which each call of a statement of `sql.sync` adds its parameters."""
    owner, name = statement.split(".")
    calls: list[Any] = []
    real = getattr(getattr(sql.sync, owner), name)

    def counted(self: Any, **given: Any) -> Any:
        calls.append(given)
        return real(self, **given)

    monkeypatch.setattr(f"sql.sync.{statement}", counted)
    return calls


def test_tables_that_dagster_has_left_for_another_database_make_no_sync_count_as_lost(large: Installation) -> None:
    dsn = large.settings.postgres_dsn
    with session(dsn, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS dagster")
        connection.execute("CREATE TABLE IF NOT EXISTS dagster.runs (run_id text, status text)")
        connection.execute("CREATE TABLE IF NOT EXISTS dagster.run_tags (run_id text, key text, value text)")
    first = create_job(dsn, FILES, partitions=None, full=False, requested_by="api", elsewhere=True)
    large.rows("UPDATE sync_jobs SET started_at = started_at - interval '1 minute' RETURNING job_id")
    with pytest.raises(BusyError):
        create_job(dsn, FILES, partitions=None, full=False, requested_by="api", elsewhere=True)
    taken_over = create_job(dsn, FILES, partitions=None, full=False, requested_by="api")
    assert taken_over.job_id == first.job_id, "nothing begins it, if Dagster's tables are these"


def test_a_backfill_of_one_partition_does_not_become_the_sync_of_a_source_that_nobody_began(
    large: Installation,
) -> None:
    """It would read the whole source again, or end a sync that has listed nothing as a success."""
    dsn = large.settings.postgres_dsn
    lost = create_job(dsn, FILES, partitions=None, full=False, requested_by="schedule", merge=True)
    large.rows("UPDATE sync_jobs SET started_at = now() - interval '11 seconds' RETURNING job_id")
    with open_sync(large.settings, FILES, partitions=["r1"], requested_by="backfill") as job:
        assert (job.job_id != lost.job_id, job.partitions) == (True, ["r1"])
    ended = large.rows("SELECT status, error_message FROM sync_jobs WHERE job_id = %s", lost.job_id)
    assert ended == [{"status": "failed", "error_message": NOT_BEGUN}]


def test_the_stores_of_some_partitions_are_compared_without_what_others_write(large: Installation) -> None:
    with open_sync(large.settings, FILES, requested_by="test") as job:
        pipeline.sync(job)
    large.rows("UPDATE documents SET content_hash = 'unfinished' WHERE partition = 'r2' RETURNING doc_id")
    large.rows("UPDATE index_entries SET chunk_count = chunk_count + 1 RETURNING doc_id")
    with open_sync(large.settings, FILES, partitions=["r1"], requested_by="backfill") as job:
        assert changed(job.stores, 0).agrees
    with open_sync(large.settings, FILES, requested_by="test") as job:
        compared = changed(job.stores, 0)
    assert compared.partitions == ["r2"]
    assert compared.qdrant_points != compared.postgres_chunks_counted


def test_what_a_dead_run_has_left_is_planned_again(large: Installation, queue: Queue, waiting: set[str]) -> None:
    sync(large)
    first = list(queue.jobs)
    sync(large, job_id=first[0])
    sync(large)
    assert queue.jobs == first, "runs that wait in the queue are not lost"
    waiting.update(first)  # Dagster has lost them, or they were terminated
    sync(large)
    assert len(queue.jobs) == len(first) + 5
    reasons = large.rows("SELECT DISTINCT error_message FROM sync_jobs WHERE status = 'failed'")
    assert reasons == [{"error_message": NOT_BEGUN}]
    for job_id in queue.jobs[len(first) :]:
        sync(large, job_id=job_id)
    assert documents(large) == dict.fromkeys(ROOTS, 1)


def test_a_full_sync_whose_runs_are_lost_is_finished_by_the_next(
    large: Installation, queue: Queue, waiting: set[str]
) -> None:
    sync(large, runs=1)
    full = create_job(large.settings.postgres_dsn, FILES, partitions=None, full=True, requested_by="test")
    sync(large, job_id=full.job_id)
    assert len(queue.jobs) == len(ROOTS)
    done = sync(large, job_id=queue.jobs[0])
    assert (done.results["raw"].counts["fetched"], done.results["indexed"].counts["documents"]) == (1, 1)
    waiting.update(queue.jobs)
    rest = sync(large)
    assert not rest.full
    left = len(ROOTS) - 1
    assert (rest.results["raw"].counts["fetched"], rest.results["indexed"].counts["documents"]) == (left, left)
    assert rest.counts.embedded == 0
    last = sync(large)
    assert (last.results["raw"].counts["fetched"], last.results["indexed"].counts["documents"]) == (0, 0)
    assert large.agrees()


def test_partitions_that_cannot_be_listed_are_not_planned_again_and_again(large: Installation, queue: Queue) -> None:
    for name in ROOTS[:5]:
        (large.root.parent / name / "one.md").unlink()
        (large.root.parent / name).rmdir()
    sync(large)
    planned = list(queue.jobs)
    for job_id in planned:
        with suppress(ConcordanceError):
            sync(large, job_id=job_id)
    assert documents(large) == {"r5": 1}
    with suppress(ConcordanceError):
        sync(large)
    assert queue.jobs == planned
    for name in ROOTS[:5]:
        (large.root.parent / name).mkdir()
        (large.root.parent / name / "one.md").write_text("# Back\n\nIt is there again.\n")
    sync(large)
    assert documents(large) == dict.fromkeys(ROOTS, 1)


def test_without_dagster_the_sync_does_it_all_itself(large: Installation, queue: Queue) -> None:
    queue.refuses_after = 2
    sync(large)
    assert len(queue.jobs) == 2
    assert len(documents(large)) == len(ROOTS) - 2
    (withdrawn, *_) = large.rows(
        "SELECT job_id::text AS id FROM sync_jobs WHERE planned_by IS NOT NULL AND NOT job_id::text = ANY(%s)",
        queue.jobs,
    )
    with pytest.raises(EndedJobError):  # Dagster created its run, although it answered that it did not
        sync(large, job_id=withdrawn["id"])
    for job_id in queue.jobs:
        sync(large, job_id=job_id)
    assert documents(large) == dict.fromkeys(ROOTS, 1)
    assert set(statuses(large)) == {"success"}


def test_a_second_run_of_a_job_that_has_ended_does_the_work_of_that_job(large: Installation) -> None:
    job = create_job(large.settings.postgres_dsn, FILES, partitions=["r1"], full=True, requested_by="api")
    for _ in range(2):
        done = sync(large, job_id=job.job_id)
        assert (done.partitions, done.full) == (["r1"], True)
    assert documents(large) == {"r1": 1}


def test_the_run_of_a_planned_job_that_has_ended_succeeds_at_once(
    dagster_runs: DagsterRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, _ = ended(dagster_runs)
    dsn = dagster_runs.installation.settings.postgres_dsn
    monkeypatch.setattr(leases.claim, "__kwdefaults__", {"seconds": 1.0, "waits": None})
    other = leases.claim(dsn, FILES.value, ["notes"])
    assert other is not None
    result = dagster_runs.run({JOB_TAG: planned, PARTITION_TAG: WHOLE})
    other.release()
    assert statuses(dagster_runs.installation) == ["running", "success"]
    assert result.get_asset_check_evaluations() == []


def test_a_run_of_a_planned_job_that_is_executed_again_does_its_work(dagster_runs: DagsterRuns) -> None:
    (dagster_runs.installation.root / "otter.txt").write_text("The otter sleeps until noon.\n")
    planned, first = ended(dagster_runs)
    end_job(dagster_runs.installation.settings.postgres_dsn, first, None)
    dagster_runs.run({JOB_TAG: planned, PARTITION_TAG: WHOLE, PARENT_TAG: "the failed run"})
    assert documents(dagster_runs.installation) == {"docs": 1}
    (job,) = dagster_runs.installation.rows("SELECT partitions FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job["partitions"] == ["docs"]


def ended(runs: DagsterRuns) -> tuple[str, str]:
    """Return the ids of a job that has ended and of the running one that planned it."""
    dsn = runs.installation.settings.postgres_dsn
    with session(dsn, autocommit=True) as connection:
        first = create_job(dsn, FILES, partitions=None, full=False, requested_by="test")
        planned = Jobs(connection).plan(
            source=FILES.value, partitions=["docs"], full_sync=False, planned_by=first.job_id
        )
        Jobs(connection).withdraw(job_id=planned.job_id)
    return planned.job_id, first.job_id


def test_planned_runs_work_at_the_same_time(large: Installation, queue: Queue) -> None:
    sync(large)
    faults: list[BaseException] = []

    def work(job_id: str) -> None:
        try:
            sync(large, job_id=job_id)
        except BaseException as error:  # noqa: BLE001
            faults.append(error)

    threads = [threading.Thread(target=work, args=(one,)) for one in queue.jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert documents(large) == dict.fromkeys(ROOTS, 1)
    assert large.agrees()
    assert large.rows("SELECT count(*) AS n FROM index_collections") == [{"n": 1}]


def test_a_full_sync_is_divided_too(large: Installation, queue: Queue) -> None:
    sync(large, runs=1)
    job = create_job(large.settings.postgres_dsn, FILES, partitions=None, full=True, requested_by="test")
    sync(large, job_id=job.job_id)
    assert len(queue.jobs) == len(ROOTS)
    assert large.rows("SELECT bool_and(full_sync) AS f FROM sync_jobs WHERE planned_by IS NOT NULL") == [{"f": True}]


@pytest.mark.parametrize(("count", "most"), [(1, 8), (7, 8), (8, 8), (200, 32), (1000, 16)])
def test_ranges_cover_every_partition_once(count: int, most: int) -> None:
    names = [f"{number:04}" for number in range(count)]
    ranges = divided(names, most)
    assert [one for part in ranges for one in part] == names
    assert len(ranges) == min(count, most)
    assert max(map(len, ranges)) - min(map(len, ranges)) <= 1
