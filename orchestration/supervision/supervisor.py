"""Start the services in order, wait until each is ready, restart those that end or hang, and stop them in reverse order.

The state is in `HOME/run/state.json` and the log of each service in `HOME/logs`. There is one supervisor per HOME. Services end
with their supervisor; the next one starts its own once those have ended.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import IO

from orchestration.supervision import heartbeat, logs
from orchestration.supervision.child import Child
from orchestration.supervision.run_state import (
    KILLED_SECONDS,
    AlreadyRunningError,
    RunState,
    ServiceStatus,
    StartedWith,
    end_hung,
    end_leftovers,
    lock,
    running,
    write,
)
from orchestration.supervision.service import Service
from orchestration.supervision.services import check_fresh, external, services
from resources import keys
from resources.core.errors import ConcordanceError, ServiceUnavailableError
from resources.servers.processes import identify, tail
from resources.settings import Settings

__all__ = ["AlreadyRunningError", "Supervisor", "running", "start"]

logger = logging.getLogger("concordance.supervisor")

LOOK_SECONDS = 0.1
LONGEST_LOOK_SECONDS = 10.0
"""Longest time that one check of a starting service counts for; more means that this process was suspended meanwhile."""


class Supervisor:
    """The services of one HOME. `start` returns once all are ready, `stop` once all have ended."""

    def __init__(
        self,
        settings: Settings,
        stages: Sequence[Sequence[Service]] | None = None,
        *,
        more: Sequence[Service] = (),
        started: StartedWith | None = None,
    ) -> None:
        """`stages` replaces the standard services (tests pass small ones); `more` is added to the standard services.

        `started` is recorded, so that commands can tell which settings have changed since.
        """
        self._settings = settings
        self._stages = stages
        self._more = more
        self._started = started
        self._children: list[Child] = []
        self._lock: IO[bytes] | None = None
        self._watchers: list[threading.Thread] = []
        self._writing = threading.Lock()
        self._stopping = threading.Event()
        self._ended = threading.Event()
        self._complete = False
        self._unwritten = False

    def start(self, then: Callable[[], None] = lambda: None) -> None:
        """Start all services, check each once more, and call `then`; only after that they count as complete.

        Raises `AlreadyRunningError`, or the error of a service or of `then` after stopping the others.
        """
        _restore_sigint()
        if self._stages is None:
            check_fresh(self._settings)
        keys.ensure(self._settings)
        hung = end_hung(self._settings)
        if hung is not None:
            logger.warning("ended the supervisor with pid %d, which was hung", hung.pid)
        self._lock = lock(self._settings, KILLED_SECONDS if hung else 0.0)
        self._start_heartbeat()
        try:
            stages = self._stages if self._stages is not None else services(self._settings, more=self._more)
            for name in end_leftovers(self._settings):
                logger.info("%s of a previous supervisor has ended", name)
            self._stopping.clear()
            self._children = []
            self._complete = False
            for service in (service for stage in stages for service in stage):
                service.check_port()
            for stage in stages:
                self._start_stage(stage)
            for child in self._children:  # one may have ended while others started
                self._await_reply(child, time.monotonic())
            then()
        except BaseException as error:
            self._shut_down(str(error) if isinstance(error, ConcordanceError) else type(error).__name__)
            raise
        self._complete = True
        self._write()
        # One thread per service, so that a slow stop or start of one does not delay the restart of another.
        self._watchers = [
            threading.Thread(target=self._watch, args=(child,), name=f"watch-{child.service.name}", daemon=True)
            for child in self._children
        ]
        folder = self._settings.home / "logs"
        self._watchers.append(
            threading.Thread(target=logs.watch, args=(folder, self._stopping), name="logs", daemon=True)
        )
        for watcher in self._watchers:
            watcher.start()

    def _start_heartbeat(self) -> None:
        self._ended.clear()
        heartbeat.beat(self._settings)  # before the state names this process
        threading.Thread(
            target=heartbeat.keep_beating, args=(self._settings, self._ended), name="heartbeat", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop all services in reverse order. Idempotent."""
        self._stopping.set()
        for watcher in self._watchers:
            watcher.join()
        self._watchers = []
        self._shut_down(None)

    def _shut_down(self, error: str | None) -> None:
        for _, one_service in groupby(reversed(self._children), key=lambda child: child.service.whole):
            children = list(one_service)
            for child in children:
                child.ask_to_stop()
            for child in children:
                child.stop()
                logger.info("%s stopped", child.service.name)
        self._children = []
        if self._lock is not None:
            with suppress(OSError):  # of a full disk: the state names a supervisor that has ended, which does not count
                write(self._settings, RunState(error=error))
            self._ended.set()
            self._lock.close()
            self._lock = None

    def _start_stage(self, stage: Sequence[Service]) -> None:
        children = [Child(service, self._settings.home / "logs" / f"{service.whole}.log") for service in stage]
        for child in children:
            self._children.append(child)
            child.spawn()
        self._write()
        for child in children:
            self._wait_until_ready(child)
            child.service.after()

    def _wait_until_ready(self, child: Child) -> None:
        service = child.service
        self._await_reply(child, child.spawned_at)
        child.mark_ready()
        self._write()
        logger.info("%s is ready after %.1f s%s", service.name, time.monotonic() - child.spawned_at,
                    f" at {service.url}" if service.url else "")  # fmt: skip

    def _await_reply(self, child: Child, since: float) -> None:
        """Wait until the service is ready. Raises `ServiceUnavailableError` if it ended, or is not ready long after `since`."""
        service = child.service
        waited, last = 0.0, since
        while (status := child.exited()) is not None or not service.ready():
            now = time.monotonic()
            waited, last = waited + min(now - last, LONGEST_LOOK_SECONDS), now
            longest = max(service.start_seconds, service.recovery_seconds if child.replies else 0.0)
            if status is not None or waited > longest:
                what = status or f"was not ready within {waited:.0f} s"
                raise ServiceUnavailableError(f"{service.name} {what}. The end of {child.log}:\n{tail(child.log)}")
            if self._stopping.wait(0.05):
                raise ServiceUnavailableError(f"Stopped while {service.name} was starting.")

    def _watch(self, child: Child) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            if self._unwritten:
                self._note()
            try:
                self._check(child)
            except Exception as error:
                # The watcher must survive any error of its service, which is restarted later.
                delay = child.postpone()
                logger.warning("%s could not be started again (%s); next attempt in %.1f s", child.service.name,
                               error, delay, exc_info=not isinstance(error, ConcordanceError))  # fmt: skip
                self._note()

    def _check(self, child: Child) -> None:
        if child.identity is None:
            if child.backoff.over:
                child.spawn()
                self._note()
        elif (status := child.exited()) is not None:
            # Its children are ended too: a run worker without its code server would otherwise continue next to the new one's.
            child.kill()
            delay = child.postpone()
            logger.warning(
                "%s %s; starting it again in %.1f s. Its log: %s", child.service.name, status, delay, child.log
            )
            self._note()
        elif child.hung:
            why = child.why_hung
            child.kill()
            delay = child.postpone()
            logger.warning("%s stopped responding (%s) and was killed; starting it again in %.1f s. Its log: %s",
                           child.service.name, why, delay, child.log)  # fmt: skip
            self._note()
        elif child.state.state == "starting":
            if child.service.ready():
                child.mark_ready()
                logger.info("%s is ready again", child.service.name)
                self._note()
        elif child.show_pulse():
            if child.state.state == "hung":
                logger.warning("%s is not responding: %s", child.service.name, child.why_hung)
            else:
                logger.warning("%s is responding again", child.service.name)
            self._note()

    def _note(self) -> None:
        """Write the state. If the disk accepts nothing, services are restarted all the same, and a later look writes it."""
        try:
            self._write()
        except OSError as error:
            if not self._unwritten:
                logger.warning("The state of the services cannot be written: %s", error)
            self._unwritten = True
        else:
            self._unwritten = False

    def _write(self) -> None:
        with self._writing:
            found = {name: ServiceStatus(state="external", url=url) for name, url in self._external().items()}
            found |= {child.service.name: child.state for child in self._children}
            state = RunState(
                supervisor=identify(os.getpid()), services=found, complete=self._complete, started=self._started
            )
            write(self._settings, state)

    def _external(self) -> dict[str, str]:
        return external(self._settings) if self._stages is None else {}


def start(settings: Settings, more: Sequence[Service] = ()) -> Supervisor:
    """Start the standard services and `more`, and return the supervisor once all are ready."""
    supervisor = Supervisor(settings, more=more)
    supervisor.start()
    return supervisor


def _restore_sigint() -> None:
    """Restore the default SIGINT handler if the signal is ignored, as in a background job of a script: services would inherit that."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
