"""Several serving processes under the supervisor: it knows one service, whose standby takes over with processes of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from orchestration.supervision import run_state
from orchestration.supervision.service import Service
from orchestration.supervision.services import services
from orchestration.supervision.supervisor import Supervisor
from resources.servers.processes import free_port
from resources.settings import Settings
from tests.fixtures.serving import Site
from tests.fixtures.workers import Processes, until

SERVING = "serving"


def alone(settings: Settings) -> list[list[Service]]:
    """Return the HTTP service as the only one."""
    return [[service for stage in services(settings) for service in stage if service.name == SERVING]]


@pytest.fixture
def settings(site: Site, models_home: Path) -> Settings:
    """Settings for two serving processes."""
    (site.settings.home / "models").symlink_to(models_home)
    return site.settings.model_copy(update={"http_port": free_port(), "serving_workers": 2})


@pytest.fixture
def supervisor(settings: Settings) -> Iterator[Supervisor]:
    supervisor = Supervisor(settings, alone(settings))
    supervisor.start()
    yield supervisor
    supervisor.stop()


def leader(settings: Settings) -> int | None:
    found = run_state.read(settings).services[SERVING].identity
    return None if found is None else found.pid


def standby(settings: Settings) -> int | None:
    found = run_state.read(settings).services.get(SERVING)
    return None if found is None or found.standby is None else found.standby.pid


def serving(site: Site, settings: Settings) -> Processes:
    """Return the processes that serve, once all of them do."""
    pid = until(lambda: leader(settings), "a leader")
    running = Processes(site, psutil.Process(pid), 2, settings.http_port, settings.home / "logs" / f"{SERVING}.log")
    running.wait()
    return running


def runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def status(url: str) -> int | None:
    """Return the status of an answer; None if a process that is about to end accepted the connection and cut it."""
    try:
        return httpx.get(url, timeout=60).status_code
    except (httpx.RemoteProtocolError, httpx.ReadError):
        return None


def assert_takes_over(site: Site, settings: Settings, running: Processes) -> None:
    """Kill the leader: its followers end, and the standby serves with a follower of its own."""
    successor = until(lambda: standby(settings), "a standby")
    before = [running.leader, *running.followers]
    os.kill(running.leader.pid, signal.SIGKILL)
    assert until(lambda: status(f"{running.url}/healthz"), "an answer") == 200, "no connection is refused"
    until(lambda: not any(map(runs, before)), "the end of all processes")
    until(lambda: leader(settings) == successor, "the standby in its place")
    after = serving(site, settings)
    assert {one.pid for one in after.followers}.isdisjoint(one.pid for one in before)


def test_the_standby_takes_over_from_a_killed_leader(site: Site, settings: Settings, supervisor: Supervisor) -> None:
    running = serving(site, settings)
    assert_takes_over(site, settings, running)
    after = serving(site, settings)
    processes = [after.leader, *after.followers]
    supervisor.stop()
    assert not any(map(runs, processes))
