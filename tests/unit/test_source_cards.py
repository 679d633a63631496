"""What the page of sources says: the state of a source, plots, and the estimate of a first sync."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from serving.http.metrics import Metrics
from serving.sources.cards import MOST_PARTITIONS, card, state
from serving.sources.days import days
from serving.sources.estimates import first_sync
from serving.sources.ledger import LastJob, Partition, Paused, SourceReport, Totals
from serving.sources.service import SourceServices
from serving.web.plots import HEIGHT, Point, plot, searches
from sql.operators import SyncDay
from sql.serving_rows import Figure

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
EVERY = timedelta(minutes=10)
COUNTS = {"live": 3, "skipped": 0, "failed": 0, "lost_access": 0, "held_deletions": 0}


def job(status: str, stage: str | None = None) -> LastJob:
    facts = dict.fromkeys(LastJob.__struct_fields__) | {
        "job_id": "1",
        "status": status,
        "stage": stage,
        "started_at": NOW,
    }
    return LastJob(**cast("dict[str, Any]", facts))


def part(name: str, **more: Any) -> Partition:
    facts = {
        **dict.fromkeys(Partition.__struct_fields__),
        **COUNTS,
        "skipped_reasons": [],
        "failed_reasons": [],
        "notes": [],
        "complete": True,
    }
    return Partition(**cast("dict[str, Any]", facts | {"partition": name} | more))


def report(**more: Any) -> SourceReport:
    facts: dict[str, Any] = {
        "source": "slack",
        "label": "Slack",
        "configured": True,
        "paused": None,
        "last_sync_at": NOW - EVERY,
        "last_job": job("success"),
        "totals": Totals(**COUNTS),
        "partitions": [],
    }
    return SourceReport(**(facts | more))


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "Up to date"),
        ({"configured": False}, "Not set up"),
        ({"last_job": None}, "Not synced yet"),
        ({"last_job": job("running")}, "Syncing"),
        ({"last_job": job("running", "delayed")}, "Delayed"),
        ({"last_job": job("failed")}, "Failed"),
        ({"paused": Paused(NOW, "revoked"), "last_job": job("failed")}, "Paused"),
        ({"last_sync_at": NOW - 4 * EVERY}, "Late"),
        ({"partitions": [part("a", complete=False)]}, "Incomplete"),
        ({"totals": Totals(**(COUNTS | {"held_deletions": 2}))}, "Incomplete"),
        ({"partitions": [part("a", complete=None)]}, "Up to date"),
    ],
)
def test_the_state_of_a_source(facts: dict[str, Any], words: str) -> None:
    assert state(report(**facts), NOW, EVERY).words == words


def test_roots_with_something_to_look_at_come_first_and_none_is_dropped_silently() -> None:
    many = [part(f"{number:03}") for number in range(MOST_PARTITIONS)]
    shown = card(report(partitions=[*many, part("z", failed=1)]), None, [], [], [], NOW, EVERY)
    assert shown.partitions[0].partition == "z"
    assert (len(shown.partitions), shown.hidden) == (MOST_PARTITIONS, 1)


@pytest.mark.parametrize(
    ("source", "one", "several"),
    [
        ("slack", "1 channel", "1,200 channels"),
        ("google_drive", "1 drive or folder", "1,200 drives and folders"),
        ("upload", "1 day", "1,200 days"),
        ("push", "1 source", "1,200 sources"),
        ("files", "1 folder", "1,200 folders"),
        ("of_a_package_that_is_gone", "1 folder", "1,200 folders"),
    ],
)
def test_partitions_are_called_what_their_source_calls_them(source: str, one: str, several: str) -> None:
    def parts(count: int) -> str:
        found = report(source=source, partitions=[part(str(number)) for number in range(count)])
        return card(found, None, [], [], [], NOW, EVERY).parts

    assert (parts(1), parts(1200)) == (one, several)


def test_bars_are_in_proportion() -> None:
    drawn = plot([Point(0, "a"), Point(5, "b"), Point(10, "c", bad=True)], "words")
    assert [round(one.height, 1) for one in drawn.bars] == [1.5, HEIGHT / 2, HEIGHT]
    assert all(one.y + one.height == HEIGHT for one in drawn.bars)
    assert plot([], "nothing").width == 1


def test_searches_are_told_from_the_metrics() -> None:
    metrics = Metrics()
    assert searches(metrics.families()) is None
    for seconds, cached in ((0.004, False), (0.004, True), (0.004, True), (0.09, False)):
        metrics.searched(mode="hybrid", cached=cached, seconds=seconds, results=1, warnings=[])
    found = searches(metrics.families())
    assert found is not None
    assert (found.total, found.cached) == (4, 0.5)
    assert found.plot.summary == "Half of the searches took at most 5 ms, 95 of 100 took at most 100 ms."
    metrics.searched(mode="hybrid", cached=False, seconds=60, results=1, warnings=[])
    found = searches(metrics.families())
    assert found is not None
    assert found.slowest == "more than 10 s"


def test_a_first_sync_is_extrapolated_from_past_ones() -> None:
    totals = [
        Figure("sync_documents", "files", "synced", 100.0),
        Figure("sync_documents", "files", "skipped", 900.0),
        Figure("sync_seconds_sum", "files", "", 50.0),
        Figure("chunks_embedded", "files", "", 400.0),
        Figure("embedding_tokens", "", "m", 40_000.0),
        Figure("embedding_cost", "", "m", 2.0),
    ]
    monitor = SimpleNamespace(totals=totals, passages_per_document=4.0)
    found = first_sync(1000, 5, cast("SourceServices", SimpleNamespace(http=SimpleNamespace(monitor=monitor))))
    assert (found.passages, found.tokens, found.cost_usd, found.time) == (4000, 400_000, 20.0, "8 min")
    monitor.totals = []
    assert (
        first_sync(1000, 5, cast("SourceServices", SimpleNamespace(http=SimpleNamespace(monitor=monitor)))).time is None
    )


def test_days_without_a_sync_and_a_sync_that_is_overdue_are_marked() -> None:
    today = NOW.date()
    found = [
        SyncDay("slack", today - timedelta(3), 1200, None),
        SyncDay("slack", today - timedelta(2), 10, 900.0),
        SyncDay("slack", today, 5, 600.0),
    ]
    shown = days(found, NOW - timedelta(hours=2), NOW, 3 * EVERY)
    assert shown is not None
    assert (shown.number, shown.read.summary) == (4, "1,215 documents in 4 days")
    assert [one.bad for one in shown.gaps.bars] == [False, False, True, True]
    assert shown.gaps.summary == "At most 2.0 h between two syncs; 2 of 4 days were late"
    assert [one.title.partition(": ")[2] for one in shown.gaps.bars] == [
        "first sync",
        "at most 15 min between syncs",
        "no successful sync",
        "at most 2.0 h between syncs",
    ]
    assert shown.gaps.bars[2].height == HEIGHT


def test_a_few_days_make_no_plot() -> None:
    assert days([], None, NOW, EVERY) is None
    assert days([SyncDay("slack", NOW.date() - timedelta(1), 1, None)], NOW, NOW, EVERY) is None
