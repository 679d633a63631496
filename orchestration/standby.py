"""A second process of a service that waits, warm, until the first one dies; see `serving/standby.py` for its side.

Enter: a command that waits on standard input, a socket, for the listening socket. Leave: that process, and its turn.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable

from resources.embedded.processes import group, kill_all

SERVE = b"s"


class Standby:
    """One process that waits. It ends by itself when the supervisor has gone, because its channel then closes."""

    def __init__(self, spawn: Callable[[socket.socket], subprocess.Popen[bytes]]) -> None:
        self._channel, theirs = socket.socketpair()
        with theirs:
            self.process = spawn(theirs)

    @property
    def usable(self) -> bool:
        """Whether it lives. One that is still loading takes its turn as soon as it can."""
        return self.process.poll() is None

    def take_over(self, listener: socket.socket) -> None:
        """Let it serve. Raises `OSError` when it has died."""
        with self._channel:
            socket.send_fds(self._channel, [SERVE], [listener.fileno()])

    def end(self) -> None:
        """End it at once; it serves nobody."""
        self._channel.close()
        kill_all(group(self.process.pid))
        self.process.wait()
