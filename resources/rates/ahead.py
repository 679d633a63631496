"""Tokens that one process has taken in advance from buckets that all processes share.

A process that uses many tokens of a bucket takes several at a time, so that most uses need no statement. No token is used that was not
taken before, so all processes together never use more than the bucket gave. A token is kept for `KEPT_SECONDS`, then it is given back
with the next statement.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

KEPT_SECONDS = 10.0
LARGEST = 50
"""Tokens taken at a time."""
PART = 20
"""At most this part of what a bucket holds is taken at a time."""
BUCKETS = 10_000
"""Buckets remembered; beyond, the one that was used least recently is forgotten with its tokens."""


class Order(NamedTuple):
    """What the next statement takes and gives back."""

    wanted: int
    returned: int


class _Share:
    """The tokens left, how many were taken the last time, how long they are kept, and until when the bucket has none."""

    __slots__ = ("asking", "left", "refused_until", "taken", "until")

    def __init__(self) -> None:
        self.left, self.taken, self.asking = 0, 1, 0
        self.until = self.refused_until = float("-inf")


class TakenAhead:
    """The tokens of one process, for one thread at a time. `clock` is monotonic, in seconds."""

    def __init__(self, most: float, clock: Callable[[], float] = time.monotonic) -> None:
        """`most` is what a bucket holds."""
        self._largest = max(1, min(LARGEST, int(most // PART)))
        self._clock = clock
        self._shares: OrderedDict[bytes, _Share] = OrderedDict()

    def take(self, bucket: bytes) -> float | None:
        """Use a token that was taken before and return 0. Return the seconds to wait if the bucket is known to have none, or None."""
        share = self._shares.get(bucket)
        if share is None:
            return None
        now = self._clock()
        if share.left > 0 and now < share.until:
            share.left -= 1
            return 0.0
        return share.refused_until - now if now < share.refused_until else None

    def order(self, bucket: bytes) -> Order:
        """Return what to take from the bucket. Call `took` or `failed` afterwards."""
        share = self._shares.setdefault(bucket, _Share())
        self._shares.move_to_end(bucket)
        if len(self._shares) > BUCKETS:
            self._shares.popitem(last=False)
        recent = self._clock() < share.until
        returned = 0 if recent else share.left
        share.left -= returned
        # calls at the same time take one each, so that the first ones leave some for the others
        share.taken = min(self._largest, 2 * share.taken) if recent else 1
        share.asking += 1
        return Order(share.taken if share.asking == 1 else 1, returned)

    def took(self, bucket: bytes, granted: int, seconds: float) -> float:
        """Use one of the tokens that were taken and return 0, or return the seconds until there is one."""
        share = self._shares.setdefault(bucket, _Share())
        share.asking = max(0, share.asking - 1)
        if granted:
            self.put_back(bucket, granted - 1)
            return 0.0
        if share.left and self._clock() < share.until:  # another call has taken several meanwhile
            share.left -= 1
            return 0.0
        share.refused_until = self._clock() + seconds
        return seconds

    def failed(self, bucket: bytes) -> None:
        """Record that the statement of an order failed."""
        share = self._shares.get(bucket)
        if share is not None:
            share.asking = max(0, share.asking - 1)

    def put_back(self, bucket: bytes, tokens: int = 1) -> None:
        """Keep tokens for later uses."""
        share = self._shares.setdefault(bucket, _Share())
        share.left += tokens
        share.until = self._clock() + KEPT_SECONDS
        if tokens:
            share.refused_until = float("-inf")
