"""Limits on the connections of an HTTP server: how much a client may send before it is authenticated, and how long it may take.

uvicorn limits neither the size of a request's header nor the time a client takes to send it, so one connection could fill the
memory and thousands of half-sent requests would stay open for ever. `bounded` returns its HTTP protocol with limits on header
bytes and count, deadlines for header, body and response, and limits on connections, in total and per address. Refusals are
RFC 9457 problem details. Refusals and disconnects are logged at debug level, plus one summary line a minute.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Collection
from typing import Any, NamedTuple

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from resources.servers.addresses import Origins
from resources.servers.joined_writes import JoinedWrites
from resources.servers.refusals import FULL, INVALID, RefusedError, headers_too_large, too_slow
from resources.servers.shared import Shared
from resources.servers.tally import SharedTally

log = logging.getLogger("connections")

SWEEP_SECONDS = 1.0
REPORT_SECONDS = 60.0
ALL = ""
"""Key of the count of all connections."""


class Bounds(NamedTuple):
    """The limits of one listener. `trusted` lists networks (reverse proxies) whose connections are not limited per address."""

    header_bytes: int = 32 * 1024
    """Request line and headers together, as sent; also the limit for the trailers of a chunked body."""
    value_bytes: int = 16 * 1024
    """Size of a request's URL, and of the value of one header. A token that names 300 groups takes 12 kB."""
    header_count: int = 100
    header_seconds: float = 15.0
    """From the start of a connection, or the first byte of a later request, to the end of the header."""
    idle_seconds: float = 20.0
    """Longest pause within a body, and longest time without the client reading any of its response."""
    least_rate: int = 4096
    """Bytes per second at which a body must arrive once `idle_seconds` have passed."""
    linger_seconds: float = 5.0
    """How long the rest of a body is read after its request was answered, so that the client sees the answer."""
    pipeline: int = 8
    """Requests that may be queued on one connection behind the one being answered."""
    connections: int = 500
    per_address: int = 100
    trusted: Collection[str] = ("127.0.0.1", "::1")


