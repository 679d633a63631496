"""Alerts: each rule just below and above its limit, one notice per change in the whole installation, and a webhook that fails."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest
from pydantic import SecretStr

from orchestration.cli import run
from resources.alerts import alert, delivery, states
from resources.alerts.delivery import MOST_ATTEMPTS, PAUSE_SECONDS, deliver_now
from resources.alerts.rules import RULES, Observation
from resources.alerts.states import CLEAR_SECONDS, MOST_NOTICES, judge
from resources.core.breaker import UnresponsiveError
from resources.core.errors import ConfigurationError, RetryLaterError, ServiceUnavailableError
from resources.settings import Settings
from resources.stores.postgres import session
from serving.answers.metrics import KINDS, AnswerMetrics
from serving.http import alerting
from serving.http.alerting import Alerting, Outage, figures_of_syncs
from serving.http.database import Database
from serving.http.latency import (
    FEW_ANSWERS,
    FEW_REQUESTS,
    WINDOW_SECONDS,
    RecentLatency,
    RecentShare,
    model_answers,
    quantile,
    requests,
)
from serving.http.metrics import Metrics
from sql.alerts import Alerts, AlertState
from sql.serving import WebReads
from sql.serving_rows import Figure
from sql.sync import Jobs
from tests.fixtures.installation import Installation
from tests.fixtures.serving import Site
from tests.fixtures.upkeep import as_environment
from tests.fixtures.waiting import until
from tests.fixtures.webhook import Webhook

REPEAT = 4 * 3600.0
CANARY = "Payroll of Ann Miller"
EDGES: dict[str, tuple[float, float]] = {
    "SearchSlow": (300, 300.1),
    "ServerErrors": (0.05, 0.051),
    "ModelFails": (0.1, 0.101),
    "DependencyDown": (1, 0),
    "SyncsFail": (0.95, 0.949),
    "SyncsFailInARow": (2, 3),
    "DocumentsFail": (0.05, 0.051),
    "ManyDocumentsFail": (0.10, 0.101),
    "RetriesFail": (0.10, 0.101),
    "SyncOverdue": (3600, 3601),
    "IndexFilling": (0.8, 0.801),
    "EmbeddingBudget": (0.8, 0.801),
    "DiskFilling": (0.2, 0.199),
    "DiskUnwritable": (1, 0),
}
"""For each rule: a figure just within its limit, and one just past it."""


class Judge:
    """Judges on a database of its own, in which the time can be moved."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def __call__(self, *observed: Observation, repeat: float = REPEAT) -> list[AlertState]:
        with session(self.dsn) as connection:
            return judge(connection, observed, repeat_seconds=repeat, notify=True)

    def later(self, seconds: float) -> None:
        """Move everything that has happened into the past."""
        with psycopg.connect(self.dsn) as connection:
            for column in ("since", "seen_at", "fired_at", "noticed_at", "resolved_at"):
                connection.execute(
                    f"UPDATE alerts SET {column} = {column} - %s * interval '1 second'",  # noqa: S608 (a name of ours)
                    (seconds,),
                )

    def holds(self, seconds: float, *observed: Observation) -> list[AlertState]:
        """Judge twice a minute for that long."""
        changed = self(*observed)
        for passed in range(0, round(seconds), 30):
            self.later(min(30.0, seconds - passed))
            changed += self(*observed)
        return changed

    def notices(self) -> list[str]:
        with psycopg.connect(self.dsn) as connection:
            return [row[0] for row in connection.execute("SELECT text FROM alert_notices ORDER BY notice_id")]


@pytest.fixture
def judging(database: str) -> Judge:
    return Judge(database)


def test_every_rule_has_edges_here() -> None:
    assert set(EDGES) == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_a_rule_fires_just_past_its_limit_and_after_its_time(judging: Judge, name: str) -> None:
    rule, (within, past) = RULES[name], EDGES[name]
    subject = "files" if "{subject}" in rule.text else ""
    assert judging.holds(rule.hold_seconds + 60, Observation(name, within, subject)) == []
    judging.later(CLEAR_SECONDS + 1)
    if rule.hold_seconds:
        assert judging.holds(rule.hold_seconds - 20, Observation(name, past, subject)) == []
        judging.later(20)
    (fired,) = judging(Observation(name, past, subject))
    assert (fired.rule, fired.subject, fired.severity, fired.resolved_at) == (name, subject, rule.severity, None)
    (said,) = judging.notices()
    assert said.startswith(f"[{rule.severity}] {name}: ")
    assert "{" not in said


