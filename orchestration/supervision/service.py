"""Definition of a service that `concordance up` runs: its command, port, readiness check and probe."""

import signal
import socket
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestration.supervision.liveness import INTERVAL_SECONDS, Probe
from resources.core.errors import ConfigurationError
from resources.servers.managed import start
from resources.servers.processes import port_is_free

BACKLOG = 2048
"""Connections that may wait for a service to accept them; uvicorn's own default."""


def nothing() -> None:
    """Do nothing, as the default of `Service.prepare` and `Service.after`."""


@dataclass(frozen=True)
class Service:
    """A process to keep running. `prepare` runs before every start, `after` once it is ready for the first time."""

    name: str
    command: Callable[[], list[str]]
    ready: Callable[[], bool]
    probe: Probe | None = None
    """Called regularly to check that it still replies. Must return within a few seconds."""
    probe_seconds: float = INTERVAL_SECONDS
    url: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    prepare: Callable[[], None] = nothing
    after: Callable[[], None] = nothing
    port: tuple[str, str, int] | None = None
    """Setting, host and number of the port, which must be free before it starts."""
    succession: Path | None = None
    """Socket through which a standby process takes over, if it has one; its command then reads from a socket on standard input
    (`serving/workers/standby.py`)."""
    stop_signal: signal.Signals = signal.SIGTERM
    start_seconds: float = 120.0
    stop_seconds: float = 15.0
    cwd: str | None = None

    def spawn(self, log: Path, channel: socket.socket | None = None) -> subprocess.Popen[bytes]:
        """Start the process in its own process group and append its output to `log`. Raises `ConfigurationError`.

        It gets its stop signal when this process ends.
        """
        self.prepare()
        if channel is None:
            self.check_port()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            return start(
                self.command(),
                stdin=subprocess.DEVNULL if channel is None else channel.fileno(),
                stdout=out,
                stderr=out,
                cwd=self.cwd,
                env=dict(self.environment),
                stop_signal=self.stop_signal,
                start_new_session=True,
            )

    def check_port(self) -> None:
        """Raise `ConfigurationError` if another program uses the port."""
        if self.port is None:
            return
        setting, host, number = self.port
        if not port_is_free(number, host):
            raise ConfigurationError(port_taken(self.name, setting, number))

    def listen(self) -> socket.socket:
        """Return a socket that listens on the port. Raises `ConfigurationError` if another program uses it."""
        if self.port is None:
            raise ValueError("a service with a standby process has a port")
        setting, host, number = self.port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            return socket.create_server((host, number), family=family, backlog=BACKLOG)
        except OSError as error:
            raise ConfigurationError(port_taken(self.name, setting, number)) from error


def port_taken(name: str, setting: str, number: int) -> str:
    """Return the message for a port that another program uses."""
    return f"Port {number}, which {name} needs, is taken by another program. Set {setting} to a free port."
