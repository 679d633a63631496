"""Plots of a source's last days: documents that were read, and the longest time between two syncs. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from resources.core.durations import how_long
from serving.web.plots import Plot, Point, plot
from sql.operators import SyncDay

DAYS = 30
LEAST_DAYS = 3
"""Days that make a plot."""
DAY_SECONDS = 86_400.0
"""Longer times are drawn like this, so that one bad day does not flatten the others."""


class Days(NamedTuple):
    """The plots of a source's last days."""

    number: int
    read: Plot
    """Documents by day."""
    gaps: Plot
    """Longest time between two successful syncs by day; days without one, or with a longer time than is usual, are marked."""


def since(now: datetime) -> datetime:
    """Return the beginning of the first day that is shown, in UTC."""
    return datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(DAYS - 1)


def days(found: Sequence[SyncDay], last: datetime | None, now: datetime, late: timedelta) -> Days | None:
    """Return the plots from the first day with a sync, `found` being in order; None if these are too few days.

    `last` is the end of the latest successful sync, and `late` the time between two from which a day is marked.
    """
    if not found or (count := (now.date() - found[0].day).days + 1) < LEAST_DAYS:
        return None
    by_day = {one.day: one for one in found}
    shown = [found[0].day + timedelta(number) for number in range(count)]
    synced = [by_day[day].synced if day in by_day else 0 for day in shown]
    gaps = [by_day[day].gap if day in by_day else None for day in shown]
    gaps[0] = gaps[0] or 0.0  # nothing is known of the time before
    if last is not None:
        gaps[-1] = max(gaps[-1] or 0.0, (now - last).total_seconds())
    bad = [gap is None or gap > late.total_seconds() for gap in gaps]
    longest = f"At most {how_long(max(gap for gap in gaps if gap is not None))} between two syncs"
    return Days(
        count,
        plot(
            [Point(number, f"{day:%d %b}: {number:,} documents") for day, number in zip(shown, synced, strict=True)],
            f"{sum(synced):,} documents in {count} days",
        ),
        plot(
            [
                Point(DAY_SECONDS if gap is None else min(gap, DAY_SECONDS), f"{day:%d %b}: {_words(gap)}", is_bad)
                for day, gap, is_bad in zip(shown, gaps, bad, strict=True)
            ],
            f"{longest}; {sum(bad)} of {count} days were late" if any(bad) else longest,
        ),
    )


def _words(gap: float | None) -> str:
    if gap is None:
        return "no successful sync"
    return f"at most {how_long(gap)} between syncs" if gap else "first sync"
