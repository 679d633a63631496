"""Definition of a service that `concordance up` runs: its command, port, readiness check and probe."""

import signal
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from orchestration.supervision.liveness import INTERVAL_SECONDS, Probe
from resources.servers.listening import check_port
from resources.servers.managed import ManagedProcess


def nothing() -> None:
    """Do nothing, as the default of `Service.prepare`, `Service.after` and `Service.close`."""


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
    descriptors: Callable[[], Collection[int]] | None = None
    """Open files that the process inherits, among them the socket of its port, which `prepare` opens."""
    close: Callable[[], None] = nothing
    """Runs before the process is stopped, and once it has failed several times in a row."""
    one_of: str | None = None
    """Name of the service of which this is one of several processes; they share a log and stop at the same time."""
    stop_signal: signal.Signals = signal.SIGTERM
    start_seconds: float = 120.0
    recovery_seconds: float = 0.0
    """The same while it replies to its probe that it is not ready yet."""
    stop_seconds: float = 15.0
    cwd: str | None = None

    @property
    def whole(self) -> str:
        """Name of the service, also if this is one of its processes."""
        return self.one_of or self.name

    def spawn(self, log: Path) -> ManagedProcess:
        """Start the process in its own process group and append its output to `log`. Raises `ConfigurationError`.

        It gets its stop signal when this process ends.
        """
        self.prepare()
        if self.descriptors is None:
            self.check_port()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            return ManagedProcess(
                self.command(),
                stdout=out,
                stderr=out,
                cwd=self.cwd,
                env=dict(self.environment),
                stop_signal=self.stop_signal,
                pass_fds=() if self.descriptors is None else self.descriptors(),
                start_new_session=True,
            )

    def check_port(self) -> None:
        """Raise `ConfigurationError` if the service cannot listen on its port."""
        if self.port is not None:
            check_port(self.name, *self.port)
