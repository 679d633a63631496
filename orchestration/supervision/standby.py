"""A second process of a service that waits, warm, and takes over by itself when the first one ends; see `serving/standby.py`.

Enter: a command that expects the listening socket through standard input. Leave: that process.
"""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable

from resources.servers.processes import ProcessIdentity, alive, group, identify, kill_all
from resources.servers.succession import send_listener


class Standby:
    """One process that waits, and goes on waiting without its supervisor. It ends if it never gets the listening socket."""

    def __init__(
        self,
        identity: ProcessIdentity,
        process: subprocess.Popen[bytes] | None = None,
        channel: socket.socket | None = None,
    ) -> None:
        """Without `process`, another supervisor started it."""
        self.identity = identity
        self.process = process
        self._channel = channel

    @classmethod
    def start(cls, spawn: Callable[[socket.socket], subprocess.Popen[bytes]]) -> Standby:
        """Start a process; `entrust` must follow."""
        channel, theirs = socket.socketpair()
        with theirs:
            process = spawn(theirs)
        # A process that has ended already has no identity of its own any more; its number is ours until we collect it.
        return cls(identify(process.pid) or ProcessIdentity(process.pid, 0.0), process, channel)

    @property
    def usable(self) -> bool:
        """Whether it lives. One that is still loading takes its turn as soon as it can."""
        return alive(self.identity) if self.process is None else self.process.poll() is None

    def entrust(self, listener: socket.socket) -> None:
        """Give it the listening socket, once. Raises `OSError` when it has ended."""
        if self._channel is not None:
            with self._channel:
                send_listener(self._channel, listener)
            self._channel = None

    def end(self) -> None:
        """End it at once; it serves nobody."""
        if self._channel is not None:
            self._channel.close()
        if self.process is not None or alive(self.identity):
            kill_all(group(self.identity.pid))
        if self.process is not None:
            self.process.wait()
