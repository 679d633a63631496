"""The connection state of the Socket Mode receiver, as it reports it to other processes over a Unix socket."""

import socket
from pathlib import Path

import msgspec

from resources.servers.sockets import socket_path
from resources.settings import Settings

REPLY_SECONDS = 2.0
MOST_BYTES = 64 * 1024


class SocketState(msgspec.Struct, kw_only=True):
    """The receiver's connection and counts. Times are seconds since 1970."""

    connected: bool = False
    since: float
    """Time of the last change between connected and disconnected."""
    reason: str = ""
    """Why it is not connected."""
    app_id: str = ""
    """The app of the app-level token, as reported by Slack on connecting."""
    stored: int = 0
    """Events that were stored and acknowledged since the receiver started."""
    failed: int = 0
    """Events that could not be stored, which Slack sends again."""


def address(settings: Settings) -> Path:
    return socket_path(settings, "slack-events.sock")


def ask(settings: Settings) -> SocketState | None:
    """Return the receiver's state; None if it does not respond within two seconds."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(REPLY_SECONDS)
            connection.connect(str(address(settings)))
            with connection.makefile("rb") as reply:
                return msgspec.json.decode(reply.readline(MOST_BYTES), type=SocketState)
    except (OSError, msgspec.MsgspecError):
        return None
