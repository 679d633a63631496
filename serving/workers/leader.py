"""The leader: serves like any other process, starts the followers, replaces those that end or hang, and ends them with itself.

Only the leader takes part in the succession of `resources/servers/succession.py`: the supervisor knows one process and its standby.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time

from litestar import Litestar

from resources.core.errors import ConfigurationError
from resources.logging import logger
from resources.servers.shared import Shared
from resources.settings import Settings
from serving.workers.inherited import Inherited
from serving.workers.server import BEATS, SILENT_SECONDS, HeartbeatWatch, WorkerServer

BACKLOG = 2048
LOOK_SECONDS = 1.0
START_SECONDS = 120.0
"""Time that a follower has to load everything before it counts as silent."""
FIRST_DELAY, LONGEST_DELAY = 0.5, 30.0
STEADY_SECONDS = 60.0
"""Uptime after which the delay of a restart begins again with the first."""
END_SECONDS = 3.0
"""Time that followers have to end after the requests in progress are finished or cancelled."""

log = logger("serving")


def listen(settings: Settings) -> socket.socket:
    """Return a socket on the service's port. Raises `ConfigurationError` if it is taken."""
    family = socket.AF_INET6 if ":" in settings.http_host else socket.AF_INET
    try:
        return socket.create_server((settings.http_host, settings.http_port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"The HTTP service cannot listen on {settings.http_host}, port {settings.http_port} ({error.strerror})."
            " Set CONCORDANCE_HTTP_PORT to a free port."
        ) from error


class _Process:
    """The process of one follower, and when it is started again."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.running: subprocess.Popen[bytes] | None = None
        self.pulse: HeartbeatWatch | None = None
        self.started = 0.0
        self.next_start = 0.0
        self._failures = 0

    def postpone(self) -> float:
        """Return the seconds until the next start: doubled with each failure."""
        now = time.monotonic()
        if now - self.started > STEADY_SECONDS:
            self._failures = 0
        delay = min(LONGEST_DELAY, FIRST_DELAY * 2**self._failures)
        self._failures += 1
        self.next_start = now + delay
        return delay


class Leader(WorkerServer):
    def __init__(self, app: Litestar, settings: Settings, shared: Shared, listener: socket.socket) -> None:
        super().__init__(app, settings, shared, listener)
        self._followers = [_Process(worker) for worker in range(1, shared.workers)]
        self._next_look = 0.0

    async def on_tick(self, counter: int) -> bool:
        """Look after the followers."""
        for follower in self._followers:
            self._check(follower)
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_SECONDS
            self._end_silent()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop together with the followers: all finish their requests at the same time."""
        for follower in self._followers:
            if follower.running is not None:
                follower.running.send_signal(signal.SIGTERM)
        beating = asyncio.create_task(self._keep_beating())
        await super().shutdown(sockets)
        deadline = time.monotonic() + END_SECONDS
        while any(one.running is not None and one.running.poll() is None for one in self._followers):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.02)
        for follower in self._followers:
            if follower.running is not None:
                follower.running.kill()
                follower.running.wait()
        beating.cancel()

    async def _keep_beating(self) -> None:
        while True:
            self.beat()
            await asyncio.sleep(LOOK_SECONDS)

    def _check(self, follower: _Process) -> None:
        process = follower.running
        if process is None:
            if time.monotonic() >= follower.next_start:
                self._start(follower)
        elif process.poll() is not None:
            follower.running = None
            self.shared.clear(follower.worker)
            if process.stdin is not None:
                process.stdin.close()
            delay = follower.postpone()
            log.warning("worker_ended", ended=follower.worker, status=process.returncode, again_in_seconds=delay)

    def _start(self, follower: _Process) -> None:
        inherited = Inherited(follower.worker, os.getpid(), self.listener.fileno(), self.shared.fd)
        follower.started = time.monotonic()
        try:
            follower.running = subprocess.Popen(
                [sys.executable, "-m", "serving", "--worker", inherited.argument()],
                stdin=subprocess.PIPE,  # its end tells the follower that this process has ended
                pass_fds=(inherited.listener, inherited.memory),
            )
        except OSError as error:
            log.error("worker_not_started", reason=str(error), again_in_seconds=follower.postpone())
            return
        follower.pulse = HeartbeatWatch(lambda: self.processes.of(follower.worker, BEATS))
        log.info("worker_started", started=follower.worker, pid=follower.running.pid)

    def _end_silent(self) -> None:
        for follower in self._followers:
            if follower.running is None or follower.pulse is None:
                continue
            misses = follower.pulse.look()
            limit = SILENT_SECONDS if self.processes.of(follower.worker, BEATS) > 1 else START_SECONDS
            if misses * LOOK_SECONDS >= limit:
                log.error("worker_silent", silent=follower.worker, pid=follower.running.pid, seconds=limit)
                follower.running.kill()  # its end is noticed at the next look
