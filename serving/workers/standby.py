"""The standby of a serving process, which has everything loaded and takes over when the active process ends.

It detects that end by itself (`resources/servers/succession.py`). The supervisor passes it the listening socket when it starts it.
"""

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
    """Return the listening socket received over standard input, or None if the supervisor ended before it sent it."""
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as channel, contextlib.suppress(KeyboardInterrupt):
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        if descriptors:
            return socket.socket(fileno=descriptors[0])
    return None


async def await_turn(path: Path, listener: socket.socket) -> None:
    """Wait until this process may serve, then offer the listener to supervisors. Raises `OSError` if the lock cannot be opened."""
    succession = Succession(path)
    loop = asyncio.get_running_loop()
    turn = asyncio.Event()
    faults: list[OSError] = []

    def wait() -> None:
        try:
            succession.await_turn()
        except OSError as error:
            faults.append(error)
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(turn.set)

    # A daemon thread, because a thread of the pool would keep the process from exiting.
    threading.Thread(target=wait, name="turn", daemon=True).start()
    await turn.wait()
    if faults:
        raise faults[0]
    try:
        succession.hand_out(listener)
    except OSError as error:  # a full or read-only disk; needed only by a supervisor that adopts this process
        log.warning("listener_not_offered", socket=str(path), error=str(error))
