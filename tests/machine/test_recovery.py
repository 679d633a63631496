"""The whole set when its processes hang or die: each is restarted, and what people do next succeeds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator

import httpx
import pytest

from orchestration.supervision import run_state
from orchestration.supervision.launcher import WORKER_TAG
from resources.core.domain import SourceName
from resources.servers.processes import ProcessIdentity
from resources.syncs.jobs import hold
from resources.syncs.launch import JOB_TAG, start_sync
from tests.fixtures.company import Company
from tests.fixtures.waiting import until

pytestmark = pytest.mark.xdist_group("company")

SECONDS = 240
BUT_POSTGRES = "qdrant", "serving", "serving-2", "dagster-code", "dagster-webserver", "dagster-daemon", "run-workers"


def identity(company: Company, name: str) -> ProcessIdentity:
    found = run_state.read(company.settings).services[name].identity
    assert found is not None, f"{name} does not run"
    return found


def state(company: Company, name: str) -> str:
    return run_state.read(company.settings).services[name].state


def replaced(company: Company, name: str, before: ProcessIdentity) -> bool:
    """Whether another process of the service answers."""
    now = run_state.read(company.settings).services[name]
    return now.state == "ready" and now.identity != before


@pytest.fixture(autouse=True)
def _running(company: Company) -> Iterator[None]:
    """Each test begins with a set that runs, and leaves one to the next."""
    until(lambda: run_state.running(company.settings), "the set running")
    yield
    until(lambda: run_state.running(company.settings), "the set running again")


def test_every_service_that_hangs_is_shown_and_restarted(company: Company, show: Callable[[str], None]) -> None:
    before = {name: identity(company, name) for name in BUT_POSTGRES}
    since = time.monotonic()
    for process in before.values():
        os.kill(process.pid, signal.SIGSTOP)
    waiting = dict(before)
    shown: set[str] = set()
    while waiting:
        assert time.monotonic() - since < SECONDS, f"still waiting for {list(waiting)}"
        for name, process in list(waiting.items()):
            if state(company, name) == "hung":
                shown.add(name)
            elif replaced(company, name, process):
                show(f"{name}: {time.monotonic() - since:.1f} s from SIGSTOP to ready")
                del waiting[name]
        time.sleep(0.02)
    assert shown == set(BUT_POSTGRES)
    assert company.sync()["status"] == "success"


def test_a_postgres_that_hangs_is_shown_and_restarted_and_a_sync_starts_at_once(
    company: Company, show: Callable[[str], None]
) -> None:
    assert company.sync()["status"] == "success"  # fills the webserver's pools, whose connections the restart breaks
    before = identity(company, "postgres")
    since = time.monotonic()
    os.kill(before.pid, signal.SIGSTOP)
    until(lambda: state(company, "postgres") == "hung", "`status` showing it")
    until(lambda: replaced(company, "postgres", before), "the restart")
    show(f"postgres: {time.monotonic() - since:.1f} s from SIGSTOP to ready")
    started = start_sync(company.settings, SourceName.FILES, partitions=None, full=False, requested_by="test")
    ended = until(
        lambda: company.rows("SELECT status FROM sync_jobs WHERE job_id = %s AND status <> 'running'", started.job_id),
        "the end of the sync",
    )
    assert ended == [{"status": "success"}]


def test_a_worker_killed_before_its_run_takes_up_the_job_does_not_block_the_source(
    company: Company, show: Callable[[str], None]
) -> None:
    with hold(company.settings, SourceName.FILES):  # the run waits for the source, its job is not claimed yet
        started = start_sync(company.settings, SourceName.FILES, partitions=None, full=False, requested_by="test")
        worker = until(
            lambda: company.rows(
                "SELECT run_id, value FROM dagster.run_tags AS w WHERE w.key = %s AND w.run_id IN"
                " (SELECT run_id FROM dagster.run_tags WHERE key = %s AND value = %s)",
                WORKER_TAG, JOB_TAG, started.job_id,
            ),
            "a worker taking the run",
        )  # fmt: skip
        since = time.monotonic()
        os.kill(int(worker[0]["value"].split()[0]), signal.SIGKILL)
    ended = until(
        lambda: company.rows("SELECT status FROM sync_jobs WHERE job_id = %s AND status <> 'running'", started.job_id),
        "the end of the job",
    )
    show(f"worker: {time.monotonic() - since:.1f} s from kill to a source that can be synced")
    assert ended == [{"status": "failed"}]
    until(
        lambda: company.rows(
            "SELECT 1 FROM dagster.runs WHERE run_id = %s AND status = 'FAILURE'", worker[0]["run_id"]
        ),
        "Dagster seeing that the run has failed",
    )
    assert company.sync()["status"] == "success"


def test_a_killed_http_service_is_replaced_before_its_clients_notice(
    company: Company, show: Callable[[str], None]
) -> None:
    before = identity(company, "serving")
    address = company.settings.base_url
    os.kill(before.pid, signal.SIGKILL)
    since = time.monotonic()
    # A new connection for each: the other process takes those that arrive meanwhile.
    for number in range(20):
        assert httpx.get(f"{address}/healthz", timeout=SECONDS).status_code == 200
        if number == 0:
            show(f"serving: {time.monotonic() - since:.2f} s from kill to the first answer")
    until(lambda: replaced(company, "serving", before), "`status` showing the other process")
    show(f"serving: {time.monotonic() - since:.1f} s from kill to two processes")
