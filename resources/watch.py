"""Detect whether a service is down, from pings and from the calls that are registered here.

A service counts as down only if it has answered neither a ping nor a call for `OUTAGE_SECONDS`. A busy one still answers pings; its
callers are asked to retry, and are never served by a fallback with fewer checks. An unanswered call is ended when the service goes
down, or after the caller's time limit.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

from resources.logging import logger

PATIENCE_SECONDS = 1.0
"""Duration of a call after which the service is pinged."""
OUTAGE_SECONDS = 3.0
"""Time without any answer after which the service is down."""
LOOK_SECONDS = 0.25
"""Interval between checks of active calls, and between pings of a service that does not answer."""
VERDICT_SECONDS = 15.0

log = logger("serving")


class Call:
    """An active call. `cut` is True if it was ended without an answer."""

    __slots__ = ("began", "cut", "hang_up", "limit")

    def __init__(self, hang_up: Callable[[], None], limit: float) -> None:
        self.began = time.monotonic()
        self.hang_up = hang_up
        self.limit = limit
        self.cut = False

    def end(self) -> None:
        """End the call, once."""
        if not self.cut:
            self.cut = True
            self.hang_up()


class Watch:
    """Watches one service. `ping` returns True if the service answers, and must return within a few seconds."""

    def __init__(self, dependency: str, ping: Callable[[], Awaitable[bool]]) -> None:
        self._dependency = dependency
        self._ping = ping
        self._calls: set[Call] = set()
        self._answered_at = time.monotonic()
        self._suspected = asyncio.Event()
        self._known = asyncio.Event()
        self._known.set()
        self._task: asyncio.Task[None] | None = None
        self._on_return: list[Callable[[], Awaitable[None]]] = []
        self.down = False

    def on_return(self, renew: Callable[[], Awaitable[None]]) -> None:
        """Register a callback to run when the service is back, before calls are accepted again."""
        self._on_return.append(renew)

    def start(self) -> None:
        """Start watching. Idempotent."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"watch-{self._dependency}")

    async def stop(self) -> None:
        if self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._known.set()

    @contextmanager
    def call(self, hang_up: Callable[[], None], limit: float) -> Generator[Call]:
        """Register a call for the duration of the block; `hang_up` ends it, after `limit` seconds at the latest."""
        call = Call(hang_up, limit)
        self._calls.add(call)
        try:
            yield call
            self._answered_at = time.monotonic()
        finally:
            self._calls.discard(call)

    def suspect(self) -> None:
        """Ping the service now."""
        if not self.down and self._task is not None:
            self._known.clear()
            self._suspected.set()

    async def answers(self) -> bool:
        """Return True if the service answers a ping; waits at most until it counts as down."""
        self.suspect()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(VERDICT_SECONDS):
                await self._known.wait()
        return not self.down

    async def _run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._suspected.wait()
            except TimeoutError:
                if not self._overdue():
                    continue
            self._suspected.clear()
            try:
                await self._examine()
            except Exception:  # nothing else would start this task again
                log.exception("dependency_not_examined", dependency=self._dependency)
                self._suspected.set()
                await asyncio.sleep(LOOK_SECONDS)

    def _overdue(self) -> bool:
        """End calls beyond their limit. Return True if one has taken long enough for a ping."""
        now = time.monotonic()
        for call in [call for call in self._calls if now - call.began > call.limit]:
            call.end()
        return any(now - call.began > PATIENCE_SECONDS for call in self._calls)

    async def _examine(self) -> None:
        """Ping until the service answers."""
        began = time.monotonic()
        while not await self._ping():
            silent = time.monotonic() - max(began, self._answered_at)
            if not self.down and silent >= OUTAGE_SECONDS:
                self._declare_down()
            self._overdue()
            await asyncio.sleep(LOOK_SECONDS)
        if self.down:
            for renew in self._on_return:
                await renew()
            log.info("dependency_recovered", dependency=self._dependency)
        self.down = False
        self._known.set()

    def _declare_down(self) -> None:
        self.down = True
        log.error("dependency_down", dependency=self._dependency, seconds=OUTAGE_SECONDS)
        for call in list(self._calls):
            call.end()
        self._known.set()
