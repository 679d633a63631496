"""The process of one service: start, stop and liveness."""

import contextlib
import socket
import subprocess
import time
from pathlib import Path

from orchestration.supervision.liveness import Pulse, family
from orchestration.supervision.run_state import ServiceStatus, StateName
from orchestration.supervision.service import Service
from orchestration.supervision.standby import Standby
from resources.servers.processes import ProcessIdentity, end_group, group, identify, kill_all

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which the restart delay is reset."""
STANDBY_SECONDS = 10.0
"""Minimum time between two attempts to start a standby process."""
PATIENT_FAILURES = 3
"""Consecutive failures after which connections are refused instead of queued for the next attempt."""


class Child:
    """The process of one service, with its standby process and restarts."""

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
        self._listener: socket.socket | None = None
        self._standby: Standby | None = None
        self._newcomer: Standby | None = None
        """The process started last, until it has received the listening socket."""
        self._next_standby = 0.0

    def spawn(self) -> None:
        """Start the process, or let the standby process take over. Raises `ConfigurationError` if the port is taken.

        Call `hand_over_listener` once the state is written.
        """
        if self.service.succession is None:
            self._process = self.service.spawn(self.log)
            # A process that has already ended cannot be identified, but its pid is not reused until we wait for it.
            self.identity = identify(self._process.pid) or ProcessIdentity(self._process.pid, 0.0)
        else:
            next_one = self._next_in_line()
            self._process, self.identity = next_one.process, next_one.identity
        self._begin(self.identity)

    def hand_over_listener(self) -> None:
        """Send the listening socket to the process started last, if it needs one.

        The state file must name that process first: it outlives this supervisor, and the next one must find it.
        """
        if self._newcomer is not None and self._listener is not None:
            with contextlib.suppress(OSError):  # it has ended, which `exited` reports
                self._newcomer.hand_over_listener(self._listener)
        self._newcomer = None

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

    def keep_standby(self) -> bool:
        """Start the standby process if the service has one and it is missing. Return True if it was started.

        Call `hand_over_listener` once the state is written.
        """
        path = self.service.succession
        if path is None or time.monotonic() < self._next_standby or (self._standby and self._standby.usable):
            return False
        self._next_standby = time.monotonic() + STANDBY_SECONDS
        self._drop_standby()
        if self._listener is None:
            return False
        self._standby = self._newcomer = self._start()
        self.state.standby = self._standby.identity
        return True

    def stop(self) -> None:
        """Stop the process and its group, forcibly after `stop_seconds`."""
        self._refuse()
        self._drop_standby()
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
        """Record a failure and return the seconds until the next attempt: 0.5, doubled each time up to 30.

        The delay is 0 if a standby process can take over.
        """
        if time.monotonic() - self.spawned_at > STEADY_SECONDS:
            self.failures = 0
        if self._standby is not None and self._standby.usable:
            delay = 0.0
        else:
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self.failures)
            self.failures += 1
            if self.failures >= PATIENT_FAILURES:
                self._refuse()
        self.next_start = time.monotonic() + delay
        self.state = self._without_process("restarting")
        return delay

    def _without_process(self, state: StateName) -> ServiceStatus:
        return ServiceStatus(
            state=state,
            url=self.service.url,
            standby=None if self._standby is None else self._standby.identity,
        )

    def _begin(self, identity: ProcessIdentity) -> None:
        self.spawned_at = time.monotonic()
        self.state.state = "starting"
        self.state.pid, self.state.started = identity.pid, identity.started
        self.state.stop_signal = int(self.service.stop_signal)
        self.state.standby = None if self._standby is None else self._standby.identity
        self._watch(self.service.start_seconds)

    def _next_in_line(self) -> Standby:
        self._next_standby = time.monotonic() + STANDBY_SECONDS
        if self._standby is not None and self._standby.usable:
            successor, self._standby = self._standby, None
            return successor
        self._drop_standby()
        if self._listener is None:
            self._listener = self.service.listen()
        self._newcomer = self._start()
        return self._newcomer

    def _start(self) -> Standby:
        return Standby.start(lambda channel: self.service.spawn(self.log, channel))

    def _drop_standby(self) -> None:
        if self._standby is not None:
            self._standby.end()
            self._standby = None

    def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _watch(self, grace: float) -> None:
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self.service.probe is not None and self.identity is not None:
            self._pulse = Pulse(self.service.probe, self.identity, grace=grace, interval=self.service.probe_seconds)
