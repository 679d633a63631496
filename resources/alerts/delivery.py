"""Delivery of notices to the webhook: in order, one attempt at a time in the whole installation, until it is accepted or given up.

A notice stays in Postgres until the webhook answers with 2xx, so one that fails is neither lost nor sent by two processes. One whose
answer is lost is sent again: nobody can know whether it was read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import httpx
import msgspec
import structlog

from resources import http_clients
from resources.core.errors import ConfigurationError
from resources.logging import mask
from resources.stores.postgres import Connection, session
from sql.alerts import Alerts

if TYPE_CHECKING:
    from resources.settings import Settings

DEADLINE_SECONDS = 10.0
"""For the whole call, from the connection to the response's headers; its body is not read."""
PAUSE_SECONDS = 30.0
"""After the first failed attempt; doubled with each, to an hour. Longer than the deadline, so that attempts do not overlap."""
MOST_ATTEMPTS = 30
"""About a day."""
AT_ONCE = 20
"""Notices of one pass."""
LONGEST_PAUSE_SECONDS = 3600.0
"""Longest `Retry-After` that is obeyed."""
CALL_SECONDS = 12.0

log = structlog.get_logger("alerts")
T = TypeVar("T")


class Transacts(Protocol):
    """Runs work on a connection, in a transaction of its own."""

    def __call__(self, work: Callable[[Connection], T]) -> Awaitable[T]:
        """Return what the work returns. Raises `ServiceUnavailableError` if Postgres does not answer."""
        ...


class Outcome(NamedTuple):
    """What came of sending a notice; `seconds`: the webhook asked for that pause."""

    accepted: bool
    reason: str = ""
    seconds: float = 0.0


async def post(url: str, text: str) -> Outcome:
    """Send a text as chat services take it."""
    return await send(url, msgspec.json.encode({"text": mask(text)}), {"content-type": "application/json"})


async def send(url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
    """Send a body. Redirects are not followed, and neither the address nor the response's body is logged or kept."""
    try:
        async with (
            asyncio.timeout(DEADLINE_SECONDS),
            http_clients.outward_async(timeout=DEADLINE_SECONDS) as http,
            http.stream("POST", url, content=body, headers=dict(headers)) as response,
        ):
            if response.is_success:
                return Outcome(accepted=True)
            return Outcome(False, f"status {response.status_code}", _pause(response.headers.get("retry-after", "")))
    except (httpx.HTTPError, ConfigurationError, TimeoutError) as error:
        return Outcome(accepted=False, reason=type(error).__name__)


async def deliver(url: str, transact: Transacts) -> int:
    """Send the notices that are due, the oldest first, until one is not accepted. Returns the number of those accepted.

    Raises `ServiceUnavailableError` if Postgres does not answer.
    """
    for number in range(AT_ONCE):
        notice = await transact(lambda connection: Alerts(connection).claim_notice(pause_seconds=PAUSE_SECONDS))
        if notice is None:
            return number
        attempt = await post(url, notice.text)
        if not attempt.accepted and notice.attempts < MOST_ATTEMPTS:
            log.warning("alert_webhook_failed", reason=attempt.reason, attempts=notice.attempts)
            await transact(partial(_postpone, notice.notice_id, attempt.seconds))
            return number
        if not attempt.accepted:
            log.error("alert_notice_dropped", reason=attempt.reason, attempts=notice.attempts, text=notice.text)
        await transact(partial(_remove, notice.notice_id))
    return AT_ONCE


def deliver_now(settings: Settings, url: str) -> int:
    """Send the notices that are due, from a thread without an event loop. Raises `ServiceUnavailableError`."""

    async def transact(work: Callable[[Connection], T]) -> T:
        with session(settings.postgres_dsn, seconds=CALL_SECONDS) as connection:
            return work(connection)

    return asyncio.run(deliver(url, transact))


def _postpone(notice_id: int, seconds: float, connection: Connection) -> None:
    Alerts(connection).postpone_notice(notice_id=notice_id, seconds=seconds)


def _remove(notice_id: int, connection: Connection) -> None:
    Alerts(connection).remove_notice(notice_id=notice_id)


def _pause(header: str) -> float:
    return min(float(header), LONGEST_PAUSE_SECONDS) if header.isdecimal() else 0.0