def test_a_pause_begins_the_time_anew(judging: Judge) -> None:
    seen, hold = Observation("SearchSlow", 400), RULES["SearchSlow"].hold_seconds
    judging.holds(hold - 30, seen)
    judging.later(CLEAR_SECONDS + 1)
    assert judging.holds(hold - 30, seen) == []
    judging.later(30)
    assert len(judging(seen)) == 1


def test_an_alert_is_repeated_after_hours_and_resolved_once(judging: Judge) -> None:
    seen = Observation("SyncsFailInARow", 3, "slack")
    assert [one.rule for one in judging(seen)] == ["SyncsFailInARow"]
    assert judging(seen) == []
    for _ in range(8):  # an hour less than the time of a repetition
        judging.later(CLEAR_SECONDS - 1)
        assert judging(seen) == []
    judging.later(REPEAT)
    assert len(judging(seen)) == 1
    assert judging(Observation("SyncsFailInARow", 2, "slack")) == []  # another process may see it still
    judging.later(CLEAR_SECONDS + 1)
    (ended,) = judging()
    assert ended.resolved_at is not None
    assert judging() == []
    said = judging.notices()
    assert [one.split("]")[0] for one in said] == ["[critical", "[critical", "[resolved"]
    assert "The latest 3 syncs of Slack failed. It lasted 4.2 h." in said[-1]
    judging.later(60)
    assert len(judging(seen)) == 1  # and it may fire again


def test_alerts_go_on_after_the_clock_was_set_back(judging: Judge) -> None:
    rule, seen, ends = RULES["SearchSlow"], Observation("SearchSlow", 400), Observation("SyncsFailInARow", 3, "slack")
    judging.holds(rule.hold_seconds - 60, seen)
    assert [one.rule for one in judging(seen, ends)] == ["SyncsFailInARow"]
    judging.later(-3 * 3600)
    found = judging.holds(rule.hold_seconds, seen)
    assert [(one.rule, one.resolved_at is None) for one in found] == [("SyncsFailInARow", False), ("SearchSlow", True)]


def test_a_notice_is_sent_after_the_clock_was_set_back(notified: Settings, webhook: Webhook, database: str) -> None:
    for due, sent in (("30 minutes", 0), ("3 hours", 1)):
        with psycopg.connect(database) as connection:
            connection.execute("DELETE FROM alert_notices")
            connection.execute("INSERT INTO alert_notices (text, next_at) VALUES ('x', now() + %s::interval)", [due])
        assert deliver_now(notified, webhook.url) == sent


def test_a_restart_ends_no_alert_that_still_holds(site: Site, notified: Settings, webhook: Webhook) -> None:
    """The first look of a serving process comes before it knows whether its dependencies answer."""
    site.settings = notified
    site.sql(
        "INSERT INTO alerts (rule, subject, severity, value, hold_seconds, since, seen_at, fired_at, noticed_at)"
        " SELECT 'DependencyDown', 'qdrant', 'critical', 0, 120, a.at, a.at, a.at, a.at"
        " FROM (SELECT now() - interval '10 minutes' AS at) AS a"
    )
    monitor = SimpleNamespace(gauges={}, dependencies={}, points=None, totals=())
    database = Database(site.settings.postgres_dsn, prepare_threshold=0)
    made = Alerting(site.settings, database, Metrics(), cast("Any", monitor))

    async def looks() -> None:
        await made.look()
        monitor.dependencies = {"qdrant": False}
        await made.look()
        await database.close()

    asyncio.run(looks())
    assert site.sql("SELECT resolved_at, seen_at > now() - interval '1 minute' FROM alerts") == [(None, True)]
    assert webhook.accepted == []


