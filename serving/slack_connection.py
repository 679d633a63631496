"""One connection to Slack by Socket Mode, from its address to its end, over slack_sdk's client.

slack_sdk would connect again by itself, for ever and with an address that can be used once; here a client is used for one
connection, `ended` says when another one is wanted, and the receiver makes it, with deadlines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from resources.core.errors import AbortSyncError
from resources.sources.slack.client import is_slack

PING_SECONDS = 5
"""Between pings; a connection without an answer for four times as long counts as ended."""
CALL_SECONDS = 15
END_SECONDS = 2.0
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

_silent = logging.getLogger("concordance.slack_sdk")
_silent.setLevel(logging.CRITICAL + 1)
"""slack_sdk logs messages whole: not ours to keep."""


class SlackConnection(SocketModeClient):
    """A client for one connection. `take` receives each event and acknowledges it."""

    def __init__(
        self, token: str, api_url: str, take: Callable[[SlackConnection, SocketModeRequest], Awaitable[None]]
    ) -> None:
        self._host = urlsplit(api_url).hostname or ""
        self._hello = asyncio.Event()
        self._take = take
        self.ended = asyncio.Event()
        self.replaceable = False
        """Whether it ended because Slack asked for another one, and still works for some seconds."""
        self.app_id = ""
        web = AsyncWebClient(base_url=f"{api_url}/", timeout=CALL_SECONDS, logger=_silent, retry_handlers=[])
        super().__init__(token, logger=_silent, web_client=web, ping_interval=PING_SECONDS)
        if self._host in LOOPBACK:
            web.proxy = self.proxy = None  # slack_sdk takes a proxy from the environment and knows no exception to it
        self.message_listeners.append(self._hear)
        self.socket_mode_request_listeners.append(self._request)

    async def open(self) -> None:
        """Connect, and return once Slack has said hello. Raises `SlackApiError` and what the network raises; has no deadline."""
        url = await self.issue_new_wss_url()
        parts = urlsplit(url)
        if is_slack(self._host) and not (parts.scheme == "wss" and is_slack(parts.hostname or "")):
            raise AbortSyncError("Slack named an address for Socket Mode that is not its own.")
        self.wss_uri = url
        await self.connect()
        await self._hello.wait()

    async def end(self) -> None:
        """Close the connection, within some seconds."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.close()
        await self.aiohttp_client_session.close()

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Say that this connection has ended or is about to; called by slack_sdk when it would connect again."""
        self.replaceable = self.replaceable or force
        self.ended.set()

    async def _hear(self, _client: AsyncBaseSocketModeClient, message: dict[str, Any], _raw: str | None) -> None:
        if message.get("type") == "hello":
            self.app_id = str((message.get("connection_info") or {}).get("app_id") or "")
            self._hello.set()

    async def _request(self, _client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        await self._take(self, request)
