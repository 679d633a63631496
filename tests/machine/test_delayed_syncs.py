"""A sync that is late to start is delayed and begun again, never failed; commands that wait say for what, and survive a restart."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestration import schedules
from orchestration.cli.installation import read_people
from orchestration.cli.presence import RESTART_SECONDS, Presence
from orchestration.cli.syncing import read_job
from orchestration.supervision import run_state
from orchestration.supervision.run_state import RunState
from resources.core.domain import SourceName
from resources.core.errors import BusyError
from resources.servers.processes import ProcessIdentity
from resources.settings import Settings
from resources.syncs.jobs import create_job
from resources.syncs.launch import JOB_TAG, SOURCE_TAG, start_sync
from resources.syncs.syncing import SyncJob, open_sync
from tests.fixtures import loopback
from tests.fixtures.dagster_runs import stored_instance
from tests.fixtures.installation import Installation

FILES = SourceName.FILES
LAUNCHED = {"data": {"launchRun": {"__typename": "LaunchRunSuccess", "run": {"runId": "r2"}}}}


class FakeDagster:
    """Stands in for Dagster's webserver: remembers the runs that it was asked to launch; it can be silent."""

    def __init__(self) -> None:
        self.launched: list[str] = []
        self.silent = threading.Event()
        self.released = threading.Event()


@pytest.fixture
def fake_dagster(installation: Installation) -> Iterator[FakeDagster]:
    fake = FakeDagster()

    class Handler(loopback.Handler):
        def do_POST(self) -> None:
            fake.launched.append(json.loads(self.body())["variables"]["params"]["selector"]["jobName"])
            if fake.silent.is_set():
                fake.released.wait(60)
            self.answer(200, json.dumps(LAUNCHED).encode())

    with loopback.serving(Handler) as url:
        installation.settings = installation.settings.model_copy(update={"dagster_url": url})
        yield fake
        fake.released.set()


def requested(settings: Settings, partitions: list[str] | None = None, *, merge: bool = False) -> str:
    return create_job(
        settings.postgres_dsn, FILES, partitions=partitions, full=False, requested_by="test", merge=merge
    ).job_id


def aged(installation: Installation) -> None:
    installation.rows("UPDATE sync_jobs SET started_at = now() - interval '1 hour' RETURNING job_id")


def rows(installation: Installation) -> list[tuple[str, str]]:
    return [(row["job_id"], row["status"]) for row in installation.rows(
        "SELECT job_id::text AS job_id, status FROM sync_jobs ORDER BY started_at"
    )]  # fmt: skip


def test_a_run_that_dagster_gives_up_before_it_starts_is_launched_again(
    installation: Installation, fake_dagster: FakeDagster
) -> None:
    settings, job_id = installation.settings, requested(installation.settings)
    run: Any = SimpleNamespace(run_id="r1", job_name="sync_files", tags={JOB_TAG: job_id, SOURCE_TAG: "files"})
    said = "Run timed out due to taking longer than 1800 seconds to start."
    schedules.close_failed(settings, run, said, late=True)
    assert fake_dagster.launched == ["sync_files"]
    assert rows(installation) == [(job_id, "running")]
    assert read_job(settings, job_id)["stage"] == "delayed"
    with open_sync(settings, FILES, job_id=job_id):
        pass
    assert rows(installation) == [(job_id, "success")]
    schedules.close_failed(settings, run, said, late=True)  # the message of the first run comes late, too
    assert (fake_dagster.launched, rows(installation)) == (["sync_files"], [(job_id, "success")])


def test_a_job_that_no_process_begins_is_taken_over_with_its_request(installation: Installation) -> None:
    settings, job_id = installation.settings, requested(installation.settings, ["docs"])
    with pytest.raises(BusyError):
        requested(settings)
    aged(installation)
    assert requested(settings, ["docs", "notes"]) == job_id
    (row,) = installation.rows("SELECT status, partitions FROM sync_jobs")
    assert row == {"status": "running", "partitions": ["docs", "notes"]}
    aged(installation)
    with open_sync(settings, FILES) as job:  # a run that Dagster started by itself
        assert (job.job_id, job.partitions) == (job_id, None)
    assert rows(installation) == [(job_id, "success")]


