"""Rate limits per caller, over all processes of the service."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

from resources.servers.shared import DIGEST_BYTES, Shared

_SETS, _WAYS = 1024, 16
_SLOT = struct.Struct("=16sdd")
_VALUES = struct.Struct("=dd")


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
        key = self._buckets.key(caller)
        with self._buckets.lock:
            now = self._clock()
            left, since = self._buckets.get(key) or (self._capacity, now)
            left = min(self._capacity, left + max(0.0, now - since) * self._rate)
            granted = left >= 1
            self._buckets.put(key, left - 1 if granted else left, now)
        return 0.0 if granted else (1 - left) / self._rate

    def give_back(self, caller: str) -> None:
        key = self._buckets.key(caller)
        with self._buckets.lock:
            found = self._buckets.get(key)
            if found is not None:
                self._buckets.put(key, found[0] + 1, found[1])
