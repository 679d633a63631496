"""Dagster's run launcher: a run goes to a warm worker, and to a process of its own when none can be reached."""

from __future__ import annotations

import os
import signal

import psutil
from dagster import DagsterRun
from dagster._core.launcher.base import CheckRunHealthResult, LaunchRunContext, WorkerStatus
from dagster._core.launcher.default_run_launcher import DefaultRunLauncher

from orchestration.supervision.workers import hand_over
from resources.settings import load

WORKER_TAG = "concordance/worker"
"""Pid of the process that does the run, and the time it was made: a pid alone may be used again."""


class WarmRunLauncher(DefaultRunLauncher):
    """The default launcher with warm workers before it; see `orchestration/supervision/workers.py`."""

    def launch_run(self, context: LaunchRunContext) -> None:
        """Hand the run to a warm worker, or launch it the default way."""
        run = context.dagster_run
        worker = hand_over(load(), run.run_id)
        if worker is None:
            super().launch_run(context)
            return
        self._instance.add_run_tags(run.run_id, {WORKER_TAG: f"{worker[0]} {worker[1]}"})
        self._run_ids.add(run.run_id)

    def terminate(self, run_id: str) -> bool:
        """Interrupt the run's worker."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        process = worker_of(run)
        if WORKER_TAG not in run.tags:
            return super().terminate(run_id)
        self._instance.report_run_canceling(run)
        if process is None:
            return False
        os.kill(process.pid, signal.SIGINT)
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Whether run monitoring may ask for workers."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Tell whether the run's worker lives; runs in processes of the code server are watched by the code server."""
        if WORKER_TAG not in run.tags or worker_of(run) is not None:
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, "The process that did this run has died.")


def worker_of(run: DagsterRun) -> psutil.Process | None:
    """Return the process that does the run while it lives."""
    pid, _, made = run.tags.get(WORKER_TAG, "0 0").partition(" ")
    try:
        process = psutil.Process(int(pid))
        alive = abs(process.create_time() - float(made)) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return None
    return process if alive else None
