"""`concordance up` when it cannot start: what it says, its exit status, and what it leaves behind."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestration.supervision import run_state
from orchestration.supervision.environment import child_environment
from orchestration.supervision.service import Service
from orchestration.supervision.supervisor import Supervisor
from resources.servers.processes import free_port
from resources.settings import FileRoot, Settings

ROOT = Path(__file__).parents[2]
SECONDS = 120


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    ports = {name: free_port() for name in ("http_port", "qdrant_port", "postgres_port", "dagster_port")}
    return Settings(_env_file=None, home=tmp_path / "home", **ports)  # type: ignore[call-arg, arg-type]


def up(settings: Settings, *flags: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    command = [*prefix, sys.executable, "-m", "orchestration.cli", "up", *flags]
    return subprocess.run(
        command, env=child_environment(settings), cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_taken_port_leaves_nothing_behind(settings: Settings, flags: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", settings.qdrant_port)):
        done = up(settings, *flags)
    assert done.returncode == 1, done.stderr
    assert f"Port {settings.qdrant_port}" in done.stderr
    assert "CONCORDANCE_QDRANT_PORT" in done.stderr
    assert not settings.home.exists()


def test_a_wrong_value_stops_the_start_and_all_are_named(settings: Settings) -> None:
    root = FileRoot(name="notes", url="file:///nowhere", tenant="acme", dataset="notes")
    wrong = {"qdrant_url": "http://127.0.0.1:9", "chunk_profile": "b500", "file_roots": (root,)}
    done = up(Settings(_env_file=None, home=settings.home, **wrong))  # type: ignore[call-arg, arg-type]
    assert done.returncode == 1, done.stderr
    named = (
        "/nowhere does not exist",
        "no permissions",
        "CONCORDANCE_QDRANT_URL",
        "CONCORDANCE_SEARCH__CHUNK_PROFILE",
    )
    assert [name for name in named if name not in done.stderr] == []
    assert not (settings.home / "run" / "state.json").exists()


def sleeper(settings: Settings, ready: threading.Event) -> Service:
    return Service(
        name="sleeper",
        command=lambda: [sys.executable, "-c", "import time; time.sleep(600)"],
        ready=ready.is_set,
        environment=child_environment(settings),
    )


@pytest.fixture
def ready() -> threading.Event:
    return threading.Event()


@pytest.fixture
def other(settings: Settings, ready: threading.Event) -> Iterator[threading.Thread]:
    """Another `up` on the same HOME, which becomes ready when `ready` is set."""
    supervisor = Supervisor(settings, [[sleeper(settings, ready)]])

    thread = threading.Thread(target=supervisor.start)
    thread.start()
    while run_state.supervisor(settings) is None:
        assert thread.is_alive()
    yield thread
    ready.set()
    thread.join()
    supervisor.stop()


@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_second_up_says_that_another_is_starting(
    settings: Settings, other: threading.Thread, flags: tuple[str, ...]
) -> None:
    done = up(settings, *flags)
    assert done.returncode == 1, done.stderr
    assert "is starting in" in done.stderr
    assert settings.base_url not in done.stdout, "no address of a service that does not answer"
    assert other.is_alive(), "the first one is left alone"


@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_second_up_says_that_it_runs_already(
    settings: Settings, other: threading.Thread, ready: threading.Event, flags: tuple[str, ...]
) -> None:
    ready.set()
    other.join(SECONDS)
    done = up(settings, *flags)
    assert done.returncode == 0, done.stderr
    assert "is already running in" in done.stderr
    assert "already" in done.stderr
    assert settings.base_url in done.stdout
    assert settings.dagster_address in done.stdout
    assert "token=" not in done.stdout + done.stderr, "a link that signs in is printed to a terminal only"


def test_two_at_once_do_not_both_report_success(settings: Settings) -> None:
    run_state.state_file(settings).parent.mkdir(parents=True)
    with run_state.lock(settings):  # as far as another one gets before it has written its state
        done = up(settings, "--detach")
    assert done.returncode == 1, done.stdout + done.stderr
    assert settings.base_url not in done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system takes root")
@pytest.mark.parametrize("flags", [(), ("--detach",)])
def test_a_read_only_home_is_named(settings: Settings, flags: tuple[str, ...]) -> None:
    for name in ("", "dagster", "lake", "logs", "qdrant", "run"):
        (settings.home / name).mkdir()
    mounted = f'mount -t tmpfs none "{settings.home}" -o ro && exec "$@"'
    prefix = ("unshare", "--mount", "sh", "-c", mounted, "sh")
    if subprocess.run([*prefix, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this machine does not allow mounts")
    done = up(settings, *flags, prefix=prefix)
    assert done.returncode == 1, done.stderr
    assert "CONCORDANCE_HOME" in done.stderr
    assert "Read-only file system" in done.stderr
    assert "Traceback" not in done.stderr
