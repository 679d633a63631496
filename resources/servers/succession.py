"""Processes that serve on one listening socket, one after the other: when one ends, the next takes over by itself.

Each of them holds the socket, and the one that holds the lock serves. The kernel releases the lock when its holder ends, however it
ends, and wakes the next process; connections that arrive in between wait in the socket's queue. No supervisor has to notice anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import threading
from pathlib import Path

SERVING = "serving.sock"
"""Name of the HTTP service's socket for `resources.servers.sockets.socket_path`."""
HANDOVER_SECONDS = 2.0
_HERE = b"l"


class Succession:
    """One place in line, known by a Unix socket's path; the lock is a file beside it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1

    def await_turn(self) -> None:
        """Return once this process is the one to serve, which it remains until it ends. Blocking.

        Raises `OSError` if the lock file cannot be opened; one that exists is opened on a full or read-only disk as well.
        """
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def hand_out(self, listener: socket.socket) -> None:
        """Give the listening socket to every process that asks on the Unix socket: a supervisor that was started later needs it.

        Returns at once. Ends when the listener is closed. Raises `OSError` if the Unix socket cannot be made.
        """
        self._path.unlink(missing_ok=True)
        server = socket.socket(socket.AF_UNIX)
        try:
            server.bind(str(self._path))
            server.listen()
        except OSError:
            server.close()
            raise
        threading.Thread(target=_hand_out, args=(server, listener), name="handover", daemon=True).start()


def fetch_listener(path: Path) -> socket.socket | None:
    """Return the listening socket of the process that serves now; None when there is none, or it does not answer."""
    with socket.socket(socket.AF_UNIX) as channel:
        channel.settimeout(HANDOVER_SECONDS)
        try:
            channel.connect(str(path))
            _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
        except OSError:
            return None
    return socket.socket(fileno=descriptors[0]) if descriptors else None


def send_listener(channel: socket.socket, listener: socket.socket) -> None:
    """Send the listening socket over a Unix socket. Raises `OSError`."""
    socket.send_fds(channel, [_HERE], [listener.fileno()])


def _hand_out(server: socket.socket, listener: socket.socket) -> None:
    with server:
        while listener.fileno() >= 0:
            channel, _ = server.accept()
            with channel, contextlib.suppress(OSError, ValueError):  # the asker has gone, or the listener is closed
                channel.settimeout(HANDOVER_SECONDS)
                send_listener(channel, listener)
