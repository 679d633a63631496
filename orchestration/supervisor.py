"""Keeps the embedded set alive: starts it in order, waits until each part answers, restarts what dies, stops all in reverse.

Enter: settings (and, for tests, other services). Leave: running processes, `HOME/run/state.json`, and one log a service in
`HOME/logs`. One supervisor a HOME; what a killed one left behind is ended first.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from orchestration.run_state import (
    AlreadyRunningError,
    RunState,
    ServiceState,
    end_leftovers,
    lock,
    running,
    write,
)
from orchestration.services import Service, external, services
from resources import keys
from resources.embedded.processes import Identity, end_group, group, identify, kill_all, tail
from resources.errors import ConcordanceError, ServiceUnavailableError
from resources.settings import Settings

__all__ = ["AlreadyRunningError", "Supervisor", "running", "start"]

logger = logging.getLogger("concordance.supervisor")

FIRST_DELAY = 0.5
LONGEST_DELAY = 30.0
STEADY_SECONDS = 60.0
"""Uptime after which a restart begins with the first delay again."""
LOOK_SECONDS = 0.2
LOG_BYTES = 20 * 1024 * 1024
"""A log larger than this is set aside (one generation) when the service starts."""


class _Child:
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

    def spawn(self) -> None:
        if self.log.exists() and self.log.stat().st_size > LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        self.process = self.service.spawn(self.log)
        self.identity = identify(self.process.pid)
        self.spawned_at = time.monotonic()
        self.state.state = "starting"
        self.state.pid = self.process.pid
        self.state.started = self.identity.started if self.identity else None
        self.state.stop_signal = int(self.service.stop_signal)

    def exited(self) -> int | None:
        return self.process.poll() if self.process is not None else None

    def stop(self) -> None:
        if self.process is not None:
            if self.process.poll() is None and self.identity is not None:
                end_group(self.identity, self.service.stop_signal, self.service.stop_seconds)
            else:
                kill_all(group(self.process.pid))
            self.process.wait()
        self.process = self.identity = None
        self.state = ServiceState(state="stopped", url=self.service.url)

    def postpone(self) -> float:
        """Note a failure and return the seconds until the next attempt: half a second, doubled up to thirty."""
        if time.monotonic() - self.spawned_at > STEADY_SECONDS:
            self.failures = 0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self.failures)
        self.failures += 1
        self.next_start = time.monotonic() + delay
        self.state = ServiceState(state="restarting", url=self.service.url)
        return delay


class Supervisor:
    """The services of one HOME. `start` returns when all are ready; `stop` when all are gone."""

    def __init__(
        self,
        settings: Settings,
        stages: Sequence[Sequence[Service]] | None = None,
        *,
        beside: Sequence[Service] = (),
    ) -> None:
        """`stages` replaces the product's services (tests hand in small ones); those `beside` them start as well."""
        self._settings = settings
        self._stages = stages
        self._beside = beside
        self._children: list[_Child] = []
        self._lock: IO[bytes] | None = None
        self._watcher: threading.Thread | None = None
        self._stopping = threading.Event()
        self._complete = False

    def start(self) -> None:
        """Start everything. Raises `AlreadyRunningError`, or what kept a service from starting after stopping the others."""
        _heed_interrupts()
        keys.ensure(self._settings)
        self._lock = lock(self._settings)
        try:
            for name in end_leftovers(self._settings):
                logger.info("ended %s, which a killed supervisor had left running", name)
            self._stopping.clear()
            self._children = []
            self._complete = False
            self._write()
            ours = self._stages if self._stages is not None else services(self._settings, beside=self._beside)
            for stage in ours:
                self._start_stage(stage)
        except BaseException as error:
            self._shut_down(str(error) if isinstance(error, ConcordanceError) else type(error).__name__)
            raise
        self._complete = True
        self._write()
        self._watcher = threading.Thread(target=self._watch, name="supervisor", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """Stop everything, last started first. Idempotent."""
        self._stopping.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        self._shut_down(None)

    def _shut_down(self, error: str | None) -> None:
        for child in reversed(self._children):
            child.stop()
            logger.info("%s stopped", child.service.name)
        self._children = []
        if self._lock is not None:
            write(self._settings, RunState(error=error))
            self._lock.close()
            self._lock = None

    def _start_stage(self, stage: Sequence[Service]) -> None:
        children = [_Child(service, self._settings.home / "logs" / f"{service.name}.log") for service in stage]
        for child in children:
            self._children.append(child)
            child.spawn()
        self._write()
        for child in children:
            self._await(child)
            child.service.after()

    def _await(self, child: _Child) -> None:
        service = child.service
        while not service.ready():
            status = child.exited()
            waited = time.monotonic() - child.spawned_at
            if status is not None or waited > service.start_seconds:
                what = f"ended with status {status}" if status is not None else f"did not answer within {waited:.0f} s"
                raise ServiceUnavailableError(f"{service.name} {what}. The end of {child.log}:\n{tail(child.log)}")
            if self._stopping.wait(0.05):
                raise ServiceUnavailableError(f"Stopped while {service.name} was starting.")
        child.state.state = "ready"
        self._write()
        logger.info("%s is ready after %.1f s%s", service.name, time.monotonic() - child.spawned_at,
                    f" at {service.url}" if service.url else "")  # fmt: skip

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            for child in self._children:
                try:
                    self._look_after(child)
                except Exception as error:
                    # The watcher must outlive any fault of one service; whatever it was, the service is tried again later.
                    delay = child.postpone()
                    logger.warning("%s could not be started again (%s); next attempt in %.1f s", child.service.name,
                                   error, delay, exc_info=not isinstance(error, ConcordanceError))  # fmt: skip
                    self._write()

    def _look_after(self, child: _Child) -> None:
        if child.process is None:
            if time.monotonic() >= child.next_start:
                child.spawn()
                self._write()
        elif (status := child.exited()) is not None:
            # Its children go too: a run worker whose code server is gone would work on beside the one that replaces it.
            child.stop()
            delay = child.postpone()
            logger.warning("%s ended with status %s; starting it again in %.1f s. Its log: %s", child.service.name, status,
                           delay, child.log)  # fmt: skip
            self._write()
        elif child.state.state == "starting" and child.service.ready():
            child.state.state = "ready"
            logger.info("%s is ready again", child.service.name)
            self._write()

    def _write(self) -> None:
        found = {name: ServiceState(state="external", url=url) for name, url in self._external().items()}
        found |= {child.service.name: child.state for child in self._children}
        write(self._settings, RunState(supervisor=identify(os.getpid()), services=found, complete=self._complete))

    def _external(self) -> dict[str, str]:
        return external(self._settings) if self._stages is None else {}


def start(settings: Settings, beside: Sequence[Service] = ()) -> Supervisor:
    """Start the embedded set, and what is to run `beside` it; return its supervisor once every service answers."""
    supervisor = Supervisor(settings, beside=beside)
    supervisor.start()
    return supervisor


def _heed_interrupts() -> None:
    """Undo an ignored SIGINT, which a script's background job inherits and would hand on to every service."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
