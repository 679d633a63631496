"""One service of the set as a process: its start, its adoption, its end, and how it is doing."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path

from orchestration.supervision.liveness import Pulse, family
from orchestration.supervision.run_state import ServiceStatus, StateName
from orchestration.supervision.service import Service
from orchestration.supervision.standby import Standby
from resources.servers.processes import ProcessIdentity, alive, end_group, group, identify, kill_all
from resources.servers.succession import fetch_listener

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which a restart begins with the first delay again."""
STANDBY_SECONDS = 10.0
"""Least time between two attempts at a standby process."""
PATIENT_FAILURES = 3
"""Failures in a row after which connections are refused instead of being left to wait for the next attempt."""


class Child:
    """One service's process and its restarts."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.identity: ProcessIdentity | None = None
        """The process; None while there is none."""
        self.state = ServiceStatus(state="stopped", url=service.url)
        self.spawned_at = 0.0
        self.failures = 0
        self.next_start = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        """The same process, unless another supervisor started it."""
        self._pulse: Pulse | None = None
        self._listener: socket.socket | None = None
        self._standby: Standby | None = None
        self._newcomer: Standby | None = None
        """The process that was started last and has no listening socket yet."""
        self._next_standby = 0.0

    def spawn(self) -> None:
        """Start the process, or note that the one that waited takes over. Raises `ConfigurationError` when its port is taken.

        `entrust` must follow once the state is written.
        """
        if self.service.succession is None:
            self._process = self.service.spawn(self.log)
            # A process that has ended already has no identity of its own any more; its number is ours until we collect it.
            self.identity = identify(self._process.pid) or ProcessIdentity(self._process.pid, 0.0)
        else:
            next_one = self._next_in_line()
            self._process, self.identity = next_one.process, next_one.identity
        self._begin(self.identity)

    def adopt(self, state: ServiceStatus) -> None:
        """Take over a process that another supervisor of this HOME started, and the one that waits behind it."""
        if state.identity is None:
            raise ValueError("only a process with an identity can be adopted")
        self.identity = state.identity
        if state.standby is not None and alive(state.standby):
            self._standby = Standby(state.standby)
        self._begin(self.identity)

    def entrust(self) -> None:
        """Give the process that was started last its listening socket, if it needs one.

        Call it when the state file names that process: it then lives on without this supervisor, and the next one must find it.
        """
        if self._newcomer is not None and self._listener is not None:
            with contextlib.suppress(OSError):  # it has ended, which is noticed as such
                self._newcomer.entrust(self._listener)
        self._newcomer = None

    def is_ready(self) -> None:
        """Note that the service answers; from here on every missing reply counts."""
        self.state.state = "ready"
        self._watch(0.0)

    def exited(self) -> str | None:
        """Return how the process ended, None while it runs."""
        if self._process is not None:
            status = self._process.poll()
            return None if status is None else f"ended with status {status}"
        return None if self.identity is not None and alive(self.identity) else "ended"

    @property
    def hung(self) -> bool:
        """Whether the process runs but has not answered for too long."""
        return self._pulse is not None and self._pulse.hung

    @property
    def why_hung(self) -> str:
        """Why its last reply is missing."""
        return "" if self._pulse is None else self._pulse.reason

    def show_pulse(self) -> bool:
        """Bring the shown state up to the last replies; return True if it changed."""
        suspect = self._pulse is not None and self._pulse.suspect
        if suspect == (self.state.state == "hung"):
            return False
        self.state.state = "hung" if suspect else "ready"
        return True

    def keep_standby(self) -> bool:
        """Start the process that waits to take over, if the service has one and it is missing. Return True if it was started.

        `entrust` must follow once the state is written.
        """
        path = self.service.succession
        if path is None or time.monotonic() < self._next_standby or (self._standby and self._standby.usable):
            return False
        self._next_standby = time.monotonic() + STANDBY_SECONDS
        self._drop_standby()
        self._listener = self._listener or fetch_listener(path)
        if self._listener is None:
            return False  # the process was adopted and does not answer; tried again later
        self._standby = self._newcomer = self._start()
        self.state.standby = self._standby.identity
        return True

    def stop(self) -> None:
        """End the process and its group for good: politely first, by force once `stop_seconds` have passed."""
        self._refuse()
        self._drop_standby()
        if self.identity is not None and self.exited() is None:
            end_group(self.identity, self.service.stop_signal, self.service.stop_seconds)
        self.bury()

    def kill(self) -> None:
        """Kill the process, its descendants and its group at once: a hung process does not heed any other signal."""
        if self.identity is not None:
            kill_all(family(self.identity))
        self.bury()

    def bury(self) -> None:
        """Collect a process that has ended, and end what is left of its group."""
        if self.identity is not None:
            kill_all([member for member in group(self.identity.pid) if self._process is not None or self._owns(member)])
        if self._process is not None:
            self._process.wait()
        if self._pulse is not None:
            self._pulse.stop()
        self._pulse = self._process = self.identity = None
        self.state = self._without_process("stopped")

    def postpone(self) -> float:
        """Note a failure and return the seconds until the next attempt: half a second, doubled up to thirty.

        None of them when a standby process can take over; those are started at an interval of their own.
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
            fingerprint=self.state.fingerprint,
            standby=None if self._standby is None else self._standby.identity,
        )

    def _begin(self, identity: ProcessIdentity) -> None:
        self.spawned_at = time.monotonic()
        self.state.state = "starting"
        self.state.pid, self.state.started = identity.pid, identity.started
        self.state.stop_signal = int(self.service.stop_signal)
        self.state.fingerprint = self.service.fingerprint()
        self.state.standby = None if self._standby is None else self._standby.identity
        self._watch(self.service.start_seconds)

    def _next_in_line(self) -> Standby:
        self._next_standby = time.monotonic() + STANDBY_SECONDS
        if self._standby is not None and self._standby.usable:
            taking, self._standby = self._standby, None
            return taking
        self._drop_standby()
        if self._listener is None:
            self._listener = self.service.listen()
        self._newcomer = self._start()
        return self._newcomer

    def _start(self) -> Standby:
        return Standby.start(lambda channel: self.service.spawn(self.log, channel))

    def _owns(self, member: ProcessIdentity) -> bool:
        """Whether a process of an adopted leader's group is its descendant still, and not a stranger with a reused number."""
        return self.identity is not None and member.started >= self.identity.started

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