class Connections:
    """The open connections of one process: counts them and closes those that exceed a deadline.

    The limits are for all processes of the server, but a process closes only connections of its own to make room.
    """

    def __init__(self, bounds: Bounds, shared: Shared) -> None:
        self.bounds = bounds
        self.open: set[BoundedProtocol] = set()
        self._counts = SharedTally(shared, "connections", bounds.connections + 1)
        self._origins = Origins(bounds.trusted)
        self._refused: Counter[str] = Counter()
        self._reported = 0.0
        self._sweeping = False

    def admit(self, connection: BoundedProtocol, host: str) -> bool:
        """Register a connection, or return False. If all slots are taken, the connection that has been idle longest is closed.

        If the slots of one address are taken, only an idle connection of that address is closed; one with a partial request is kept.
        """
        connection.origin = self._origins.of(host)
        wanted = [(ALL, self.bounds.connections)]
        if connection.origin:
            wanted.insert(0, (connection.origin, self.bounds.per_address))
        while (entry := self._counts.enter(*wanted)).reached is not None:
            if wanted[entry.reached][0] == ALL:
                closable = [one for one in self.open if not one.answering]
            else:
                closable = [one for one in self.open if one.origin == connection.origin and one.idle]
            if not closable:
                return False
            self.count("evicted")
            min(closable, key=lambda one: one.since).drop()
        connection.counted = entry.slots
        self.open.add(connection)
        if not self._sweeping:
            self._sweeping = True
            connection.loop.call_later(SWEEP_SECONDS, self._sweep, connection.loop)
        return True

    def leave(self, connection: BoundedProtocol) -> None:
        if connection not in self.open:
            return
        self.open.discard(connection)
        self._counts.leave(connection.counted)

    def by_worker(self) -> list[int]:
        """Return the number of open connections of each process."""
        return self._counts.by_worker(ALL)

    def count(self, why: str) -> None:
        """Count a refusal for the summary line that is logged once a minute."""
        self._refused[why] += 1

    def _sweep(self, loop: Any) -> None:
        now: float = loop.time()
        for connection in list(self.open):
            connection.check(now)
        if self._refused and now - self._reported >= REPORT_SECONDS:
            self._reported = now
            log.warning("requests_refused %s", json.dumps(self._refused))
            self._refused.clear()
        self._sweeping = bool(self.open or self._refused)
        if self._sweeping:
            loop.call_later(SWEEP_SECONDS, self._sweep, loop)


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with the limits of `kept`, which `bounded` sets.

    `_expects` is what the client still has to send: a `head`, a `body`, the `rest` of a body that was already answered, or nothing.
    """

    kept: Connections
    origin: str = ""
    counted: tuple[int, ...] = ()
    since: float = 0.0
    _expects: str = "head"
    _heard: float = 0.0
    _body_bytes: int = 0
    _unread: int = 0
    _head_bytes: int = 0
    _unsent: int = 0
    _unsent_since: float = 0.0

    def connection_made(self, transport: Any) -> None:
        """Admit the connection, or answer 503 and close it."""
        joined: Any = JoinedWrites(transport)
        super().connection_made(joined)
        self.since = self._heard = self.loop.time()
        if not self.kept.admit(self, self.client[0] if self.client else ""):
            self._refuse(FULL)

    def connection_lost(self, exc: Exception | None) -> None:
        """Unregister the connection; a running request receives `http.disconnect`."""
        self.kept.leave(self)
        super().connection_lost(exc)
        self._unset_keepalive_if_required()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, in pieces no larger than the header limit."""
        if self.transport.is_closing():
            return
        self._heard = self.loop.time()
        self._unset_keepalive_if_required()
        if self._expects == "":
            self._expects, self.since, self._unread = "head", self._heard, 0
        try:
            if self._expects == "head":
                room = self.kept.bounds.header_bytes - self._unread
                first, data = data[:room], data[room:]
                self._parse(first)
                if data and self._expects == "head" and self._unread >= self.kept.bounds.header_bytes:
                    raise self._header_too_long()
            if data:
                self._parse(data)
        except RefusedError as refusal:
            self._refuse(refusal)

    def _parse(self, data: bytes) -> None:
        parser = self.parser
        if parser is None:  # the connection is closed
            return
        self._unread += len(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # upgrades are not supported: answer it as a plain request
        except httptools.HttpParserError as error:
            refusal = error.__context__
            raise refusal if isinstance(refusal, RefusedError) else INVALID from None
        if self._unread > self.kept.bounds.header_bytes:
            raise self._header_too_long()

    def _header_too_long(self) -> RefusedError:
        most = self.kept.bounds.header_bytes // 1024
        return headers_too_large(
            f"The request line and headers are larger than {most} kB together; send fewer headers."
        )

    def on_message_begin(self) -> None:
        """Start a request: the previous one is complete."""
        super().on_message_begin()
        self._expects, self._body_bytes, self._head_bytes = "head", 0, 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        if len(self.url) > self.kept.bounds.value_bytes:
            most = self.kept.bounds.value_bytes // 1024
            raise headers_too_large(f"The URL is larger than {most} kB.")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Receive a header. Trailers count towards the limit but are dropped: the application has already seen the headers."""
        bounds = self.kept.bounds
        self._head_bytes += len(name) + len(value) + 4
        if len(value) > bounds.value_bytes or len(name) > bounds.value_bytes:
            shown = name[:40].decode("latin-1").lower()
            raise headers_too_large(f"The header {shown} is larger than {bounds.value_bytes // 1024} kB.")
        if self._head_bytes > bounds.header_bytes:
            raise self._header_too_long()
        if self._expects != "head":
            return
        if len(self.headers) >= bounds.header_count:
            raise headers_too_large(f"The request has more than {bounds.header_count} headers; send fewer.")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.kept.bounds.pipeline:
            raise INVALID
        self._unread = 0
        self._expects, self.since = "body", self._heard
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete: from now on the application is the one taking time."""
        self._unread = 0
        answered = self._expects == "rest"
        self._expects, self.since = "head" if answered else "", self._heard
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Keep reading the rest of the body for a moment: a client cut off while sending may never see the answer."""
        if self._expects == "body" and not self.transport.is_closing():
            self._expects, self.since = "rest", self.loop.time()
        super().on_response_complete()

    @property
    def idle(self) -> bool:
        """True if the connection is kept alive and nothing of a next request has arrived."""
        return self._expects == "" and not self.answering

    @property
    def answering(self) -> bool:
        """True while the application is processing a request of this connection."""
        return bool(self.cycle) and not self.cycle.response_complete

    def check(self, now: float) -> None:
        """Close the connection if its client has exceeded a deadline."""
        bounds = self.kept.bounds
        self._check_reader(now)
        if self._expects == "head" and self.answering:  # its deadline starts when the previous request is answered
            self.since = now
        elif self._expects == "head" and now - self.since > bounds.header_seconds:
            if not self._unread:
                self.drop()
            else:
                self._refuse(too_slow(f"Its header was not complete within {bounds.header_seconds:g} seconds."))
        elif self._expects == "rest" and now - self.since > bounds.linger_seconds:
            self.drop()
        elif self._expects == "body":
            if self.flow.read_paused or self.cycle.waiting_for_100_continue:  # the client is not the slow side
                self.since, self._heard = self.since + SWEEP_SECONDS, now
            elif now - self._heard > bounds.idle_seconds:
                self._refuse(too_slow(f"No part of its body arrived for {bounds.idle_seconds:g} seconds."))
            elif now - self.since > bounds.idle_seconds + self._body_bytes / bounds.least_rate:
                self._refuse(too_slow(f"Its body came with less than {bounds.least_rate} bytes a second."))

    def _check_reader(self, now: float) -> None:
        """Disconnect a client that reads none of its response."""
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent < self._unsent or not self._unsent_since:
            self._unsent_since = now
        elif now - self._unsent_since > self.kept.bounds.idle_seconds:
            self.kept.count("slow-reader")
            self.transport.abort()
        self._unsent = unsent

    def drop(self) -> None:
        """Close the connection without a response: no request is pending."""
        self._expects = ""
        self.kept.leave(self)
        self.transport.close()

    def _refuse(self, refusal: RefusedError) -> None:
        """Answer with the refusal unless a response has begun, and close the connection."""
        self.kept.count(refusal.slug)
        answered, self._expects = self._expects == "rest", ""
        if self.transport.is_closing():
            return
        if not answered and not (self.answering and (self.cycle.response_started or self.pipeline)):
            self.transport.write(refusal.response())
        if self.answering:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.pipeline.clear()
        self.transport.close()

    def _unsupported_upgrade_warning(self) -> None:
        """Do nothing: any client could flood the log with this warning."""


def bounded(bounds: Bounds | None = None, shared: Shared | None = None) -> type[BoundedProtocol]:
    """Return the protocol class for `uvicorn.Config(http=…)`. Call it once per server: each class has its own counters."""
    kept = Connections(bounds or Bounds(), shared or Shared.alone())
    return type("BoundedConnection", (BoundedProtocol,), {"kept": kept})