def test_processes_that_judge_at_the_same_time_tell_a_change_once(judging: Judge) -> None:
    seen = [Observation("SyncsFailInARow", 3, one) for one in ("files", "google_drive", "slack", "upload")]
    barrier = threading.Barrier(8)

    def look(number: int) -> int:
        barrier.wait()
        return len(judging(*(seen if number % 2 else reversed(seen))))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(look, range(8))) == 4
        assert len(judging.notices()) == 4
        judging.later(CLEAR_SECONDS + 1)
        seen.clear()
        assert sum(pool.map(look, range(8))) == 4
    assert len(judging.notices()) == 8


def test_resolved_alerts_and_conditions_that_passed_are_forgotten(judging: Judge) -> None:
    judging(Observation("SyncsFailInARow", 3, "slack"), Observation("SearchSlow", 400))
    judging.later(CLEAR_SECONDS + 1)
    judging()
    with session(judging.dsn) as connection:
        (row,) = connection.execute("SELECT rule FROM alerts").fetchall()
        assert row["rule"] == "SyncsFailInARow"
    judging.later((states.KEPT_DAYS + 1) * 86_400)
    judging()
    with session(judging.dsn) as connection:
        assert connection.execute("SELECT rule FROM alerts").fetchall() == []


def observed(site: Site) -> dict[str, float]:
    """What rules judge of the source `slack`."""
    with session(site.settings.postgres_dsn) as connection:
        health = Alerts(connection).sync_health()
    return {one.rule: one.value for one in figures_of_syncs(health, lambda source: source == "slack")}


def synced(site: Site, status: str = "success", *, number: int = 1, ago: float = 60, **counts: int) -> None:
    """Store that many syncs, which ended some seconds ago."""
    names = "".join(f", {name}" for name in counts)
    site.sql("INSERT INTO source_states (source) VALUES ('slack') ON CONFLICT DO NOTHING")
    site.sql(
        f"INSERT INTO sync_jobs (source, status, started_at, completed_at, error_message{names}) SELECT 'slack',"  # noqa: S608 (names of ours)
        f" %s, now() - (%s + n) * interval '1 second', now() - %s * interval '1 second', %s{', %s' * len(counts)}"
        " FROM generate_series(1, %s) AS n",
        status, ago, ago, CANARY, *counts.values(), number,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "within", "past"),
    [
        ("SyncsFail", {"good": 95, "bad": 5}, {"good": 94, "bad": 6}),
        ("SyncsFailInARow", {"good": 1, "bad": 2}, {"good": 1, "bad": 3}),
        ("DocumentsFail", {"synced": 95, "failed": 5}, {"synced": 94, "failed": 6}),
        ("ManyDocumentsFail", {"synced": 90, "failed": 10}, {"synced": 89, "failed": 11}),
        ("RetriesFail", {"retries": 100, "retries_failed": 10}, {"retries": 100, "retries_failed": 11}),
        ("RetriesFail", {"retries": 9, "retries_failed": 9}, {"retries": 10, "retries_failed": 2}),
        ("SyncOverdue", {"ago": 3590}, {"ago": 3610}),
    ],
)
def test_figures_of_syncs_at_the_limit(site: Site, rule: str, within: dict[str, int], past: dict[str, int]) -> None:
    for counts, broken in ((within, False), (past, True)):
        site.sql("DELETE FROM sync_jobs")
        if "good" in counts:
            synced(site, number=counts["good"], ago=3600)
            synced(site, "failed", number=counts["bad"], ago=60)
        elif "ago" in counts:
            synced(site, ago=counts["ago"])
        else:
            synced(site, **counts)
        synced(site, "failed", number=100, ago=6 * 3600 + 60, failed=50, retries=100, retries_failed=100)  # long ago
        found = observed(site)
        assert (rule in found and RULES[rule].broken(found[rule])) is broken, found


