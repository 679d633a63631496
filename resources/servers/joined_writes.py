"""Send the head of a response together with its body."""

from __future__ import annotations

import asyncio
from typing import Any


class JoinedWrites:
    """A transport that sends two writes of one turn of the event loop together, so that the client is woken once.

    uvicorn writes the head of a response and then its body, and uvloop sends each write at once. A write waits for the next one, at most
    to the end of the turn.
    """

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._waiting = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data, with what waits, or have it wait."""
        if self._waiting:
            waiting, self._waiting = self._waiting, b""
            self._transport.writelines([waiting, data])
        elif data:
            self._waiting = data
            asyncio.get_running_loop().call_soon(self._send)

    def close(self) -> None:
        """Send what waits, and close the connection."""
        self._send()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection without sending what waits."""
        self._waiting = b""
        self._transport.abort()

    def _send(self) -> None:
        if self._waiting:
            waiting, self._waiting = self._waiting, b""
            self._transport.write(waiting)
