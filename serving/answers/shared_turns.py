"""A limit on concurrent calls of a language model over all machines, on top of the queue of each (`turns`).

A turn is a lease in Postgres that its holder renews, so that of a process that was killed is free soon. Without Postgres each machine
keeps the limit by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

from resources.core.errors import TemporaryError
from sql.family import RunsStatements
from sql.rates import RateReads

LEASE_SECONDS = 15.0
RENEW_SECONDS = 4.0
LOOK_SECONDS = 0.1
"""Between two attempts to take a turn."""
DEADLINE_SECONDS = 1.0
"""Longest wait for Postgres at each statement."""


class SharedTurns:
    """Lets `limit` calls of one model run at a time, on all machines that use one database."""

    def __init__(self, database: RunsStatements, model: bytes, limit: int) -> None:
        self._reads = RateReads(database)
        self._model = model
        self._limit = limit

    @asynccontextmanager
    async def turn(self, deadline: float) -> AsyncGenerator[None]:
        """Wait for a turn until the deadline, on the clock of the event loop, and hold it. Raises `TimeoutError`."""
        holder = str(uuid4())
        async with asyncio.timeout_at(deadline):
            held = await self._wait(holder)
        if not held:
            yield
            return
        renewal = asyncio.create_task(self._renew(holder))
        try:
            yield
        finally:
            renewal.cancel()
            await self._leave(holder)

    async def _wait(self, holder: str) -> bool:
        """Take a turn and return True, or return False if Postgres does not answer."""
        try:
            while not await self._take(holder):  # noqa: ASYNC110 (the event is on another machine)
                await asyncio.sleep(LOOK_SECONDS)
        except TemporaryError:
            return False
        except BaseException:  # cancelled, perhaps while it was given a turn
            await self._leave(holder)
            raise
        return True

    async def _take(self, holder: str) -> bool | None:
        """Take or renew a turn. Raises `TemporaryError`, also if Postgres does not answer in time."""
        taking = self._reads.take_turn(model=self._model, holder=holder, most=self._limit, seconds=LEASE_SECONDS)
        try:
            return await asyncio.wait_for(taking, DEADLINE_SECONDS)
        except TimeoutError as error:
            raise TemporaryError("Postgres does not answer in time.") from error

    async def _renew(self, holder: str) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with contextlib.suppress(TemporaryError):
                await self._take(holder)

    async def _leave(self, holder: str) -> None:
        """Give the turn back. If that fails, it ends by its time."""
        with contextlib.suppress(TemporaryError, TimeoutError):
            await asyncio.wait_for(self._reads.leave_turn(model=self._model, holder=holder), DEADLINE_SECONDS)
