"""One service of the set as a process: its start, its end, and how it is doing."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from orchestration.liveness import Pulse, family
from orchestration.run_state import ServiceState
from orchestration.services import Service
from resources.embedded.processes import Identity, end_group, group, identify, kill_all

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which a restart begins with the first delay again."""
LOG_BYTES = 20 * 1024 * 1024
"""A log larger than this is set aside (one generation) when the service starts."""


class Child:
    """One service's process and its restarts."""

    def __init__(self, service: Service, log: Path) -> None:
        self.service = service
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None
        self.identity: Identity | None = None
        self.state = ServiceState(state="stopped", url=service.url)
        self.spawned_at = 0.0
        self.failures = 0
        self.next_start = 0.0
        self._pulse: Pulse | None = None

    def spawn(self) -> None:
        """Start the process. Raises `ConfigurationError` when its port is taken."""
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.process = self.service.spawn(self.log)
        self.identity = identify(self.process.pid)
        self.spawned_at = time.monotonic()
        self.state.state = "starting"
        self.state.pid = self.process.pid
        self.state.started = self.identity.started if self.identity else None
        self.state.stop_signal = int(self.service.stop_signal)
        self._watch(self.service.start_seconds)

    def is_ready(self) -> None:
        """Note that the service answers; from here on every missing reply counts."""
        self.state.state = "ready"
        self._watch(0.0)

    def exited(self) -> int | None:
        """Return the exit status of the process, None while it runs."""
        return self.process.poll() if self.process is not None else None

    @property
    def hung(self) -> bool:
        """Whether the process runs but has not answered for too long."""
        return self._pulse is not None and self._pulse.hung

    def show_pulse(self) -> bool:
        """Bring the shown state up to the last replies; return True if it changed."""
        suspect = self._pulse is not None and self._pulse.suspect
        if suspect == (self.state.state == "hung"):
            return False
        self.state.state = "hung" if suspect else "ready"
        return True

    def stop(self) -> None:
        """End the process and its group: politely first, by force once `stop_seconds` have passed."""
        if self.process is not None:
            if self.process.poll() is None and self.identity is not None:
                end_group(self.identity, self.service.stop_signal, self.service.stop_seconds)
            else:
                kill_all(group(self.process.pid))
            self.process.wait()
        self._forget()

    def kill(self) -> None:
        """Kill the process, its descendants and its group at once: a hung process does not heed any other signal."""
        if self.process is not None:
            kill_all(family(self.identity) if self.identity is not None else group(self.process.pid))
            self.process.wait()
        self._forget()

    def postpone(self) -> float:
        """Note a failure and return the seconds until the next attempt: half a second, doubled up to thirty."""
        if time.monotonic() - self.spawned_at > STEADY_SECONDS:
            self.failures = 0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self.failures)
        self.failures += 1
        self.next_start = time.monotonic() + delay
        self.state = ServiceState(state="restarting", url=self.service.url)
        return delay

    def _watch(self, grace: float) -> None:
        if self._pulse is not None:
            self._pulse.stop()
            self._pulse = None
        if self.service.probe is not None and self.identity is not None:
            self._pulse = Pulse(self.service.probe, self.identity, grace=grace, interval=self.service.probe_seconds)

    def _forget(self) -> None:
        if self._pulse is not None:
            self._pulse.stop()
        self._pulse = self.process = self.identity = None
        self.state = ServiceState(state="stopped", url=self.service.url)
