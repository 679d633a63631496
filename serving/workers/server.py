"""uvicorn's server as one of several processes: it takes its share of the connections, and shows the supervisor that it is alive."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import uvicorn
from litestar import Litestar

from resources.servers.connections import BoundedProtocol
from resources.servers.shared import ACCEPTING, BEATS, Shared
from resources.settings import Settings
from serving.services import Services
from serving.workers.accepting import Acceptor
from serving.workers.uvicorn_config import config

LOOK_TICKS = 10
"""Ticks between two publications of the metrics, and two looks at the other processes; a tick is a tenth of a second."""


class WorkerServer(uvicorn.Server):
    """One of the processes. `listener` is the socket on which all of them listen."""

    def __init__(self, app: Litestar, settings: Settings, shared: Shared, listener: socket.socket) -> None:
        super().__init__(config(app, settings, shared))
        self.shared = shared
        self.listener = listener
        self.processes = shared.processes
        self._services: Services = app.state.services
        self._ticks = 0
        shared.begin()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 (uvicorn's signature)
        """Start the app, then accept connections. uvicorn itself would take any number of them."""
        self.beat()
        await super().startup([])
        self.processes[ACCEPTING] = 1
        self.servers: list[Any] = [Acceptor(self.listener, self._protocol, self._surplus)]

    async def on_tick(self, counter: int) -> bool:
        """Do what is due every tenth of a second."""
        self.beat()
        self._ticks += 1
        if self._ticks % LOOK_TICKS == 0:
            self._services.http.metrics.publish()
            self.shared.clear_ended()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections and finish the requests in progress."""
        self.processes[ACCEPTING] = 0
        await super().shutdown(sockets)

    def beat(self) -> None:
        self.processes[BEATS] += 1

    def _protocol(self) -> asyncio.Protocol:
        kind: Any = self.config.http_protocol_class
        return kind(config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=None)

    def _surplus(self) -> int:
        kind: Any = self.config.http_protocol_class
        protocol: type[BoundedProtocol] = kind
        counts = protocol.kept.by_worker()
        accepting = self.processes.all(ACCEPTING)
        others = [count for worker, count in enumerate(counts) if worker != self.shared.worker and accepting[worker]]
        return counts[self.shared.worker] - min(others) if others else 0
