"""A channel's history, read backwards: pages leave that say everything about their range of time.

A page ends where no window of messages runs over its edge; what lies beyond is kept for the next page. So each page can be
settled by itself, saved, and gone on from after a crash, by time instead of by Slack's page cursor, which may have expired.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from resources.sources.slack.client import Client
from resources.sources.slack.ledger import Ledger
from resources.sources.slack.messages import is_reply, is_root
from resources.sources.slack.windows import clean_cut, micros, stamp


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """All messages of `low` ≤ time < `high` that stand in the channel itself, ascending, as Slack sends them."""

    messages: list[dict[str, Any]]
    low: int
    high: int | None
    last: bool
    """Whether nothing older is left in the range that was asked for."""

    @property
    def newest(self) -> int:
        """The time of the last message, 0 when there is none."""
        return micros(self.messages[-1]["ts"]) if self.messages else 0


def pages(
    client: Client, ledger: Ledger, channel: str, *, gap: int, high: int | None = None, low: int = 0
) -> Iterator[Page]:
    """Yield the pages of `low` ≤ time < `high`, the newest first. No known window may run over `low` or `high`."""
    kept: list[dict[str, Any]] = []
    oldest = stamp(low - 1) if low > 0 else None
    latest = None if high is None else stamp(high)
    while True:
        found, more = client.history(channel, latest=latest, oldest=oldest)
        found = [*found, *kept]
        if not more:
            yield Page(messages=found, low=low, high=high, last=True)
            return
        latest = str(found[0]["ts"])
        times = [(micros(raw["ts"]), not is_root(raw)) for raw in found if not is_reply(raw)]
        cut = clean_cut(times, ledger.around(times[0][0], high), gap) if times else None
        if cut is None:
            kept = found
            continue
        edge = times[cut][0]
        kept = [raw for raw in found if micros(raw["ts"]) < edge]
        yield Page(messages=found[len(kept) :], low=edge, high=high, last=False)
        high = edge
