"""State that a follower receives from its leader at its start, and its end with the leader's. Imports nothing heavy."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from typing import NamedTuple

_PR_SET_PDEATHSIG = 1


class Inherited(NamedTuple):
    """State that a follower receives from its leader: its number, the leader's pid, and the descriptors of the socket and the memory."""

    worker: int
    leader: int
    listener: int
    memory: int

    def argument(self) -> str:
        """Return it as an argument of the command line."""
        return ":".join(map(str, self))

    @classmethod
    def parse(cls, argument: str) -> Inherited:
        return cls(*map(int, argument.split(":")))


def end_with(leader: int) -> None:
    """Let this process end, whatever it is doing, when its leader does. Call it first."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != leader:
        os._exit(1)
    threading.Thread(target=_exit_at_end_of_input, name="leader", daemon=True).start()


def _exit_at_end_of_input() -> None:
    """Wait for the leader's end of the pipe to close, on systems without the signal."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)
