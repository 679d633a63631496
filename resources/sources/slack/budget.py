"""How the calls that nobody asked for are shared out: looking again at what seems unchanged, so much in one sync and no more.

The channels of a sync enter; which of them take a turn leaves, and how many threads each may read again.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

CALLS = 20
"""Pages of older history, and threads, that one sync looks at again beyond what it must."""


class Budget:
    """The turns of one sync. With more channels than turns chance decides, so that none waits for ever."""

    def __init__(self, channels: Sequence[str], calls: int = CALLS, dice: random.Random | None = None) -> None:
        dice = dice or random.Random()  # noqa: S311 - fairness, not secrecy
        self._waiting = set(dice.sample(sorted(channels), calls) if len(channels) > calls else channels)
        self._left = calls

    def share(self, channel: str) -> int:
        """Return how many threads the channel may read again, once a sync; 0 when it has no turn."""
        if channel not in self._waiting:
            return 0
        share = -(-self._left // len(self._waiting))
        self._waiting.discard(channel)
        return share

    def has_turn(self, channel: str) -> bool:
        """Whether the channel's older history is looked at in this sync; ask before its `share`."""
        return channel in self._waiting

    def spend(self, calls: int) -> None:
        """Take away what a channel used of its share."""
        self._left = max(0, self._left - calls)
