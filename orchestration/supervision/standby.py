"""A warm second process of a service that takes over when the first one ends; see `serving/workers/standby.py`."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Callable

from resources.servers.processes import ProcessIdentity, group, identify, kill_all
from resources.servers.succession import send_listener


class Standby:
    """A standby process. It ends if it never receives the listening socket."""

    def __init__(
        self,
        identity: ProcessIdentity,
        process: subprocess.Popen[bytes],
        channel: socket.socket,
    ) -> None:
        self.identity = identity
        self.process = process
        self._channel: socket.socket | None = channel

    @classmethod
    def start(cls, spawn: Callable[[socket.socket], subprocess.Popen[bytes]]) -> Standby:
        """Start a process; `hand_over_listener` must follow."""
        channel, theirs = socket.socketpair()
        with theirs:
            process = spawn(theirs)
        # A process that has already ended cannot be identified, but its pid is not reused until we wait for it.
        return cls(identify(process.pid) or ProcessIdentity(process.pid, 0.0), process, channel)

    @property
    def usable(self) -> bool:
        """Return True if the process is running; one that is still loading takes over as soon as it can."""
        return self.process.poll() is None

    def hand_over_listener(self, listener: socket.socket) -> None:
        """Send the listening socket to the process, once. Raises `OSError` if it has ended."""
        if self._channel is not None:
            with self._channel:
                send_listener(self._channel, listener)
            self._channel = None

    def end(self) -> None:
        """Kill the process; it serves no requests."""
        if self._channel is not None:
            self._channel.close()
        kill_all(group(self.identity.pid))
        self.process.wait()
