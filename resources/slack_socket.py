"""The connection state of the Socket Mode receiver, as it reports it to other processes over a Unix socket."""

from pathlib import Path

import msgspec

from resources.servers import sockets
from resources.settings import Settings

REPLY_SECONDS = 2.0


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
    return sockets.socket_path(settings, "slack-events.sock")


def ask(settings: Settings) -> SocketState | None:
    """Return the receiver's state; None if it does not respond within two seconds."""
    try:
        return sockets.ask(address(settings), SocketState, REPLY_SECONDS)
    except (OSError, msgspec.MsgspecError):
        return None
