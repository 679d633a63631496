"""A single Socket Mode connection to Slack.

slack_sdk's client would reconnect by itself, forever and to a URL that is valid once. Here a client makes one connection; when `ended`
is set, the receiver opens the next one, with deadlines.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast
from urllib.parse import urlsplit

from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.web.async_client import AsyncWebClient

from resources import http_clients
from resources.core.errors import AbortSyncError
from resources.core.json import object_of
from resources.proxies import proxy_for
from resources.sources.slack.client import is_slack

PING_SECONDS = 5
"""Interval of pings; a connection without a response for four times as long counts as ended."""
CALL_SECONDS = 15
END_SECONDS = 2.0

_silent = logging.getLogger("concordance.slack_sdk")
_silent.setLevel(logging.CRITICAL + 1)
"""slack_sdk logs whole messages, which must not be stored."""


class SlackConnection(SocketModeClient):
    """A client for one connection. `handle` processes each event and acknowledges it."""

    def __init__(
        self, token: str, api_url: str, handle: Callable[[SlackConnection, SocketModeRequest], Awaitable[None]]
    ) -> None:
        self._host = urlsplit(api_url).hostname or ""
        self._hello = asyncio.Event()
        self._handle = handle
        self.ended = asyncio.Event()
        self.replaceable = False
        """True if Slack requested a new connection; this one then works for some more seconds."""
        self.app_id = ""
        web = AsyncWebClient(base_url=f"{api_url}/", timeout=CALL_SECONDS, logger=_silent, retry_handlers=[])
        super().__init__(token, logger=_silent, web_client=web, ping_interval=PING_SECONDS)
        web.proxy, web.ssl = proxy_for(api_url), http_clients.tls()  # slack_sdk ignores NO_PROXY
        cast("Any", self).message_listeners.append(self._on_message)  # its type is incomplete
        self.socket_mode_request_listeners.append(self._on_request)

    async def open(self) -> None:
        """Connect and wait for Slack's hello, without a deadline. Raises `SlackApiError` and network errors."""
        url = await self.issue_new_wss_url()
        parts = urlsplit(url)
        if is_slack(self._host) and not (parts.scheme == "wss" and is_slack(parts.hostname or "")):
            raise AbortSyncError("Slack returned a Socket Mode URL that does not belong to Slack.")
        self.wss_uri, self.proxy = url, proxy_for(url)
        await self.connect()
        await self._hello.wait()

    async def end(self) -> None:
        """Close the connection, within some seconds."""
        with contextlib.suppress(OSError, RuntimeError, TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await self.close()
        await self.aiohttp_client_session.close()

    async def connect_to_new_endpoint(self, force: bool = False) -> None:
        """Mark this connection as ended or about to end. slack_sdk calls this to reconnect."""
        self.replaceable = self.replaceable or force
        self.ended.set()

    async def _on_message(self, _client: AsyncBaseSocketModeClient, message: dict[str, Any], _raw: str | None) -> None:
        if message.get("type") == "hello":
            self.app_id = str(object_of(message.get("connection_info")).get("app_id") or "")
            self._hello.set()

    async def _on_request(self, _client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        await self._handle(self, request)
