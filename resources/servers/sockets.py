"""Unix sockets between our own processes, in a folder that no other account can enter.

The folder is `HOME/run` or, if that makes the path too long for a socket address, an installation-specific temporary folder.
"""

import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import TypeVar

import msgspec

from resources.core.errors import ConfigurationError
from resources.servers.lines import line
from resources.settings import Settings

Reply = TypeVar("Reply")

LONGEST = 100
"""Longest path in bytes. Source: unix(7) allows 107, macOS 103; gRPC appends a name of its own while it binds."""

MOST_BYTES = 64 * 1024
"""Longest message over a socket."""


def socket_path(settings: Settings, name: str) -> Path:
    """Return the path of a socket of this installation; its folder exists and is private. Raises `ConfigurationError`."""
    place = settings.home / "run" / name
    if len(os.fsencode(place)) > LONGEST:
        place = Path(tempfile.gettempdir()) / f"concordance-{_short(settings.home)}" / name
    _close(place.parent, settings.home)
    return place


def ask(path: Path, kind: type[Reply], seconds: float, message: object = None) -> Reply:
    """Connect to a socket, send the message if there is one, and return the reply.

    Raises `OSError` if it takes longer than `seconds`, `msgspec.MsgspecError` if the reply is of another kind, or missing.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(seconds)
        connection.connect(str(path))
        if message is not None:
            connection.sendall(line(message))
        with connection.makefile("rb") as reply:
            return msgspec.json.decode(reply.readline(MOST_BYTES), type=kind)


def _short(home: Path) -> str:
    return hashlib.sha256(os.fsencode(home)).hexdigest()[:16]


def _close(folder: Path, home: Path) -> None:
    """Create the folder if missing and verify that we own it: another account may have created it first."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    ours = {os.geteuid(), home.stat().st_uid}
    if not stat.S_ISDIR(found.st_mode) or found.st_uid not in ours:
        raise ConfigurationError(
            f"{folder} belongs to another account: remove it, or set CONCORDANCE_HOME to a shorter path."
        )
    if found.st_mode & 0o077:
        folder.chmod(0o700)
