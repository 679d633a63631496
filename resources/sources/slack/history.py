"""Read a channel's history backwards, in pages that are complete for their time range.

A page ends where no window of messages crosses its edge; messages beyond are kept for the next page. So each page can be processed
and saved on its own, and after a crash reading resumes by time instead of by Slack's page cursor, which may have expired.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from resources.sources.slack.client import FOREVER, SlackClient
from resources.sources.slack.ledger import Ledger
from resources.sources.slack.messages import is_reply, is_root
from resources.sources.slack.windows import clean_cut, micros, stamp


class HistoryPage(msgspec.Struct, frozen=True, kw_only=True):
    """All messages with `low` ≤ time < `high` in the channel itself, ascending, in Slack's format."""

    messages: list[dict[str, Any]]
    low: int
    high: int | None
    last: bool
    """True if nothing older is left in the requested range."""
    hidden: bool = False
    """True if the range ends here because Slack hides what is older."""

    @property
    def newest(self) -> int:
        """Time of the last message, or 0."""
        return micros(self.messages[-1]["ts"]) if self.messages else 0


def pages(
    client: SlackClient,
    ledger: Ledger,
    channel: str,
    *,
    gap: int,
    high: int | None = None,
    low: int = 0,
    drop_hidden: bool = False,
) -> Iterator[HistoryPage]:
    """Yield the pages of `low` ≤ time < `high`, newest first. No known window may cross `low` or `high`.

    What the workspace's plan hides, and a window that begins there, is on no page; with `drop_hidden` the last page extends to `low`, so
    that it counts as deleted.
    """
    kept: list[dict[str, Any]] = []
    oldest = stamp(low - 1) if low > 0 else None
    latest = None if high is None else stamp(high)
    while True:
        older, more = client.history(channel, latest=latest, oldest=oldest)
        found = [*older, *kept]
        hidden = more and not older
        if hidden and not drop_hidden:
            edge = micros(str(found[0]["ts"])) if found else micros(FOREVER) if high is None else high
            low = max([edge, *(window.last + 1 for window in ledger.around(edge, edge))])
            found = [raw for raw in found if micros(raw["ts"]) >= low]
        if hidden or not more:
            yield HistoryPage(messages=found, low=low, high=high, last=True, hidden=hidden)
            return
        latest = str(found[0]["ts"])
        times = [(micros(raw["ts"]), not is_root(raw)) for raw in found if not is_reply(raw)]
        cut = clean_cut(times, ledger.around(times[0][0], high), gap) if times else None
        if cut is None:
            kept = found
            continue
        edge = times[cut][0]
        kept = [raw for raw in found if micros(raw["ts"]) < edge]
        yield HistoryPage(messages=found[len(kept) :], low=edge, high=high, last=False)
        high = edge
