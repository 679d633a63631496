"""The process of one service: start, stop and liveness."""

import subprocess
import time
from pathlib import Path

from orchestration.supervision.liveness import Pulse, family
from orchestration.supervision.run_state import ServiceStatus, StateName
from orchestration.supervision.service import Service
from resources.servers.processes import ProcessIdentity, end_group, group, identify, kill_all

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which the restart delay is reset."""
PATIENT_FAILURES = 3
"""Consecutive failures after which connections are refused instead of queued for the next attempt (`Service.close`)."""


class Child:
    """The process of one service, with its restarts."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.identity: ProcessIdentity | None = None
        """None while no process runs."""
        self.state = ServiceStatus(state="stopped", url=service.url)
        self.spawned_at = 0.0
        self.failures = 0
        self.next_start = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        self._pulse: Pulse | None = None

    def spawn(self) -> None:
        """Start the process. Raises `ConfigurationError` if the port is taken."""
        self._process = self.service.spawn(self.log)
        # A process that has already ended cannot be identified, but its pid is not reused until we wait for it.
        self.identity = identify(self._process.pid) or ProcessIdentity(self._process.pid, 0.0)
        self._begin(self.identity)

    def mark_ready(self) -> None:
        """Mark the service as ready; from now on every missing reply counts."""
        self.state.state = "ready"
        self._watch(0.0)

    def exited(self) -> str | None:
        """Return how the process ended; None while it runs."""
        status = None if self._process is None else self._process.poll()
        return None if status is None else f"ended with status {status}"

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
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(self.service.stop_signal)

    def stop(self) -> None:
        """Stop the process and its group, forcibly after `stop_seconds`."""
        if self.identity is not None and self.exited() is None:
            end_group(self.identity, self.service.stop_signal, self.service.stop_seconds)
        self.reap()

    def kill(self) -> None:
        """Kill the process, its descendants and its group at once: a hung process may ignore other signals."""
        if self.identity is not None:
            kill_all(family(self.identity))
        self.reap()

    def reap(self) -> None:
        """Wait for a process that has ended and kill the rest of its group."""
        if self.identity is not None:
            kill_all(group(self.identity.pid))
        if self._process is not None:
            self._process.wait()
        if self._pulse is not None:
            self._pulse.stop()
        self._pulse = self._process = self.identity = None
        self.state = self._without_process("stopped")

    def postpone(self) -> float:
        """Record a failure and return the seconds until the next attempt: 0.5, doubled each time up to 30."""
        if time.monotonic() - self.spawned_at > STEADY_SECONDS:
            self.failures = 0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self.failures)
        self.failures += 1
        if self.failures >= PATIENT_FAILURES:
            self.service.close()
        self.next_start = time.monotonic() + delay
        self.state = self._without_process("restarting")
        return delay

    def _without_process(self, state: StateName) -> ServiceStatus:
        return ServiceStatus(state=state, url=self.service.url)

    def _begin(self, identity: ProcessIdentity) -> None:
        self.spawned_at = time.monotonic()
        self.state.state = "starting"
        self.state.pid, self.state.started = identity.pid, identity.started
        self.state.stop_signal = int(self.service.stop_signal)
        self._watch(self.service.start_seconds)

    def _watch(self, grace: float) -> None:
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self.service.probe is not None and self.identity is not None:
            self._pulse = Pulse(self.service.probe, self.identity, grace=grace, interval=self.service.probe_seconds)
