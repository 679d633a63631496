"""Accepts connections from a socket on which several processes listen, so that each gets its share.

The kernel wakes all of them for a connection, and the first one gets it: one process could end up with most connections, which clients
and proxies keep open. A process that has more than another therefore waits for a moment, in which the other takes the connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from typing import Any

YIELD_SECONDS = 0.002
"""How long a connection is left to others, for each connection that this process has more than they."""
LONGEST_YIELD_SECONDS = 0.02
PAUSE_SECONDS = 1.0
"""Pause when the process has no file descriptor or memory left for a connection."""
EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Acceptor:
    """Accepts connections until closed. It has the methods of `asyncio.Server` that uvicorn calls."""

    def __init__(
        self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], surplus: Callable[[], int]
    ) -> None:
        """`surplus` returns how many connections this process has more than the process with the fewest."""
        self._loop = asyncio.get_running_loop()
        self._listener = listener
        self._protocol = protocol
        self._surplus = surplus
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        listener.setblocking(False)
        self._loop.add_reader(listener.fileno(), self._ready)

    def close(self) -> None:
        """Accept no more connections."""
        self._loop.remove_reader(self._listener.fileno())
        if self._timer is not None:
            self._timer.cancel()

    async def wait_closed(self) -> None:
        """Return at once: nothing is left to do."""

    def _ready(self) -> None:
        surplus = self._surplus()
        if surplus > 0:
            self._resume_in(min(surplus * YIELD_SECONDS, LONGEST_YIELD_SECONDS), self._accept)
        else:
            self._accept()

    def _resume_in(self, seconds: float, first: Callable[[], None]) -> None:
        def resume() -> None:
            self._loop.add_reader(self._listener.fileno(), self._ready)
            first()

        self._loop.remove_reader(self._listener.fileno())
        self._timer = self._loop.call_later(seconds, resume)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return  # another process was faster, or the client has gone
        except OSError as error:
            if error.errno not in EXHAUSTED:
                raise
            self._resume_in(PAUSE_SECONDS, _nothing)
            return
        connection.setblocking(False)
        self._keep(self._serve(connection))

    async def _serve(self, connection: socket.socket) -> None:
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._protocol, connection)
        except OSError:
            connection.close()  # the client has gone

    def _keep(self, serving: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(serving)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _nothing() -> None:
    """Do nothing first when accepting again."""
