"""The wait of a serving process that stands by: it has everything loaded and open, and takes over when the active process ends.

It needs nobody to tell it so, see `resources/servers/succession.py`. The supervisor gives it the listening socket at its start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from pathlib import Path

from resources.logging import logger
from resources.servers.succession import Succession

log = logger("serving")


def receive_listener() -> socket.socket | None:
    """Return the listening socket, which comes through standard input, a socket. None: the supervisor ended before it sent it."""
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as channel, contextlib.suppress(KeyboardInterrupt):
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if descriptors:
            return socket.socket(fileno=descriptors[0])
    return None


async def await_turn(path: Path, listener: socket.socket) -> None:
    """Return when this process is to serve; from then on, supervisors get the listener from it.

    Raises `OSError` if the lock cannot be opened.
    """
    succession = Succession(path)
    loop = asyncio.get_running_loop()
    turn = asyncio.Event()
    faults: list[OSError] = []

    def wait() -> None:
        try:
            succession.await_turn()
        except OSError as error:
            faults.append(error)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(turn.set)

    # A daemon thread: one of the pool would keep a process that is told to end from ending.
    threading.Thread(target=wait, name="turn", daemon=True).start()
    await turn.wait()
    if faults:
        raise faults[0]
    try:
        succession.hand_out(listener)
    except OSError as error:  # a full or read-only disk: only a supervisor that adopts this process would miss it
        log.warning("listener_not_handed_out", socket=str(path), error=str(error))
