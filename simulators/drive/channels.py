"""Notification channels: for as long as a channel lives, changes of its feed are announced to its URL over HTTP.

A message only says that a feed has changed. Source: https://developers.google.com/workspace/drive/api/guides/push
"""

import queue
import threading
import time
from datetime import datetime, timedelta
from email.utils import format_datetime

import httpx
import msgspec

from resources import http_clients
from simulators.drive.errors import ApiError

LONGEST = timedelta(days=7)
RETRIED = frozenset({0, 500, 502, 503, 504})
"""Statuses after which a message is sent again; 0 for no response."""
RETRIES = (0.1, 0.5, 2.0)
"""Seconds before each retry; Google's own waits are longer."""
PATIENCE_SECONDS = 10.0


class Channel(msgspec.Struct):
    """A channel as requested. `number` counts its messages."""

    id: str
    feed: str
    resource_id: str
    address: str
    token: str | None
    expires: datetime
    number: int = 0


class NotificationChannels:
    """The live channels. A separate thread sends their messages, in the order of the changes."""

    def __init__(self) -> None:
        self.live: dict[str, Channel] = {}
        self.longest = LONGEST
        self.refused = ""
        """Error for refused URLs, as Google refuses those of unverified domains; empty: none are refused."""
        self.sent: list[tuple[str, str, int]] = []
        """Channel, state and response status (0 for none) of each message, including retries."""
        self._queue: queue.Queue[tuple[Channel, dict[str, str]]] = queue.Queue()
        self._thread: threading.Thread | None = None

    def add(self, channel: Channel) -> None:
        """Start a channel, and send its first message."""
        self.live[channel.id] = channel
        self._send(channel, "sync")

    def stop(self, channel_id: str, resource_id: str) -> None:
        """Stop a channel. Raises `ApiError` if it is unknown."""
        channel = self.live.get(channel_id)
        if channel is None or channel.resource_id != resource_id:
            raise ApiError(404, "notFound", f"Channel '{channel_id}' not found for project 'simulator'")
        del self.live[channel_id]

    def changed(self, feed: str, now: datetime) -> None:
        for channel in list(self.live.values()):
            if channel.expires <= now:
                del self.live[channel.id]
            elif channel.feed == feed:
                self._send(channel, "change")

    def settle(self) -> None:
        """Wait until every message was sent."""
        self._queue.join()

    def _send(self, channel: Channel, state: str) -> None:
        channel.number += 1
        headers = {
            "Content-Type": "application/json; charset=UTF-8",
            "User-Agent": "APIs-Google; (+https://developers.google.com/webmasters/APIs-Google.html)",
            "X-Goog-Channel-ID": channel.id,
            "X-Goog-Channel-Expiration": format_datetime(channel.expires, usegmt=True),
            "X-Goog-Resource-State": state,
            "X-Goog-Message-Number": str(channel.number),
            "X-Goog-Resource-ID": channel.resource_id,
            "X-Goog-Resource-URI": uri(channel),
        }
        if channel.token is not None:
            headers["X-Goog-Channel-Token"] = channel.token
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="drive-notifications", daemon=True)
            self._thread.start()
        self._queue.put((channel, headers))

    def _run(self) -> None:
        with http_clients.own(timeout=PATIENCE_SECONDS) as client:
            while True:
                channel, headers = self._queue.get()
                for wait in (0.0, *RETRIES):
                    time.sleep(wait)
                    try:
                        status = client.post(channel.address, headers=headers).status_code
                    except httpx.HTTPError:
                        status = 0
                    self.sent.append((channel.id, headers["X-Goog-Resource-State"], status))
                    if status not in RETRIED:
                        break
                self._queue.task_done()


def uri(channel: Channel) -> str:
    drive = f"&driveId={channel.feed}" if channel.feed else ""
    return f"https://www.googleapis.com/drive/v3/changes?alt=json{drive}"
