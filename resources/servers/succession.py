"""Failover between processes that share one listening socket, without a supervisor.

Each process has the socket open, and the one that holds a file lock serves. When that process ends, the kernel releases the lock and
wakes the next one; new connections meanwhile wait in the socket's queue.
"""

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
    """A process's turn to serve, identified by the path of a Unix socket; the lock file is next to it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1

    def await_turn(self) -> None:
        """Block until it is this process's turn to serve, which lasts until it ends.

        Raises `OSError` if the lock file cannot be opened; an existing one can be opened even on a full or read-only disk.
        """
        self._lock = os.open(self._path.with_suffix(".lock"), os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def hand_out(self, listener: socket.socket) -> None:
        """Send the listening socket to every process that connects to the Unix socket, such as a new supervisor.

        Runs in a thread until the listener is closed. Raises `OSError` if the Unix socket cannot be created.
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
    """Return the listening socket of the process that serves now; None if there is none, or it does not respond."""
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
            with channel, contextlib.suppress(OSError, ValueError):  # the client has gone, or the listener is closed
                channel.settimeout(HANDOVER_SECONDS)
                send_listener(channel, listener)
