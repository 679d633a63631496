"""Runs in processes of a code server: nothing else notices that one was killed together with its server, or that one was not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import psutil
import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus

from orchestration import run_worker
from orchestration.dagster_api import WorkerStatus
from orchestration.run_worker import settle
from orchestration.supervision.launcher import WORKER_TAG, WarmRunLauncher
from orchestration.supervision.workers import EVERY_RUN
from resources.core.domain import SourceName
from resources.syncs.jobs import DIED, create_job
from resources.syncs.launch import JOB_TAG
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until

WAIT_SECONDS = 60
CODE = """
import time
from dagster import Definitions, job, op

@op
def waits():
    time.sleep(600)

@job
def long():
    waits()

defs = Definitions(jobs=[long])
"""


class CodeServer(NamedTuple):
    socket: Path
    start: Callable[[], subprocess.Popen[bytes]]
    instance: DagsterInstance
    folder: Path


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and everything that it started, as the supervisor does with what a killed service leaves."""
    family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in family:
        one.send_signal(signal.SIGKILL)
    process.wait()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CodeServer]:
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))  # without a pool of warm workers
    (tmp_path / "dagster.yaml").write_text(
        "run_launcher: {module: orchestration.supervision.launcher, class: WarmRunLauncher}\n"
        "run_coordinator: {module: dagster._core.run_coordinator, class: DefaultRunCoordinator}\ntelemetry: {enabled: false}\n"
    )
    (tmp_path / "long_job.py").write_text(CODE)
    socket = tmp_path / "code.sock"
    (tmp_path / "workspace.yaml").write_text(
        f"load_from:\n  - grpc_server:\n      socket: '{socket}'\n      location_name: here\n"
    )
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        socket.unlink(missing_ok=True)
        command = [sys.executable, "-m", "dagster", "api", "grpc", "-f", str(tmp_path / "long_job.py")]
        process = subprocess.Popen(
            [*command, "--socket", str(socket), "--location-name", "here"],
            env=os.environ | {"DAGSTER_HOME": str(tmp_path)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        started.append(process)
        until(socket.exists, "the start of the code server")
        return process

    with DagsterInstance.from_config(str(tmp_path)) as instance:
        yield CodeServer(socket, start, instance, tmp_path)
    for process in started:
        if process.poll() is None:
            kill(process)


def launch(server: CodeServer) -> DagsterRun:
    """Launch a run with Dagster's own command, and wait until its process works."""
    subprocess.run(
        [sys.executable, "-m", "dagster", "job", "launch", "-w", str(server.folder / "workspace.yaml"), "-j", "long"],
        env=os.environ | {"DAGSTER_HOME": str(server.folder)},
        check=True,
        capture_output=True,
        timeout=WAIT_SECONDS,
    )
    until(lambda: current(server).status == DagsterRunStatus.STARTED, "the start of the run")
    return current(server)


def current(server: CodeServer) -> DagsterRun:
    (run,) = server.instance.get_runs()
    return run


def test_a_run_that_was_killed_with_its_code_server_ends_its_sync_job(
    server: CodeServer, installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the source was busy for good: its job was running, and no process would ever claim it."""
    dsn = installation.settings.postgres_dsn
    process = server.start()
    run = launch(server)
    job = create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test")
    server.instance.add_run_tags(run.run_id, {JOB_TAG: job.job_id})
    health = cast("WarmRunLauncher", server.instance.run_launcher).check_run_worker_health
    assert health(run).status == WorkerStatus.RUNNING
    kill(process)
    assert health(run).status == WorkerStatus.RUNNING  # no server says otherwise
    server.start()
    assert health(run).status == WorkerStatus.FAILED
    settle(installation.settings, server.instance, [EVERY_RUN])
    assert current(server).status == DagsterRunStatus.STARTED  # a code server may just be receiving it
    monkeypatch.setattr(run_worker, "LAUNCH_SECONDS", 0)
    settle(installation.settings, server.instance, [EVERY_RUN])
    assert current(server).status == DagsterRunStatus.FAILURE
    (row,) = installation.rows("SELECT status, error_message FROM sync_jobs")
    assert row == {"status": "failed", "error_message": DIED}
    assert create_job(dsn, SourceName.FILES, partitions=None, full=False, requested_by="test").job_id != job.job_id


@pytest.mark.parametrize("copied", [True, False])
def test_a_re_execution_is_not_taken_for_the_dead_run_whose_tags_it_has(
    server: CodeServer, installation: Installation, *, copied: bool
) -> None:
    server.start()
    run = launch(server)
    launcher = cast("WarmRunLauncher", server.instance.run_launcher)
    parent = "4f9c1e4e-7d5b-4a8e-9f35-0d1c2b3a4f5e" if copied else run.run_id
    server.instance.add_run_tags(run.run_id, {WORKER_TAG: f"1 1.0 {parent}"})
    expected = WorkerStatus.RUNNING if copied else WorkerStatus.FAILED
    assert launcher.check_run_worker_health(current(server)).status == expected
    settle(installation.settings, server.instance, [EVERY_RUN])
    if not copied:
        assert current(server).status == DagsterRunStatus.FAILURE
        return
    assert current(server).status == DagsterRunStatus.STARTED
    assert launcher.terminate(run.run_id)
    until(lambda: current(server).status == DagsterRunStatus.CANCELED, "the end of the run")