def test_syncs_of_single_channels_say_nothing_about_the_whole_source(site: Site) -> None:
    synced(site, ago=7200)
    synced(site, "failed", number=3, ago=600)
    site.sql(
        "INSERT INTO sync_jobs (source, status, partitions, started_at, completed_at, error_message)"
        " SELECT 'slack', s.status, '{C1}', now(), now(), CASE s.status WHEN 'failed' THEN 'x' END"
        " FROM unnest(ARRAY['success', 'failed', 'failed']) AS s (status)"
    )
    found = observed(site)
    assert found["SyncsFailInARow"] == 3
    assert found["SyncOverdue"] == pytest.approx(7200, abs=60)
    assert site.sql("SELECT count(*) FROM sync_jobs WHERE source = 'slack'") == [(7,)]
    figures = {one.what: one.value for one in totals(site) if one.source == "slack"}
    assert figures["sync_failures_in_a_row"] == 3
    assert time.time() - figures["latest_sync"] == pytest.approx(7200, abs=60)


def test_work_that_does_not_list_the_source_says_nothing_about_its_syncs(site: Site) -> None:
    synced(site, ago=7200)
    synced(site, "failed", number=3, ago=600)
    site.sql(
        "INSERT INTO sync_jobs (source, status, lists, started_at, completed_at, error_message)"
        " SELECT 'slack', s.status, FALSE, now(), now(), CASE s.status WHEN 'failed' THEN 'x' END"
        " FROM unnest(ARRAY['success', 'failed']) AS s (status)"
    )
    site.sql("INSERT INTO sync_jobs (source, status, lists, claimed_at) VALUES ('slack', 'running', FALSE, now())")
    found = observed(site)
    assert found["SyncsFailInARow"] == 3
    assert found["SyncOverdue"] == pytest.approx(7200, abs=60)
    figures = {one.what: one.value for one in totals(site) if one.source == "slack"}
    assert figures["sync_failures_in_a_row"] == 3
    for what in ("latest_sync", "sync_awaited"):
        assert time.time() - figures[what] == pytest.approx(7200, abs=60)


def test_a_sync_that_one_of_the_whole_source_was_added_to_counts_as_one(site: Site) -> None:
    with session(site.settings.postgres_dsn) as connection:
        jobs = Jobs(connection)
        job = jobs.insert_job(source="slack", partitions=["C1"], full_sync=False, requested_by="slack", accepts=True)
        assert job is not None
        for partitions, stored in ((["C2"], ["C1"]), (None, None)):
            jobs.add_request(source="slack", partitions=partitions, full_sync=False)
            jobs.take_requests(job_id=job.job_id)
            assert jobs.job(job_id=job.job_id).partitions == stored


def test_a_source_whose_syncs_never_begin_is_overdue(site: Site) -> None:
    site.sql("INSERT INTO source_states (source) VALUES ('slack') ON CONFLICT DO NOTHING")
    assert "SyncOverdue" not in observed(site), "no process has seen it set up"
    with session(site.settings.postgres_dsn) as connection:
        Alerts(connection).seen_set_up(sources=["files", "slack"])
    site.sql("UPDATE source_states SET set_up_at = now() - interval '4000 seconds'")
    with session(site.settings.postgres_dsn) as connection:
        Alerts(connection).seen_set_up(sources=["files", "slack"])  # by a process that was just started
    assert observed(site)["SyncOverdue"] == pytest.approx(4000, abs=60)
    figures = {one.source: one.value for one in totals(site) if one.what == "sync_awaited"}
    assert figures.keys() == {"files", "slack"}
    assert time.time() - figures["slack"] == pytest.approx(4000, abs=60)
    with session(site.settings.postgres_dsn) as connection:
        jobs = Jobs(connection)
        job = jobs.insert_job(source="slack", partitions=None, full_sync=False, requested_by="schedule", accepts=True)
        assert job is not None
        connection.execute("UPDATE sync_jobs SET requested_at = now() - interval '2 hours'")
        jobs.adopt_job(job_id=job.job_id, partitions=None, full_sync=False)
    assert observed(site)["SyncOverdue"] == pytest.approx(7200, abs=60)
    figures = {one.what: one.value for one in totals(site) if one.source == "slack"}
    assert time.time() - figures["sync_awaited"] == pytest.approx(7200, abs=60)