def test_a_run_that_starts_late_is_waited_for_however_late(installation: Installation) -> None:
    settings, job_id = installation.settings, requested(installation.settings)
    aged(installation)
    with stored_instance(settings.postgres_dsn):
        for key, value in ((JOB_TAG, job_id), ("concordance/worker", "1 1")):
            installation.rows(
                "WITH run AS (INSERT INTO dagster.runs (run_id, status, run_body) VALUES ('r1', 'STARTING', '{}')"
                " ON CONFLICT DO NOTHING) INSERT INTO dagster.run_tags (run_id, key, value) VALUES ('r1', %s, %s) RETURNING id",
                key, value,
            )  # fmt: skip
        with pytest.raises(BusyError, match="already running"):
            requested(settings)
        installation.rows("UPDATE dagster.runs SET status = 'FAILURE' RETURNING id")
        assert requested(settings) == job_id
    assert rows(installation) == [(job_id, "running")]


def test_a_run_whose_job_another_has_done_has_a_job_of_its_own(installation: Installation) -> None:
    settings, job_id = installation.settings, requested(installation.settings)
    for _ in range(2):
        with open_sync(settings, FILES, job_id=job_id):
            pass
    assert [status for _, status in rows(installation)] == ["success", "success"]


def test_a_dagster_that_answers_late_has_not_refused(
    installation: Installation, fake_dagster: FakeDagster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("resources.syncs.launch.LAUNCH_TIMEOUT_SECONDS", 0.2)
    fake_dagster.silent.set()
    started = start_sync(installation.settings, FILES, partitions=None, full=False, requested_by="test")
    assert rows(installation) == [(started.job_id, "running")]


def test_a_job_that_waits_for_a_minute_is_shown_as_delayed(installation: Installation) -> None:
    job_id = requested(installation.settings)
    assert read_job(installation.settings, job_id)["stage"] is None
    aged(installation)
    assert read_job(installation.settings, job_id)["stage"] == "delayed"


def test_passages_are_counted_inside_a_wave(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    installation.settings = installation.settings.model_copy(update={"embedding_batch": 1})
    for number in range(12):
        installation.write(f"{number}.txt", f"Otter number {number} sleeps until noon.\n")
    seen: list[tuple[int, int, int]] = []
    progress = SyncJob.progress

    def noted(job: SyncJob, stage: str, *, force: bool = False) -> None:
        seen.append((job.counts.done, job.counts.passages, job.counts.expected))
        progress(job, stage, force=force)

    monkeypatch.setattr(SyncJob, "progress", noted)
    installation.sync()
    assert (0, 4, 12) in seen
    assert (0, 8, 12) in seen
    (row,) = installation.rows("SELECT documents, done, passages, expected FROM sync_jobs")
    assert row == {"documents": 12, "done": 12, "passages": 12, "expected": 12}


def test_a_set_that_is_restarted_is_waited_for_and_one_that_was_stopped_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = Settings(_env_file=None, home=tmp_path)  # type: ignore[call-arg]
    (tmp_path / "run").mkdir()
    times = iter([0.0, 1.0, RESTART_SECONDS, RESTART_SECONDS + 1, RESTART_SECONDS + 1])
    run_state.write(settings, RunState(supervisor=ProcessIdentity(2**22 + 1, 1.0)))  # it left its services
    presence = Presence(settings, clock=lambda: next(times))
    assert [presence.lasts() for _ in range(3)] == [True, True, False]
    assert capsys.readouterr().err.count("being restarted") == 1
    run_state.write(settings, RunState())
    assert not presence.lasts()


def test_people_and_groups_are_read_at_start(
    installation: Installation, fake_dagster: FakeDagster, tmp_path: Path
) -> None:
    read_people(installation.settings)
    assert fake_dagster.launched == []
    groups = tmp_path / "groups.csv"
    groups.write_text("group,member\neng@acme.example,ann@acme.example\n")
    read_people(installation.settings.model_copy(update={"groups_file": groups}))
    assert fake_dagster.launched == ["sync_directory"]
