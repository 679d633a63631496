"""`python -m serving.sources.slack_socket`: receive Slack's events over Socket Mode until SIGTERM or SIGINT.

It is a separate process so that no other holds the app-level token and its failure disturbs no search. An event is acknowledged once it
is stored: Slack redelivers events that a killed process did not store, and repeated events have no effect. Syncs, which need the bot
token and Dagster's secret, are left to the sensor for waiting events, and questions to the HTTP service.
"""

import asyncio
import contextlib
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import msgspec
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from resources.alerts.rules import Observation
from resources.alerts.states import INTERVAL_SECONDS, observe
from resources.core.errors import ConcordanceError, ConfigurationError, TemporaryError
from resources.logging import configure, logger
from resources.servers.lines import line
from resources.settings import Settings, load
from resources.slack_socket import SocketState, address
from resources.sources.slack.envelope import Envelope
from resources.sources.slack.questions import Interaction
from serving.http.database import Database
from serving.http.periodic import Repeated
from serving.identity.withholding import Withholding
from serving.sources.slack_connection import SlackConnection
from serving.sources.slack_events import SlackEvents

CONNECT_SECONDS = 20.0
"""Timeout of obtaining a URL, connecting, and receiving Slack's `hello` together."""
ACKNOWLEDGE_SECONDS = 5.0
BACKOFF: Sequence[float] = (0.5, 1, 2, 5, 10, 30, 60)
"""Seconds before each further attempt to connect; the last one repeats."""
STORE_RETRY: Sequence[float] = (1, 5, 15, 60)
"""Seconds before each further attempt to store an event. Slack redelivers unacknowledged events for some minutes only."""
SUBJECT = "slack-events"
"""Of the alert that there is no connection."""
CONCURRENCY = 4
"""Events that are stored concurrently."""
REFUSED = frozenset(
    {"invalid_auth", "not_authed", "not_allowed_token_type", "missing_scope", "token_revoked", "account_inactive"}
)

log = logger("slack-events")


