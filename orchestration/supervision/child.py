"""The process of one service: start, stop and liveness."""

from pathlib import Path

from orchestration.supervision.liveness import Pulse
from orchestration.supervision.run_state import ServiceStatus, StateName
from orchestration.supervision.service import Service
from resources.servers.managed import ManagedProcess, RestartDelay
from resources.servers.processes import ProcessIdentity

PATIENT_FAILURES = 3
"""Consecutive failures after which connections are refused instead of queued for the next attempt (`Service.close`)."""


class Child:
    """The process of one service, with its restarts."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.state = ServiceStatus(state="stopped", url=service.url)
        self.backoff = RestartDelay()
        self.spawned_at = 0.0
        self._process: ManagedProcess | None = None
        self._pulse: Pulse | None = None

    def spawn(self) -> None:
        """Start the process. Raises `ConfigurationError` if the port is taken."""
        self._process = process = self.service.spawn(self.log)
        self.spawned_at = process.since
        self.state.state = "starting"
        self.state.pid, self.state.started = process.identity.pid, process.identity.started
        self.state.stop_signal = int(self.service.stop_signal)
        self._watch(self.service.start_seconds)

    @property
    def identity(self) -> ProcessIdentity | None:
        """None while no process runs."""
        return None if self._process is None else self._process.identity

    def mark_ready(self) -> None:
        """Mark the service as ready; from now on every missing reply counts."""
        self.state.state = "ready"
        self._watch(0.0)

    def exited(self) -> str | None:
        """Return how the process ended; None while it runs."""
        status = None if self._process is None else self._process.status
        return None if status is None else f"ended with status {status}"

    @property
    def replies(self) -> bool:
        """Return True if the process has answered its last probe, whatever it said."""
        return self._pulse is not None and self._pulse.replies

    @property
    def hung(self) -> bool:
        """Return True if the process runs but has not replied for too long."""
        return self._pulse is not None and self._pulse.hung

    @property
    def why_hung(self) -> str:
        """The reason why the last reply is missing."""
        return "" if self._pulse is None else self._pulse.reason

    def show_pulse(self) -> bool:
        """Update the state from the last replies; return True if it changed."""
        suspect = self._pulse is not None and self._pulse.suspect
        if suspect == (self.state.state == "hung"):
            return False
        self.state.state = "hung" if suspect else "ready"
        return True

    def ask_to_stop(self) -> None:
        """Send the stop signal. Call `stop` next."""
        self.service.close()
        if self._process is not None:
            self._process.ask_to_stop()

    def stop(self) -> None:
        """Wait `stop_seconds` for the end of the process, and end it and its group forcibly after that."""
        self._end(self.service.stop_seconds)

    def kill(self) -> None:
        """Kill the process, its descendants and its group at once: a hung process may ignore other signals."""
        self._end(0.0)

    def _end(self, grace: float) -> None:
        if self._process is not None:
            self._process.end(grace)
        if self._pulse is not None:
            self._pulse.stop()
        self._pulse = self._process = None
        self.state = self._without_process("stopped")

    def postpone(self) -> float:
        """Record a failure and return the seconds until the next attempt."""
        delay = self.backoff.postpone(self.spawned_at)
        if self.backoff.failures >= PATIENT_FAILURES:
            self.service.close()
        self.state = self._without_process("restarting")
        return delay

    def _without_process(self, state: StateName) -> ServiceStatus:
        return ServiceStatus(state=state, url=self.service.url)

    def _watch(self, grace: float) -> None:
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self.service.probe is not None and self.identity is not None:
            self._pulse = Pulse(self.service.probe, self.identity, grace=grace, interval=self.service.probe_seconds)
