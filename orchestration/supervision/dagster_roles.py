"""Current roles in Dagster of people who opened it by signing in, read from the HTTP interface.

A role is read again every minute, so that people who sign out, are off-boarded or lose a role lose Dagster within that time.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import httpx
import msgspec

from resources import http_clients
from resources.core.errors import ServiceUnavailableError
from resources.dagster_access import Role

CHECK_SECONDS = 60.0
GRACE_SECONDS = 300.0
"""While the HTTP interface does not answer (it is being restarted, for example), its last answer holds for this long."""
RETRY_SECONDS = 5.0
TIMEOUT_SECONDS = 10.0

Ask = Callable[[str], Awaitable[Role | None]]
"""Returns the role of a session's cookie, None if it is over. Raises `ServiceUnavailableError`."""


class _Answer(msgspec.Struct):
    role: Role


@dataclass
class _CachedRole:
    """The latest known role of a session, when to read it again and until when it holds otherwise."""

    role: Role | None = None
    due: float = 0.0
    until: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class RoleCache:
    """Cached roles of the sessions that this process has seen."""

    def __init__(self, ask: Ask, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._known: dict[str, _CachedRole] = {}

    async def role(self, cookie: str) -> Role | None:
        """Return the role of a session; None if it is over. Raises `ServiceUnavailableError`."""
        if cookie not in self._known:
            now = self._clock()
            self._known = {name: one for name, one in self._known.items() if one.until > now or one.lock.locked()}
        known = self._known.setdefault(cookie, _CachedRole())
        async with known.lock:
            now = self._clock()
            if now >= known.due:
                try:
                    known.role = await self._ask(cookie)
                except ServiceUnavailableError:
                    if now >= known.until:
                        raise
                    known.due = now + RETRY_SECONDS
                else:
                    known.due, known.until = now + CHECK_SECONDS, now + GRACE_SECONDS
            return known.role


def role_reader(address: str) -> Ask:
    """Return a function that reads roles from the HTTP interface at this address."""
    client = http_clients.own_async(address, timeout=TIMEOUT_SECONDS)

    async def ask(cookie: str) -> Role | None:
        try:
            answer = await client.get("/dagster/rights", headers={"Authorization": f"Bearer {cookie}"})
            if answer.status_code in (401, 403):
                return None
            return msgspec.json.decode(answer.raise_for_status().content, type=_Answer).role
        except (httpx.HTTPError, msgspec.MsgspecError) as error:
            raise ServiceUnavailableError(f"The HTTP interface does not answer at {address}.") from error

    return ask
