"""Socket Mode: `apps.connections.open` issues URLs, and events are sent to connected clients until they are acknowledged.

Envelopes may come from any thread; each is sent to one connection at a time. An envelope that is not acknowledged in time, or
whose connection ends, is sent again.
Source: https://docs.slack.dev/apis/events-api/using-socket-mode/
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import msgspec

from simulators import Receive, Scope, Send

PATIENCE_SECONDS = 3.0
"""An event that is not acknowledged within this time is sent again."""
ATTEMPTS = 4
"""Maximum number of attempts per event: one and three retries."""
KEPT = 1000
"""Maximum number of waiting events: while no client is connected, the oldest ones are lost."""
PATH = "/link/"


@dataclass(eq=False, slots=True)
class _Delivery:
    """An event being delivered; `due` is the time of the next attempt, by `time.monotonic`."""

    envelope_id: str
    payload: dict[str, Any]
    kind: str
    due: float = 0.0
    attempts: int = 0
    link: _Connection | None = None


@dataclass(eq=False, slots=True)
class _Connection:
    send: Send
    loop: asyncio.AbstractEventLoop
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Sockets:
    """The connected clients and their unacknowledged events. Thread-safe."""

    def __init__(self, app_id: str, patience: float = PATIENCE_SECONDS) -> None:
        self.app_id = app_id
        self.patience = patience
        self.sent = 0
        """Envelopes sent so far, including retries."""
        self.acknowledged: list[str] = []
        """Ids of events and triggers, in the order of their acknowledgements."""
        self.deaf = 0
        """Number of acknowledgements that will be lost from now on."""
        self._lock = threading.RLock()
        self._tickets: set[str] = set()
        self._links: list[_Connection] = []
        self._waiting: list[_Delivery] = []

    @property
    def connected(self) -> int:
        with self._lock:
            return len(self._links)

    @property
    def waiting(self) -> int:
        with self._lock:
            return len(self._waiting)

    def open(self, base: str) -> str:
        """Return a URL for one connection; it works once."""
        ticket = secrets.token_hex(16)
        with self._lock:
            self._tickets.add(ticket)
        return f"{base.replace('http', 'ws', 1)}{PATH}?ticket={ticket}&app_id={self.app_id}"

    def deliver(self, payload: dict[str, Any], kind: str = "events_api") -> None:
        """Send an event, or with the kind `interactive` a pressed button, to a connected client, as soon as there is one."""
        with self._lock:
            self._waiting.append(_Delivery(secrets.token_hex(16), payload, kind))
            del self._waiting[:-KEPT]
        self._wake()

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def disconnect(self, reason: str = "refresh_requested") -> None:
        """Ask all clients to reconnect, and close their connections; after a `warning`, that is left to the clients."""
        with self._lock:
            links = list(self._links)
        message = {"type": "disconnect", "reason": reason, "debug_info": {"host": "simulator"}}
        for link in links:
            sent = _say(link, message, close=reason != "warning")
            asyncio.run_coroutine_threadsafe(sent, link.loop).result(timeout=10)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        ticket = parse_qs(scope["query_string"].decode()).get("ticket", [""])[0]
        with self._lock:
            known = ticket in self._tickets
            self._tickets.discard(ticket)
        if not known:
            await send({"type": "websocket.close", "code": 4001})
            return
        link = _Connection(send, asyncio.get_running_loop())
        await send({"type": "websocket.accept"})
        with self._lock:
            self._links.append(link)
            info = {"num_connections": len(self._links), "connection_info": {"app_id": self.app_id}}
        await _say(link, {"type": "hello", "debug_info": {"host": "simulator"}} | info)
        pump = asyncio.create_task(self._pump(link))
        try:
            while (message := await receive())["type"] == "websocket.receive":
                self._take(message)
        finally:
            pump.cancel()
            self._drop(link)

    def _take(self, message: MutableMapping[str, Any]) -> None:
        envelope_id = msgspec.json.decode(message.get("text") or "{}").get("envelope_id")
        with self._lock:
            if self.deaf:
                self.deaf -= 1
                return
            for delivery in [one for one in self._waiting if one.envelope_id == envelope_id]:
                self._waiting.remove(delivery)
                self.acknowledged.append(str(delivery.payload.get("event_id") or delivery.payload["trigger_id"]))

    def _drop(self, link: _Connection) -> None:
        with self._lock:
            self._links.remove(link)
            for delivery in self._waiting:
                if delivery.link is link:
                    delivery.link, delivery.due = None, 0.0
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            for link in self._links:
                link.loop.call_soon_threadsafe(link.wake.set)

    async def _pump(self, link: _Connection) -> None:
        """Send due envelopes over one connection."""
        while True:
            link.wake.clear()
            delivery, pause = self._next(link)
            if delivery is None:
                try:
                    await asyncio.wait_for(link.wake.wait(), pause)
                except TimeoutError:
                    continue
            else:
                await _say(link, _shape(delivery))

    def _next(self, link: _Connection) -> tuple[_Delivery | None, float | None]:
        """Return the envelope to send now, or the seconds until one is due."""
        now = time.monotonic()
        with self._lock:
            self._waiting = [one for one in self._waiting if one.attempts < ATTEMPTS or one.due > now]
            for delivery in self._waiting:
                if delivery.due <= now:
                    delivery.due, delivery.link = now + self.patience, link
                    delivery.attempts += 1
                    self.sent += 1
                    return delivery, None
            return None, min((one.due - now for one in self._waiting), default=None)


def _shape(delivery: _Delivery) -> dict[str, Any]:
    again = delivery.attempts - 1
    return {
        "envelope_id": delivery.envelope_id,
        "payload": delivery.payload,
        "type": delivery.kind,
        "accepts_response_payload": False,
        "retry_attempt": again,
        "retry_reason": "timeout" if again else "",
    }


async def _say(link: _Connection, message: dict[str, Any], *, close: bool = False) -> None:
    await link.send({"type": "websocket.send", "text": msgspec.json.encode(message).decode()})
    if close:
        await link.send({"type": "websocket.close", "code": 1000})