class SlackSocketReceiver:
    """Maintains a connection to Slack and stores the events received over it."""

    def __init__(self, settings: Settings, events: SlackEvents, *, backoff: Sequence[float] = BACKOFF) -> None:
        if settings.slack_app_token is None:
            raise ConfigurationError("CONCORDANCE_SLACK_APP_TOKEN is not set; docs/slack.md says how to get one.")
        self._token = settings.slack_app_token.get_secret_value()
        self._api_url = settings.slack_api_url
        self._events = events
        self._backoff = backoff
        self._slots = asyncio.Semaphore(CONCURRENCY)
        self.state = SocketState(since=time.time(), reason="The first connection is being opened.")

    async def run(self) -> None:
        """Connect, and reconnect whenever the connection ends, until cancelled."""
        old: SlackConnection | None = None
        failures = 0
        try:
            while True:
                connection = SlackConnection(self._token, self._api_url, self._handle)
                try:
                    async with asyncio.timeout(CONNECT_SECONDS):
                        await connection.open()
                except BaseException as error:
                    await connection.end()
                    # Slack limits an app's connections: closing the old one makes room.
                    old = await _end(old)
                    if not isinstance(error, Exception):
                        raise
                    self._lost(error)
                    await asyncio.sleep(self._backoff[min(failures, len(self._backoff) - 1)])
                    failures += 1
                    continue
                failures = 0
                # The new connection is open before the old one is closed, so that no event is missed.
                await _end(old)
                old = connection
                self.state.connected, self.state.since, self.state.reason = True, time.time(), ""
                self.state.app_id = connection.app_id
                log.info("slack_connected", app_id=connection.app_id)
                await connection.ended.wait()
                log.info("slack_connection_ended", requested=connection.replaceable)
                if not connection.replaceable:
                    self._lost(ConnectionResetError())
        finally:
            await _end(old)

    def _lost(self, error: Exception) -> None:
        reason = _reason(error)
        if self.state.connected or self.state.reason != reason:
            log.warning("slack_not_connected", reason=reason)
        if self.state.connected:
            self.state.connected, self.state.since = False, time.time()
        self.state.reason = reason

    async def observe(self, database: Database) -> None:
        """Let the HTTP service, which judges alerts, know that there is no connection."""
        if self.state.connected:
            return
        try:
            await database.in_thread(
                lambda connection: observe(connection, [Observation("DependencyDown", 0, SUBJECT)])
            )
        except TemporaryError as error:
            log.warning("slack_alert_not_stored", reason=str(error))

    async def _handle(self, connection: SlackConnection, request: SocketModeRequest) -> None:
        """Store an event, then acknowledge it. An event that cannot be stored is not acknowledged."""
        if request.type in {"events_api", "interactive"} and not await self._store(request):
            self.state.failed += 1
            return
        try:
            async with asyncio.timeout(ACKNOWLEDGE_SECONDS):
                await connection.send_socket_mode_response(SocketModeResponse(request.envelope_id))
        except (OSError, RuntimeError, TimeoutError) as error:
            log.info("slack_not_acknowledged", envelope_id=request.envelope_id, reason=type(error).__name__)
            return
        self.state.stored += 1

    async def _store(self, request: SocketModeRequest) -> bool:
        payload: Any = cast("Any", request).payload
        try:
            if request.type == "interactive":
                store = partial(self._events.rate, msgspec.convert(payload, Interaction))
            else:
                store = partial(self._events.process, msgspec.convert(payload, Envelope))
        except msgspec.ValidationError as error:
            log.warning("slack_event_malformed", envelope_id=request.envelope_id, reason=str(error))
            return True  # redelivery would not help
        for wait in (*STORE_RETRY, None):
            try:
                async with self._slots:
                    await store()
            except TemporaryError as error:
                log.warning("slack_event_not_stored", envelope_id=request.envelope_id, reason=str(error))
            else:
                return True
            if wait is not None:
                await asyncio.sleep(wait)
        return False


async def _end(connection: SlackConnection | None) -> None:
    if connection is not None:
        await connection.end()


def _reason(error: Exception) -> str:
    """Return why connecting failed and what to do about it."""
    if isinstance(error, SlackApiError):
        code = str(cast("Any", error).response.get("error") or "no reason given")
        todo = ": put a valid app-level token with the scope connections:write into CONCORDANCE_SLACK_APP_TOKEN"
        return f"Slack refused apps.connections.open ({code}){todo if code in REFUSED else ''}."
    if isinstance(error, TimeoutError):
        return f"Slack did not complete a connection within {CONNECT_SECONDS:.0f} s."
    if isinstance(error, ConcordanceError):
        return str(error)
    return f"Slack could not be reached ({type(error).__name__})."


async def serve(settings: Settings) -> None:
    """Receive events until SIGTERM or SIGINT, and report the state to clients of the Unix socket."""
    database = Database(settings.postgres_dsn, size=1, prepare_threshold=settings.postgres_prepare_threshold)
    receiver = SlackSocketReceiver(settings, SlackEvents(database, Withholding(settings)))
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)

    async def report_state(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            writer.write(line(receiver.state))
            await writer.drain()
        writer.close()

    path = address(settings)
    path.unlink(missing_ok=True)
    observing = Repeated("slack-alert", INTERVAL_SECONDS, partial(receiver.observe, database))
    await database.open()
    observing.start()
    async with await asyncio.start_unix_server(report_state, path):
        receiving = asyncio.create_task(receiver.run())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait({receiving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (receiving, stopping):
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await receiving
    await observing.stop()
    await database.close()


def main() -> int:
    """Receive events until stopped, and return the exit status."""
    try:
        settings = load()
        configure(settings.log_level, "slack-events")
        asyncio.run(serve(settings))
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
