"""The connection state of the Socket Mode receiver, as it reports it to other processes over a Unix socket."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from resources.servers.sockets import socket_path
from resources.settings import Settings

REPLY_SECONDS = 2.0
MOST_BYTES = 64 * 1024


class SocketState(msgspec.Struct, kw_only=True):
    """What the receiver knows of itself. Times are seconds since 1970."""

    connected: bool = False
    since: float
    """When it was connected, or since when it is not."""
    reason: str = ""
    """Why it is not connected."""
    app_id: str = ""
    """The app that the app-level token belongs to, as Slack says when it connects."""
    stored: int = 0
    """Events that were stored and acknowledged since the receiver started."""
    failed: int = 0
    """Events that could not be stored and are left to Slack to send again."""


def address(settings: Settings) -> Path:
    """Return the path of the receiver's socket."""
    return socket_path(settings, "slack-events.sock")


def ask(settings: Settings) -> SocketState | None:
    """Return the receiver's state; None when it does not answer within two seconds."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(REPLY_SECONDS)
            connection.connect(str(address(settings)))
            with connection.makefile("rb") as reply:
                return msgspec.json.decode(reply.readline(MOST_BYTES), type=SocketState)
    except (OSError, msgspec.MsgspecError):
        return None
