"""A warm run worker: import what runs need, then execute the runs whose ids arrive on standard input.

`orchestration/supervision/workers.py` starts it and receives a line of JSON every few seconds, as a heartbeat, and another per completed
task. A worker also marks runs as failed whose process died, because Dagster's run monitoring only covers runs that have started.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import msgspec
import psycopg

from orchestration.supervision.workers import EVERY_RUN, Task, TaskReport
from resources import priority
from resources.core.errors import ServiceUnavailableError
from resources.logging import configure, logger
from resources.servers.lines import line
from resources.settings import Settings, load
from resources.syncs.jobs import DIED as JOB_DIED
from resources.syncs.jobs import fail_run
from resources.syncs.launch import job_of

if TYPE_CHECKING:
    from dagster import DagsterInstance, DagsterRun

BEAT_SECONDS = 5.0
RUNS_A_WORKER = 50
"""Runs that one process executes before it is replaced."""
SETTLE_SECONDS = 300.0
"""How long to retry while the database is unavailable."""
LAUNCH_SECONDS = 60.0
"""A code server may take so long to receive a run."""
DIED = "The process of this run has died."

log = logger("workers")


def main() -> int:
    """Execute tasks until the pool closes the pipe, a run fails or lowered the priority, or `RUNS_A_WORKER` are done."""
    settings = load()
    configure(settings.log_level, "workers")
    # Runs may print, so standard output is replaced; only heartbeats go to the pool.
    pool = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    os.set_blocking(pool, False)
    threading.Thread(target=_beat, args=(pool,), name="beat", daemon=True).start()
    _warm_up(settings)
    from dagster import DagsterInstance

    from orchestration.dagster_api import run_executor

    execute = run_executor()
    with DagsterInstance.get() as instance:
        executed = 0
        while executed < RUNS_A_WORKER:
            received = sys.stdin.readline()
            if not received:
                return 0
            task = msgspec.json.decode(received, type=Task)
            if task.what == "settle":
                settle(settings, instance, task.runs)
            else:
                executed += 1
                if execute(task.runs[0], instance, write_stream_fn=_discard, set_exit_code_on_failure=True):
                    return 0  # a run that failed or was interrupted may have left the process in any state
            if priority.lowered():
                return 0
            _release_memory()
            _write(pool, TaskReport(done=True))
    return 0


def _release_memory() -> None:
    """Return what the run has freed to the system. Source: malloc_trim(3), which only the GNU C library has."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def settle(settings: Settings, instance: DagsterInstance, run_ids: Sequence[str]) -> None:
    """Mark runs whose process died as failed, and close their sync jobs. Retries while the database is unavailable."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        try:
            for run_id in run_ids:
                for run in _abandoned(instance) if run_id == EVERY_RUN else [instance.get_run_by_id(run_id)]:
                    if run is not None and not run.is_finished:
                        _fail(settings, instance, run)
        except (psycopg.Error, ServiceUnavailableError, *_storage_errors()) as error:
            if time.monotonic() > deadline:
                raise
            log.warning("run_settle_postponed", reason=type(error).__name__)
            time.sleep(1)
        else:
            return


def _fail(settings: Settings, instance: DagsterInstance, run: DagsterRun) -> None:
    fail_run(settings.postgres_dsn, run.run_id, job_of(run.tags), JOB_DIED)
    instance.report_run_failed(run, DIED)
    log.warning("run_failed", run_id=run.run_id, reason=DIED)


def _abandoned(instance: DagsterInstance) -> list[DagsterRun]:
    """Return the unfinished runs whose process has ended."""
    from dagster import DagsterRunStatus, RunsFilter

    from orchestration.supervision.launcher import WarmRunLauncher, has_worker

    unfinished = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
    records = instance.get_run_records(RunsFilter(statuses=unfinished))
    launcher = cast("WarmRunLauncher", instance.run_launcher)
    late = datetime.now(UTC) - timedelta(seconds=LAUNCH_SECONDS)
    runs = [
        record.dagster_run
        for record in records
        if has_worker(record.dagster_run) or record.create_timestamp.replace(tzinfo=UTC) < late
    ]
    return [current for run in runs if launcher.is_abandoned(run) and (current := instance.get_run_by_id(run.run_id))]


def _storage_errors() -> tuple[type[Exception], ...]:
    from dagster_postgres.utils import DagsterPostgresException
    from sqlalchemy.exc import SQLAlchemyError

    return (SQLAlchemyError, DagsterPostgresException)


def _warm_up(settings: Settings) -> None:
    import orchestration.definitions
    from assets import pipeline
    from resources.embedding import embedder, tokenizer

    signal.signal(signal.SIGINT, signal.default_int_handler)
    orchestration.definitions.defs.get_repository_def()
    if pipeline.STAGES and settings.embedding_provider == "local":
        embedder(settings)
        tokenizer(settings)


def _beat(pool: int) -> None:
    while True:
        _write(pool, TaskReport())
        time.sleep(BEAT_SECONDS)


def _write(pool: int, report: TaskReport) -> None:
    with suppress(BlockingIOError, BrokenPipeError):  # the pool hangs or has ended; its successor takes over
        os.write(pool, line(report))


def _discard(_event: object) -> None:
    """Ignore an event, which is already in Dagster's event log."""


if __name__ == "__main__":
    sys.exit(main())
