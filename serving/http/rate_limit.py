"""Rate limits per caller: of the processes of one machine, and with Postgres of all machines."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from resources.core.errors import TemporaryError
from resources.rates import Rate, bucket
from resources.rates.ahead import Order, TakenAhead
from resources.servers.shared import DIGEST_BYTES, Shared
from serving.http.rate_headers import Spent, spend
from sql.family import RunsStatements
from sql.rates import RateReads

_SETS, _WAYS = 1024, 16
_SLOT = struct.Struct("=16sdd")
_VALUES = struct.Struct("=dd")

DEADLINE_SECONDS = 0.5
"""Longest wait for Postgres; after it the machine's own limit decides."""
PAUSE_SECONDS = 1.0
"""After a failure Postgres is not asked for this long, so that a server that hangs does not delay each request."""


class Recent:
    """Two numbers for each of some 10,000 keys, the second of them the time of their last use.

    A key can be in 16 slots; if all of them are taken, it replaces the one that was used least recently.
    """

    def __init__(self, shared: Shared, name: str) -> None:
        self.lock = shared.region(name, _SETS * _WAYS * _SLOT.size)
        self._memory = self.lock.memory
        self._digest = shared.digest

    def key(self, text: str) -> bytes:
        return self._digest(text)

    def get(self, key: bytes) -> tuple[float, float] | None:
        """Return the numbers of a key. Hold the lock."""
        at = self._find(key)
        return None if at is None else _VALUES.unpack_from(self._memory, at + DIGEST_BYTES)

    def put(self, key: bytes, value: float, used: float) -> None:
        """Store the numbers of a key. Hold the lock."""
        at = self._find(key)
        if at is None:
            start = self._start(key)
            slots = enumerate(_SLOT.iter_unpack(self._memory[start : start + _WAYS * _SLOT.size]))
            at = start + min(slots, key=lambda slot: (any(slot[1][0]), slot[1][2]))[0] * _SLOT.size
        _SLOT.pack_into(self._memory, at, key, value, used)

    def remove(self, key: bytes) -> None:
        """Forget a key. Hold the lock."""
        at = self._find(key)
        if at is not None:
            self._memory[at : at + _SLOT.size] = bytes(_SLOT.size)

    def _start(self, key: bytes) -> int:
        return int.from_bytes(key[:8], "little") % _SETS * _WAYS * _SLOT.size

    def _find(self, key: bytes) -> int | None:
        start = self._start(key)
        at = self._memory.find(key, start, start + _WAYS * _SLOT.size)
        return at if at >= 0 and (at - start) % _SLOT.size == 0 else None


class Left(NamedTuple):
    """What a use has left of a bucket."""

    wait: float
    """Seconds until there is a token; 0 if one was taken."""
    tokens: int
    seconds: float
    """Seconds until the bucket is full again, or holds a token if it has none."""


class RateLimit:
    """A token bucket for each caller (an email or an address), holding `most` tokens and refilled evenly within `seconds`."""

    def __init__(
        self, most: int, shared: Shared, name: str, clock: Callable[[], float] = time.monotonic, seconds: float = 60
    ) -> None:
        """`clock` is the same for all processes of a machine, as the monotonic one is."""
        self._capacity = float(most)
        self._rate = most / seconds
        self._clock = clock
        self._buckets = Recent(shared, f"rate {name}")

    def take(self, caller: str) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        return self.spend(caller).wait

    def spend(self, caller: str) -> Left:
        """Take one token if there is one, and return what is left."""
        key = self._buckets.key(caller)
        with self._buckets.lock:
            now = self._clock()
            left, since = self._buckets.get(key) or (self._capacity, now)
            left = min(self._capacity, left + max(0.0, now - since) * self._rate)
            granted = left >= 1
            self._buckets.put(key, left - 1 if granted else left, now)
        if granted:
            after = left - 1
            return Left(0.0, int(after), ((self._capacity if after >= 1 else 1) - after) / self._rate)
        return Left((1 - left) / self._rate, 0, (1 - left) / self._rate)

    def give_back(self, caller: str) -> None:
        key = self._buckets.key(caller)
        with self._buckets.lock:
            found = self._buckets.get(key)
            if found is not None:
                self._buckets.put(key, found[0] + 1, found[1])


