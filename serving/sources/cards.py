"""Cards of the page of sources, one for each source. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, TypeVar

from resources.core.durations import age_of
from resources.sources import unit
from resources.syncs.progress import DELAYED
from serving.sources.days import Days, days
from serving.sources.ledger import Partition, SourceReport
from serving.web.plots import Plot, Point, plot
from sql.operators import RecentSync, SyncDay
from sql.rows import JobError

Row = TypeVar("Row", RecentSync, SyncDay)
LATE_AFTER = 3
"""Scheduled syncs that may be missed before a source is called late."""
MOST_PARTITIONS = 100
MOST_REFUSED = 20
UNSUPPORTED = "unsupported"
SUPPORTED = " Supported: "
"""Begins the list of types at the end of a reason, which need not be repeated."""
NOTES = {
    "hidden": "have hidden parts, which are left out",
    "not_read": "have parts or attachments that could not be read",
    "no_text": "have pages without text that can be read",
    "decoding": "were decoded by a guess of their encoding",
    "removed": "had headers and footers, which were left out",
    "formulas": "have formulas without a result",
    "structure": "were read as plain text",
    "other": "have other notes",
}
"""Kinds of the parser's notes, as the end of a sentence about documents."""
LEAST_SYNCS = 3
"""Syncs that make a plot."""


class Badge(NamedTuple):
    """A source's state: its words, and the class of its badge."""

    words: str
    kind: str


class Card(NamedTuple):
    """A source as the page shows it."""

    report: SourceReport
    state: Badge
    progress: str | None
    """How far the running sync is; None if none runs."""
    share: float | None
    """Share of the running sync's documents that are done, 0 to 1."""
    partitions: Sequence[Partition]
    """Roots or channels, those with something to look at first."""
    hidden: int
    """Roots or channels that are not shown."""
    refused: Sequence[tuple[str, int]]
    """Why files of some types are not read, and how many there are, the most frequent first."""
    notes: Sequence[tuple[str, int]]
    """Kinds of the parser's notes in words, and how many documents have some, the most frequent first."""
    checked: str | None
    """How long ago the permissions of the stalest root or channel were read."""
    syncs: Plot | None
    days: Days | None
    run: str | None
    """Dagster's run of the running or latest sync."""
    errors: Sequence[JobError]

    @property
    def parts(self) -> str:
        """How many partitions there are, in the source's words."""
        count = len(self.partitions) + self.hidden
        return f"{count:,} {unit(self.report.source, count)}"

    @property
    def running(self) -> bool:
        return self.report.last_job is not None and self.report.last_job.status == "running"


class Running(NamedTuple):
    """Progress of a running sync."""

    words: str
    done: int
    documents: int


def card(
    report: SourceReport,
    running: Running | None,
    recent: Sequence[RecentSync],
    by_day: Sequence[SyncDay],
    errors: Sequence[JobError],
    now: datetime,
    every: timedelta,
) -> Card:
    """Return the card of a source; `every` is the time between scheduled syncs."""
    partitions = sorted(report.partitions or (), key=_calm)
    checks = [one.acl_checked_at for one in partitions if one.acl_checked_at is not None]
    return Card(
        report,
        state(report, now, every),
        running.words if running else None,
        running.done / running.documents if running and running.documents else None,
        partitions[:MOST_PARTITIONS],
        max(0, len(partitions) - MOST_PARTITIONS),
        _refused(partitions),
        _notes(partitions),
        age_of(min(checks), now) if checks else None,
        _syncs(recent) if len(recent) >= LEAST_SYNCS else None,
        days(by_day, report.last_sync_at, now, LATE_AFTER * every),
        recent[-1].run_id if recent else None,
        errors,
    )


def state(report: SourceReport, now: datetime, every: timedelta) -> Badge:
    """Return a source's state, its worst first."""
    job = report.last_job
    if not report.configured:
        return Badge("Not set up", "")
    if report.paused is not None:
        return Badge("Paused", "bad")
    if job is None:
        return Badge("Not synced yet", "")
    if job.status == "running":
        return Badge("Delayed", "warn") if job.stage == DELAYED else Badge("Syncing", "good")
    if job.status == "failed":
        return Badge("Failed", "bad")
    if report.last_sync_at is not None and now - report.last_sync_at > LATE_AFTER * every:
        return Badge("Late", "warn")
    if report.totals.held_deletions or any(one.complete is False for one in report.partitions or ()):
        return Badge("Incomplete", "warn")
    return Badge("Up to date", "good")


def by_source(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for one in rows:
        found.setdefault(one.source, []).append(one)
    return found


def _calm(one: Partition) -> tuple[bool, str]:
    """Order partitions: those with something to look at first, then by name."""
    calm = one.complete is not False and one.lost_at is None and not (one.failed or one.held_deletions)
    return calm, (one.title or one.partition).casefold()


def _refused(partitions: Sequence[Partition]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for one in partitions:
        for skipped in one.skipped_reasons:
            if skipped.kind == UNSUPPORTED:
                counts[(skipped.reason or "Their types are not supported.").partition(SUPPORTED)[0]] += skipped.count
    return counts.most_common(MOST_REFUSED)


def _notes(partitions: Sequence[Partition]) -> list[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for one in partitions:
        counts.update({note.kind: note.count for note in one.notes})
    return [(NOTES.get(kind, kind), count) for kind, count in counts.most_common()]


def _syncs(recent: Sequence[RecentSync]) -> Plot:
    points = [
        Point(
            one.synced,
            f"{one.started_at:%d %b %H:%M} UTC: {one.synced:,} documents in {one.seconds:.0f} s"
            + ("" if one.status != "failed" else ", failed"),
            bad=one.status == "failed",
        )
        for one in recent
    ]
    failed = sum(one.bad for one in points)
    total = sum(one.synced for one in recent)
    words = f"{total:,} documents in the last {len(recent)} syncs"
    return plot(points, f"{words}; {failed} failed" if failed else words)
