"""The programs of other projects, which the cluster consists of besides ours: where they are, and their processes."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from resources.servers.processes import free_port

START_SECONDS = 60
STOP_SECONDS = 40
DEBIAN = ("postgresql", "pgbouncer")
LOWEST, HIGHEST = 10_000, 19_999
GRPC = 10_000
"""SeaweedFS adds this to a port for its gRPC."""


class Program:
    """One process, which can be stopped and started again with the same command."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        ready: Callable[[], bool] = lambda: True,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
    ) -> None:
        self.name, self._command, self._log, self._ready = name, list(command), log, ready
        self._environment = dict(environment) if environment is not None else None
        self._user = user if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process, if it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def start(self) -> None:
        """Start and wait until it is ready. Raises `SystemExit` with the end of its log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._log.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                user=self._user,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} did not start:\n{self._log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int | None:
        """End the process and return its status; None if it did not run."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def debian_programs() -> tuple[Path, Path]:
    """Return the folder of Postgres's programs, and PgBouncer. Installs Debian's packages as root; raises `SystemExit` if that fails."""
    found = _debian()
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        print(f"Installing {' and '.join(DEBIAN)} ...", flush=True)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *DEBIAN]
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        if subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False).returncode:
            subprocess.run(["apt-get", "update", "-qq"], env=quiet, check=False)
            subprocess.run(install, env=quiet, stdout=subprocess.DEVNULL, check=False)
        found = _debian()
    if found is None:
        raise SystemExit(f"The cluster needs Debian's Postgres and PgBouncer: apt-get install {' '.join(DEBIAN)}")
    return found


def _debian() -> tuple[Path, Path] | None:
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda one: int(one.parts[-3]))
    pooler = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return (versions[-1].parent, Path(pooler)) if versions and pooler else None


def wheel_program(name: str) -> Path:
    """Return a program of a wheel, from the environment that `make cluster` installs. Raises `SystemExit`."""
    found = shutil.which(name, path=os.environ.get("CLUSTER_BIN", str(Path(sys.prefix) / "bin")))
    if found is None:
        raise SystemExit(f"{name} is missing: run `make cluster`, which installs it.")
    return Path(found).resolve()


def low_port() -> int:
    """Return a free port whose gRPC port is free, too."""
    while True:
        port = LOWEST + free_port() % (HIGHEST - LOWEST)
        if all(_is_free(one) for one in (port, port + GRPC)):
            return port


def listens(port: int) -> bool:
    """Return True if something accepts connections on a port of this machine."""
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


def _is_free(port: int) -> bool:
    with socket.socket() as one:
        try:
            one.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
