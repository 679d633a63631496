"""Dagster run launcher that uses a warm worker, or a new process of the code server if no worker can be reached."""

import os
import signal
from typing import Any, cast

import psutil
from dagster import DagsterRun, DagsterRunStatus

from orchestration.dagster_api import (
    CODE_SERVER_TAG,
    CheckRunHealthResult,
    DagsterGrpcClient,
    DefaultRunLauncher,
    LaunchRunContext,
    WorkerStatus,
    code_server_runs,
)
from orchestration.supervision.workers import hand_over
from resources.servers.processes import identify
from resources.settings import load
from resources.syncs.launch import PARTITION_TAG, RANGE_START_TAG, WHOLE

WORKER_TAG = "concordance/worker"
"""Identity of the run's process (`ProcessIdentity`), and the run's id: Dagster copies the tags of a run to its re-execution."""


class WarmRunLauncher(DefaultRunLauncher):
    """The default launcher, extended by warm workers; see `orchestration/supervision/workers.py`."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Hand the run to a warm worker, or launch it the default way."""
        run = context.dagster_run
        self._instance.add_run_tags(run.run_id, whole_source(run))
        worker = hand_over(load(), run.run_id)
        if worker is None:
            super().launch_run(context)
            return
        self._instance.add_run_tags(run.run_id, {WORKER_TAG: f"{worker[0]} {worker[1]} {run.run_id}"})
        cast("Any", self)._run_ids.add(run.run_id)  # its type is unknown

    def terminate(self, run_id: str) -> bool:
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        if not has_worker(run):
            return super().terminate(run_id)
        process = worker_of(run)
        self._instance.report_run_canceling(run)
        if process is None:
            return False
        os.kill(process.pid, signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """True, so that run monitoring calls `check_run_worker_health`."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Return the health of the run's process."""
        if self.is_abandoned(run):
            return CheckRunHealthResult(WorkerStatus.FAILED, "The process of this run has died.")
        return CheckRunHealthResult(WorkerStatus.RUNNING)

    def is_abandoned(self, run: DagsterRun) -> bool:
        """Return True if the process of an unfinished run has ended.

        A code server fails the runs of its own processes that end, but its successor does not know the runs that ended with it.
        """
        if has_worker(run):
            return worker_of(run) is None
        if CODE_SERVER_TAG not in run.tags or run.status == DagsterRunStatus.CANCELING:
            return False
        client: DagsterGrpcClient | None = cast("Any", self)._get_grpc_client_for_termination(run.run_id)
        return client is not None and not code_server_runs(client, run.run_id)


def whole_source(run: DagsterRun) -> dict[str, str]:
    """Return the tag that a sync without partitions needs; the Launchpad starts one if no partition is chosen."""
    chosen = {PARTITION_TAG, RANGE_START_TAG}.intersection(run.tags)
    return {PARTITION_TAG: WHOLE} if run.job_name.startswith("sync_") and not chosen else {}


def has_worker(run: DagsterRun) -> bool:
    """Return True if a warm worker was given this run. Earlier versions did not write the id."""
    return WORKER_TAG in run.tags and run.tags[WORKER_TAG].split()[2:] in ([], [run.run_id])


def worker_of(run: DagsterRun) -> psutil.Process | None:
    """Return the worker that was given a run; None if it has ended."""
    pid, started = run.tags[WORKER_TAG].split()[:2]
    try:
        process = psutil.Process(int(pid))
        found = identify(process.pid)
        # Earlier versions wrote the time of day, which a step of the clock changes.
        same = found is not None and (
            found.started == float(started) or abs(process.create_time() - float(started)) < 1
        )
    except (psutil.NoSuchProcess, ValueError):
        return None
    return process if same else None