def test_a_source_whose_sync_is_running_is_not_overdue(site: Site) -> None:
    synced(site, ago=7200)
    site.sql("INSERT INTO sync_jobs (source, status, claimed_at, lease) VALUES ('slack', 'running', now(), 'me')")
    for lasts, overdue in (("1 minute", False), ("-1 minute", True)):
        site.sql("DELETE FROM partition_leases")
        site.sql(
            "INSERT INTO partition_leases (source, partition, owner, fence, until)"
            " VALUES ('slack', '', 'me', 1, now() + %s::interval)",
            lasts,
        )
        assert judged_overdue(site) == (overdue, overdue)


@pytest.mark.parametrize(
    ("failed", "begun", "progress", "overdue"),
    [
        (False, "5 days", "119 minutes", False),
        (True, "1 minute", "1 second", True),
        (False, "3 hours", "121 minutes", True),
    ],
    ids=["a long sync", "it failed before", "it hangs"],
)
def test_a_sync_that_runs_excuses_no_failure_and_is_waited_for_while_it_makes_progress(
    site: Site, failed: bool, begun: str, progress: str, overdue: bool
) -> None:
    synced(site, ago=6 * 24 * 3600)
    if failed:
        synced(site, "failed", ago=600)
    site.sql(
        "INSERT INTO sync_jobs (source, status, started_at, claimed_at, heartbeat_at, lease)"
        " SELECT 'slack', 'running', t, t, now() - %s::interval, 'me' FROM (SELECT now() - %s::interval AS t) AS begun",
        progress,
        begun,
    )
    site.sql(
        "INSERT INTO partition_leases (source, partition, owner, fence, until)"
        " VALUES ('slack', '', 'me', 1, now() + interval '1 minute')"
    )
    assert judged_overdue(site) == (overdue, overdue)


def judged_overdue(site: Site) -> tuple[bool, bool]:
    """Whether the alert, and the metric of Prometheus' rule, judge how long `slack` has waited for a sync."""
    return "SyncOverdue" in observed(site), "sync_awaited" in {
        one.what for one in totals(site) if one.source == "slack"
    }


def totals(site: Site) -> list[Figure]:
    async def read() -> list[Figure]:
        database = Database(site.settings.postgres_dsn, prepare_threshold=0)
        await database.open()
        try:
            return await WebReads(database).totals()
        finally:
            await database.close()

    return asyncio.run(read())


def test_a_source_that_is_not_set_up_does_not_alert(site: Site) -> None:
    synced(site, "failed", number=5)
    with session(site.settings.postgres_dsn) as connection:
        health = Alerts(connection).sync_health()
    assert list(figures_of_syncs(health, lambda _: False)) == []


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("slow", "broken"), [(5, False), (6, True)])
def test_the_percentile_is_that_of_the_last_ten_minutes(slow: int, broken: bool) -> None:
    metrics, clock = Metrics(), Clock()
    recent = RecentLatency(metrics.families, clock)

    def search(milliseconds: float, times: int) -> None:
        for _ in range(times):
            metrics.searched(mode="hybrid", cached=False, seconds=milliseconds / 1000, results=1, warnings=())

    search(9_000, 500)  # before this process looked
    assert recent.percentile() is None
    search(250, 100 - slow)
    search(450, slow)
    clock.now = 30.0
    found = recent.percentile()
    assert found is not None
    assert RULES["SearchSlow"].broken(found) is broken
    clock.now = 31.0 + WINDOW_SECONDS
    assert recent.percentile() is None


@pytest.mark.parametrize(("failed", "broken"), [(5, False), (6, True)])
def test_the_share_of_failed_requests_is_that_of_the_last_ten_minutes(failed: int, broken: bool) -> None:
    metrics, clock = Metrics(), Clock()
    recent = RecentShare(metrics.families, requests, FEW_REQUESTS, clock)

    def answer(route: str, status: int, times: int) -> None:
        metrics.requests.labels(route, str(status)).inc(times)

    answer("/api/ask", 500, 500)  # before this process looked
    assert recent.share() is None
    answer("/api/ask", 500, 19)
    assert recent.share() is None, "too few"
    clock.now = 1.0 + WINDOW_SECONDS
    assert recent.share() is None
    answer("/api/ask", 200, 100 - failed)
    answer("/api/rag/search", 503, failed)
    answer("/readyz", 200, 10_000)
    answer("/metrics", 503, 10_000 * (not broken))
    clock.now += 30
    share = recent.share()
    assert share is not None
    assert RULES["ServerErrors"].broken(share) is broken