class CallerLimits:
    """Makes the limits of callers that hold for all machines, or without a database for this one."""

    def __init__(self, shared: Shared, database: RunsStatements | None = None, key: str = "") -> None:
        """`key` makes the names of buckets; every machine has the same."""
        self._shared = shared
        self._buckets = None if database is None else _Buckets(database, key)

    def limit(self, most: int, name: str, seconds: float = 60, *, local: bool = False) -> CallerLimit:
        """Return a limit of this many requests of each caller, all at once or evenly within `seconds`. `local`: of this machine alone."""
        own = RateLimit(most, self._shared, name, seconds=seconds)
        return CallerLimit(own, name, CallerRate(most, seconds), None if local else self._buckets)


class CallerRate(NamedTuple):
    """A rate: this many requests within some seconds."""

    most: int
    seconds: float


class CallerLimit:
    """A token bucket for each caller, shared by all processes that use one database.

    The machine's own bucket refuses first, and decides alone while Postgres does not answer in time.
    """

    def __init__(self, own: RateLimit, name: str, window: CallerRate, buckets: _Buckets | None) -> None:
        self._own = own
        self._name = name
        self._window = window
        self._rate = Rate.within(window.most, window.seconds)
        self._buckets = buckets
        self._shares = TakenAhead(window.most)

    async def take_shown(self, caller: str) -> float:
        """Do as `take` does, and say in the headers of the response what is left."""
        left = self._own.spend(caller)
        wait = await self._take(caller, left.wait)
        if wait > left.wait:  # other machines have used the rest
            left = Left(wait, 0, wait)
        spend(Spent(self._name, self._window.most, int(self._window.seconds), left.tokens, left.seconds))
        return wait

    async def take(self, caller: str) -> float:
        """Take one token and return 0, or return the seconds until one is available."""
        return await self._take(caller, self._own.take(caller))

    async def _take(self, caller: str, wait: float) -> float:
        if wait > 0 or self._buckets is None:
            return wait
        name = self._buckets.name(self._name, caller)
        found = self._shares.take(name)
        if found is None:
            found = await self._buckets.take(name, self._rate, self._shares)
        if found > 0:
            self._own.give_back(caller)
        return found

    def give_back(self, caller: str) -> None:
        """Return a token that was taken for nothing. The next uses of this process get it."""
        self._own.give_back(caller)
        if self._buckets is not None:
            self._shares.put_back(self._buckets.name(self._name, caller))


class _Buckets:
    """The shared buckets, while Postgres answers."""

    def __init__(self, database: RunsStatements, key: str) -> None:
        self._reads = RateReads(database)
        self._key = key
        self._paused_until = float("-inf")

    def name(self, limit: str, caller: str) -> bytes:
        return bucket(self._key, "limit", limit, caller)

    async def take(self, name: bytes, rate: Rate, shares: TakenAhead) -> float:
        """Take tokens into `shares` and return the seconds to wait; 0 if Postgres does not say."""
        if time.monotonic() < self._paused_until:
            return 0.0
        order = shares.order(name)
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                return await self._ask(name, rate, shares, order)
        except (TemporaryError, TimeoutError):
            self._paused_until = time.monotonic() + PAUSE_SECONDS
            return 0.0

    async def _ask(self, name: bytes, rate: Rate, shares: TakenAhead, order: Order) -> float:
        answered = False
        try:
            taken = await self._reads.take(
                bucket=name, most=rate.most, a_second=rate.a_second, wanted=order.wanted, returned=order.returned
            )
            answered = taken is not None
            return shares.took(name, taken.granted, taken.seconds) if taken is not None else 0.0
        finally:
            if not answered:
                shares.failed(name)
