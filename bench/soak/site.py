"""The installation under test: simulators, services, processes and their resources."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from orchestration.supervision import run_state
from resources.servers.processes import free_port
from resources.settings import Settings, load

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 180
STOP_SECONDS = 90
LOOK_SECONDS = 0.1
PUBLISHER, AUDITOR, READER = "wiki-bot@soak.example", "auditor@soak.example", "reader@soak.example"


@dataclass(frozen=True)
class Held:
    """Resources of all processes of the installation. Memory is the sum of proportional set sizes."""

    processes: int
    megabytes: int
    descriptors: int
    roles: dict[str, tuple[int, int, int]]
    """Processes, megabytes and descriptors by role."""


class Site:
    """An installation in a temporary HOME. `up` is restarted whenever it ends, as by a service manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="soak-"))
        self.folder.chmod(0o711)  # servers that drop privileges must be able to traverse it
        self.files = self.folder / "docs"
        self.files.mkdir()
        self.files.chmod(0o755)
        self.drive, self.slack = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self._simulators: list[subprocess.Popen[bytes]] = []
        self._up: subprocess.Popen[bytes] | None = None
        self._keeper: threading.Thread | None = None
        self._stopping = threading.Event()
        self.starts = 0
        os.environ.update(self._environment())
        self.settings: Settings = load(_env_file=None)

    def _environment(self) -> dict[str, str]:
        roots = [{"name": "docs", "url": self.files.as_uri(), "tenant": "soak", "dataset": "docs"}]
        values = {
            "HOME": str(self.folder / "home"),
            "HTTP_PORT": str(free_port()),
            "QDRANT_PORT": str(free_port()),
            "POSTGRES_PORT": str(free_port()),
            "DAGSTER_PORT": str(free_port()),
            "FILE_ROOTS": json.dumps(roots),
            "DRIVE_API_URL": self.drive,
            "DRIVE_TOKEN": "drive-simulator",
            "SLACK_API_URL": f"{self.slack}/api",
            "SLACK_BOT_TOKEN": "xoxb-simulator",
            "ROLES": json.dumps({"publisher": [PUBLISHER], "auditor": [AUDITOR]}),
            "SYNC_MINUTES": "60",  # the soak test requests every sync itself
            "SEARCH_RATE_LIMIT": "1000000",
        }
        return {f"CONCORDANCE_{name}": value for name, value in values.items()}

    @property
    def address(self) -> str:
        """URL of the HTTP API."""
        return f"http://127.0.0.1:{self.settings.http_port}"

    def start(self) -> None:
        """Start the simulators and the services and wait until all are ready. Raises `SystemExit` with the end of the log."""
        for name, address in (("drive", self.drive), ("slack", self.slack)):
            port = address.rpartition(":")[2]
            self._simulators.append(self._spawn(name, "simulate", name, "--empty", "--port", port))
        self._up = self._spawn("up", "up")
        self.starts += 1
        deadline = time.monotonic() + START_SECONDS
        while not run_state.running(self.settings):
            if self._up.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"The installation did not start:\n{self._log('up').read_text()[-3000:]}")
            time.sleep(LOOK_SECONDS)
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._keeper.start()

    def _spawn(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with self._log(name).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "orchestration.cli", *command],
                cwd=self.folder,
                env=dict(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def _keep(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            if self._up is not None and self._up.poll() is not None:
                self._up = self._spawn("up", "up")
                self.starts += 1

    def simulate(self, service: str, operation: str, **arguments: Any) -> Any:
        """Run an operation in a simulated service (`drive` or `slack`) and return its result."""
        base = self.drive if service == "drive" else self.slack
        answer = httpx.post(f"{base}/simulator/{operation}", json=arguments, timeout=30)
        answer.raise_for_status()
        return answer.json()["result"]

    @property
    def ready(self) -> bool:
        """Return True if a supervisor is running and each of its services was ready at its last check."""
        return run_state.running(self.settings)

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return the running processes of the installation by role."""
        state = run_state.read(self.settings)
        found: dict[str, list[psutil.Process]] = {}
        if state.supervisor is not None and self._up is not None and self._up.poll() is None:
            found["supervisor"] = [psutil.Process(self._up.pid)]
        for name, service in state.services.items():
            if service.pid is None or not psutil.pid_exists(service.pid):
                continue
            leader = psutil.Process(service.pid)
            found[name] = [leader]
            for child in _children(leader):
                found.setdefault(_role(name, child), []).append(child)
        return found

    def held(self) -> Held:
        """Return the resources that all processes of the installation use now."""
        roles: dict[str, tuple[int, int, int]] = {}
        for role, group in self.processes().items():
            held: list[tuple[int, int]] = []
            for process in group:
                try:
                    held.append((process.memory_full_info().pss, process.num_fds()))
                except psutil.Error:
                    continue
            roles[role] = (len(held), sum(memory for memory, _ in held) // 2**20, sum(files for _, files in held))
        processes, megabytes, descriptors = (sum(role[at] for role in roles.values()) for at in range(3))
        return Held(processes, megabytes, descriptors, roles)

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run `concordance` with these arguments and wait for it."""
        return subprocess.run(
            [sys.executable, "-m", "orchestration.cli", *arguments],
            cwd=self.folder,
            env=dict(os.environ),
            capture_output=True,
            text=True,
            timeout=900,
        )

    def stop(self) -> list[str]:
        """Stop everything and return the command lines of processes that were left behind, after ending them."""
        self._stopping.set()
        if self._keeper is not None:
            self._keeper.join()
        if self._up is not None and self._up.poll() is None:
            self._up.send_signal(signal.SIGTERM)
            try:
                self._up.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._up.kill()
        left = list(_of(self.settings.home))
        for process in left:
            process.kill()
        for simulator in self._simulators:
            simulator.terminate()
            simulator.wait(10)
        return [" ".join(process.info["cmdline"] or [])[:200] for process in left]


def _children(leader: psutil.Process) -> list[psutil.Process]:
    try:
        return leader.children(recursive=True)
    except psutil.Error:
        return []


def _role(service: str, child: psutil.Process) -> str:
    try:
        line = " ".join(child.cmdline())
    except psutil.Error:
        return f"{service}: child"
    if "parsing_worker" in line:
        return "parser"
    if "orchestration.run_worker" in line:
        return "run worker"
    return f"{service}: child"


def _of(home: Path) -> Iterator[psutil.Process]:
    """Yield processes that were started for this HOME, except the simulators and this process."""
    for process in psutil.process_iter(["cmdline"]):
        try:
            ours = process.environ().get("CONCORDANCE_HOME") == str(home) and process.pid != os.getpid()
        except psutil.Error:
            continue
        if ours and "simulate" not in (process.info["cmdline"] or []) and process.status() != psutil.STATUS_ZOMBIE:
            yield process