def test_answers_that_the_model_did_not_write_are_counted_by_kind() -> None:
    metrics = Metrics()
    answers = AnswerMetrics(metrics.registry)
    recent = RecentShare(metrics.families, model_answers, FEW_ANSWERS)
    assert recent.share() is None
    for error in (ConfigurationError("No key."), RetryLaterError("Soon."), ServiceUnavailableError("It is down.")):
        answers.failed(error)
        assert recent.share() is None, "too few"
    counted = {kind: metrics.registry.get_sample_value("llm_failures_total", {"kind": kind}) for kind in KINDS}
    assert counted == {"refused": 1, "limited": 1, "unavailable": 1}
    answers.failed(ServiceUnavailableError("It is down."))
    answers.failed(UnresponsiveError("It does not answer."))
    assert recent.share() == 1


def test_the_percentile_is_interpolated_as_prometheus_does() -> None:
    assert quantile({200.0: 90, 300.0: 94, 500.0: 100, math.inf: 100}) == pytest.approx(300 + 200 / 6)
    assert quantile({200.0: 90, math.inf: 100}) == 200
    assert quantile({200.0: 0, math.inf: 0}) is None
    assert quantile({}) is None


def figures_here(settings: Settings, **monitor: Any) -> dict[tuple[str, str], float]:
    seen = {"gauges": {}, "dependencies": {}, "points": None, "totals": ()} | monitor
    found = Alerting(settings, cast("Any", None), Metrics(), cast("Any", SimpleNamespace(**seen)))
    return {(one.rule, one.subject): one.value for one in found.figures_here()}


@pytest.mark.parametrize(
    ("rule", "within", "past"),
    [
        (("DependencyDown", "qdrant"), {"dependencies": {"qdrant": True}}, {"dependencies": {"qdrant": False}}),
        (("DependencyDown", "embedding"), {"dependencies": {"embedding": True}}, {"dependencies": {"embedding": False}}),
        (("IndexFilling", ""), {"points": 80}, {"points": 81}),
        (
            ("EmbeddingBudget", ""),
            {"totals": [Figure("embedding_month_cost", "", "", 4.0)]},
            {"totals": [Figure("embedding_month_cost", "", "", 4.01)]},
        ),
        (
            ("DiskFilling", ""),
            {"gauges": {"home_disk_bytes": 100, "home_disk_free_bytes": 20}},
            {"gauges": {"home_disk_bytes": 100, "home_disk_free_bytes": 19}},
        ),
        (("DiskUnwritable", ""), {"gauges": {"home_disk_writable": 1.0}}, {"gauges": {"home_disk_writable": 0.0}}),
    ],
)  # fmt: skip
def test_figures_of_this_machine_at_the_limit(
    site: Site, rule: tuple[str, str], within: dict[str, Any], past: dict[str, Any]
) -> None:
    settings = site.settings.model_copy(update={"max_vectors": 100, "embedding_budget": 5.0})
    for monitor, broken in ((within, False), (past, True)):
        assert RULES[rule[0]].broken(figures_here(settings, **monitor)[rule]) is broken
    assert not figures_here(site.settings)  # nothing is known at first


@pytest.fixture
def notified(site: Site, webhook: Webhook) -> Settings:
    """Settings with the webhook."""
    return site.settings.model_copy(update={"alert_webhook_url": SecretStr(webhook.url)})


def due(settings: Settings) -> None:
    with psycopg.connect(settings.postgres_dsn) as connection:
        connection.execute("UPDATE alert_notices SET next_at = now()")


def waiting(settings: Settings) -> Sequence[tuple[str, int]]:
    with psycopg.connect(settings.postgres_dsn) as connection:
        return connection.execute("SELECT text, attempts FROM alert_notices ORDER BY notice_id").fetchall()


