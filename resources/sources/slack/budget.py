"""Budget for rereading what seems unchanged: a fixed number of calls per sync, divided among its channels.

It decides which channels take a turn, and how many threads each may read again.
"""

import random
from collections.abc import Sequence

CALLS = 20
"""Pages of older history, and threads, that one sync reads again beyond what it must."""


class RereadBudget:
    """The turns of one sync. If there are more channels than turns, they are chosen at random, so that none waits for ever."""

    def __init__(self, channels: Sequence[str], calls: int = CALLS, rng: random.Random | None = None) -> None:
        rng = rng or random.Random()  # noqa: S311 - fairness, not secrecy
        self._waiting = set(rng.sample(sorted(channels), calls) if len(channels) > calls else channels)
        self._left = calls

    def share(self, channel: str) -> int:
        """Return how many threads the channel may read again in this sync; 0 if it has no turn."""
        if channel not in self._waiting:
            return 0
        share = -(-self._left // len(self._waiting))
        self._waiting.discard(channel)
        return share

    def has_turn(self, channel: str) -> bool:
        """Return True if the channel's older history is read in this sync; call it before `share`."""
        return channel in self._waiting

    def spend(self, calls: int) -> None:
        """Subtract the calls that a channel used of its share."""
        self._left = max(0, self._left - calls)
