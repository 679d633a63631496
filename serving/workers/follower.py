"""A follower: serves on the listening socket of its leader, and ends with it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from types import FrameType

from litestar import Litestar

from resources.logging import logger
from resources.servers.shared import Shared
from resources.settings import Settings
from serving.workers.server import BEATS, SILENT_SECONDS, HeartbeatWatch, WorkerServer

LOOK_SECONDS = 1.0
LEADER = 0

log = logger("serving")


class Follower(WorkerServer):
    """Serves until the leader ends it or ends itself."""

    def __init__(self, app: Litestar, settings: Settings, shared: Shared, listener: socket.socket, leader: int) -> None:
        """`leader` is the pid of the leader."""
        super().__init__(app, settings, shared, listener)
        self._leader = leader

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        threading.Thread(target=self._watch, name="leader-pulse", daemon=True).start()
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ignore SIGINT: from a terminal it reaches the leader too, which then ends its followers."""
        if sig != signal.SIGINT:
            super().handle_exit(sig, frame)

    def _watch(self) -> None:
        """Kill a leader that hangs, so that its standby takes over: the others answer the supervisor in its place."""
        pulse = HeartbeatWatch(lambda: self.processes.of(LEADER, BEATS))
        while pulse.look() * LOOK_SECONDS < SILENT_SECONDS:
            time.sleep(LOOK_SECONDS)
        log.error("leader_silent", pid=self._leader, seconds=SILENT_SECONDS)
        if os.getppid() == self._leader:
            os.kill(self._leader, signal.SIGKILL)