@pytest.mark.parametrize("fault", [500, 429, 302, 30.0])
def test_a_webhook_that_fails_gets_every_notice_once_when_it_is_back(
    notified: Settings, webhook: Webhook, fault: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    webhook.answers = [fault] * 3
    webhook.headers = {"location": webhook.url}
    with monkeypatch.context() as patch:
        if isinstance(fault, float):
            patch.setattr(delivery, "DEADLINE_SECONDS", 1.0)
        alert(notified, "one")
        alert(notified, "two")  # waits for the first
        until(lambda: webhook.calls == 1, "the first call")
        assert deliver_now(notified, webhook.url) == 0  # not due
        for attempts in (2, 3):
            due(notified)
            assert deliver_now(notified, webhook.url) == 0
            assert waiting(notified) == [("one", attempts), ("two", 0)]
            until(lambda attempts=attempts: webhook.calls == attempts, "the next call")
    due(notified)
    assert deliver_now(notified, webhook.url) == 2
    assert (webhook.accepted, waiting(notified)) == (["one", "two"], [])
    due(notified)
    assert deliver_now(notified, webhook.url) == 0
    assert webhook.calls == 5


def test_a_webhook_that_refuses_connections_gets_its_notices_later(notified: Settings, webhook: Webhook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    elsewhere = notified.model_copy(update={"alert_webhook_url": SecretStr(f"http://127.0.0.1:{port}/")})
    alert(elsewhere, "one")
    assert waiting(notified) == [("one", 1)]
    due(notified)
    assert deliver_now(notified, webhook.url) == 1
    assert webhook.accepted == ["one"]


def test_processes_that_deliver_at_the_same_time_send_each_notice_once(notified: Settings, webhook: Webhook) -> None:
    with session(notified.postgres_dsn) as connection:
        for number in range(12):
            Alerts(connection).add_notice(text=str(number), most=MOST_NOTICES)
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda _: deliver_now(notified, webhook.url), range(4))) == 12
    assert sorted(webhook.accepted, key=int) == [str(number) for number in range(12)]
    assert webhook.calls == 12


def test_attempts_and_notices_are_bounded(notified: Settings, webhook: Webhook) -> None:
    webhook.answers = [500] * MOST_ATTEMPTS
    alert(notified, "one")
    pauses: list[float] = []
    for _ in range(MOST_ATTEMPTS - 1):
        with psycopg.connect(notified.postgres_dsn) as connection:
            (row,) = connection.execute("SELECT extract(EPOCH FROM next_at - now()) FROM alert_notices").fetchall()
            pauses.append(float(row[0]))
        due(notified)
        deliver_now(notified, webhook.url)
    assert (webhook.calls, waiting(notified)) == (MOST_ATTEMPTS, [])
    assert pauses[:3] == pytest.approx([PAUSE_SECONDS, 2 * PAUSE_SECONDS, 4 * PAUSE_SECONDS], abs=2)
    assert max(pauses) == pytest.approx(3600, abs=2)
    with session(notified.postgres_dsn) as connection:
        for number in range(MOST_NOTICES + 5):
            Alerts(connection).add_notice(text=str(number), most=MOST_NOTICES)
    stored = waiting(notified)
    assert (len(stored), stored[0][0], stored[-1][0]) == (MOST_NOTICES, "5", str(MOST_NOTICES + 4))


def test_a_pause_that_the_webhook_asks_for_is_obeyed(notified: Settings, webhook: Webhook) -> None:
    webhook.answers, webhook.headers = [429], {"retry-after": "600"}
    alert(notified, "one")
    with psycopg.connect(notified.postgres_dsn) as connection:
        (row,) = connection.execute("SELECT extract(EPOCH FROM next_at - now()) FROM alert_notices").fetchall()
    assert float(row[0]) == pytest.approx(600, abs=5)


def test_without_postgres_an_event_is_sent_once(notified: Settings, webhook: Webhook) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    away = notified.model_copy(update={"postgres_url": SecretStr(f"postgresql://nobody@127.0.0.1:{port}/none")})
    alert(away, f"Mail of {CANARY.lower().replace(' ', '.')}@acme.com")
    assert webhook.accepted == ["Mail of [email]"]


def test_an_outage_of_postgres_is_told_once_and_its_end_once(notified: Settings, webhook: Webhook) -> None:
    clock = Clock()
    outage = Outage(notified, clock)

    def look(seconds: float, *, down: bool) -> int:
        clock.now += seconds
        asyncio.run(outage.look(down=down))
        return len(webhook.accepted)

    hold = RULES["DependencyDown"].hold_seconds
    assert look(0, down=True) == 0
    assert look(hold - 1, down=True) == 0
    webhook.answers = [500]
    assert look(1, down=True) == 0
    assert look(30, down=True) == 1
    assert look(30, down=True) == 1
    assert look(60, down=False) == 2
    assert look(60, down=False) == 2
    assert webhook.accepted == [
        "[critical] DependencyDown: A dependency does not answer: postgres.",
        "[resolved] DependencyDown: A dependency does not answer: postgres. It lasted 4 min.",
    ]
    assert look(0, down=True) == 2
    assert look(hold - 1, down=False) == 2  # a short one is not told


def test_a_postgres_that_accepts_no_writes_is_told_once_and_its_end_once(
    site: Site, notified: Settings, webhook: Webhook
) -> None:
    clock, database = Clock(), Database(notified.postgres_dsn, prepare_threshold=0)
    monitor = SimpleNamespace(gauges={}, dependencies={"postgres": True}, points=None, totals=())
    made = Alerting(notified, database, Metrics(), cast("Any", monitor), clock)

    async def looks() -> None:
        await made.look()
        site.sql(f"ALTER DATABASE {site.connection.info.dbname} SET default_transaction_read_only = on")
        for _ in range(6):
            await made.look()
            clock.now += 30
        site.sql(f"ALTER DATABASE {site.connection.info.dbname} RESET default_transaction_read_only")
        await made.look()
        await made.look()
        await database.close()

    asyncio.run(looks())
    subject = "postgres (it accepts no writes, or not in time)"
    assert webhook.accepted == [
        f"[critical] DependencyDown: A dependency does not answer: {subject}.",
        f"[resolved] DependencyDown: A dependency does not answer: {subject}. It lasted 3 min.",
    ]


@pytest.mark.usefixtures("quick_figures")
def test_two_services_of_an_installation_send_one_notice_and_the_page_shows_it(
    site: Site, notified: Settings, webhook: Webhook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerting, "INTERVAL_SECONDS", 0.2)
    synced(site, "failed", number=3)
    site.settings = notified.model_copy(update={"slack_bot_token": SecretStr("xoxb-test")})
    with site.running() as running, site.running():
        until(lambda: webhook.accepted, "the notice")
        page = running.request("GET", "/sources", "ann@acme.com", admin=True).text
        assert "The latest 3 syncs of Slack failed." in page
        assert "The latest 3 syncs" not in running.request("GET", "/sources", "bob@acme.com").text
        site.sql("DELETE FROM sync_jobs")

        def resolved() -> bool:  # again and again: a look that began before the deletion may write after it
            site.sql("UPDATE alerts SET seen_at = seen_at - interval '1 hour'")
            return len(webhook.accepted) > 1

        until(resolved, "the notice that it is resolved", pause=0.5)
    assert [one.split(":")[0] for one in webhook.accepted] == [
        "[critical] SyncsFailInARow",
        "[resolved] SyncsFailInARow",
    ]
    assert webhook.calls == 2
    assert CANARY not in str(webhook.accepted)


def test_status_shows_alerts_and_what_waits_for_the_webhook(
    installation: Installation, judging: Judge, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    as_environment(installation, monkeypatch)
    judging(Observation("SyncsFailInARow", 3, "files"))
    run(["status"])
    said = capsys.readouterr()
    assert "critical           SyncsFailInARow: The latest 3 syncs of Files failed. Since " in said.out
    assert "1 notices of alerts wait for the webhook" in said.err
    run(["status", "--json"])
    (one,) = json.loads(capsys.readouterr().out.splitlines()[-1])["alerts"]
    assert (one["rule"], one["subject"], one["severity"], one["value"]) == (
        "SyncsFailInARow",
        "files",
        "critical",
        3,
    )
