"""Judge the rules of `resources.alerts` twice a minute, and send what they say.

One process of each set of serving processes does this. Those of several machines judge the same installation: `resources.alerts.states`
has each change told once. While Postgres is down or accepts no writes there is no common state, so each machine tells that itself, once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from resources.alerts.delivery import deliver, post
from resources.alerts.rules import FEW_RETRIES, RULES, Observation
from resources.alerts.states import INTERVAL_SECONDS, judge
from resources.core.durations import duration, how_long
from resources.core.errors import TemporaryError
from resources.logging import logger
from resources.sources import is_set_up, names, stored
from serving.http.latency import FEW_ANSWERS, FEW_REQUESTS, RecentLatency, RecentShare, model_answers, requests
from serving.http.periodic import Repeated
from sql.alerts import Alerts, SyncHealth

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.database import Database
    from serving.http.metrics import Metrics
    from serving.http.monitor import StatusMonitor

DOWN = "DependencyDown"
UNJUDGED = "postgres (it accepts no writes, or not in time)"
"""The subject while Postgres answers, but alerts cannot be stored."""

log = logger("alerts")


class Alerting(Repeated):
    """The task that judges and delivers."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        metrics: Metrics,
        monitor: StatusMonitor,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("alerts", INTERVAL_SECONDS, self.look)
        self._settings = settings
        self._database = database
        self._monitor = monitor
        self._latency = RecentLatency(metrics.families)
        self._shares = {
            "ServerErrors": RecentShare(metrics.families, requests, FEW_REQUESTS),
            "ModelFails": RecentShare(metrics.families, model_answers, FEW_ANSWERS),
        }
        self._outage = Outage(settings, clock)
        self._repeat_seconds = duration(settings.alert_repeat).total_seconds()
        self._url = _webhook(settings)

    async def look(self) -> None:
        """Judge once, and send what is due. Before the monitor's first look, alerts that fire would read as ended."""
        judged = not self._monitor.dependencies or await self._judge_and_deliver()
        await self._outage.look(down=self._database.watch.down, judged=judged)

    async def _judge_and_deliver(self) -> bool:
        """Return False if Postgres refuses."""
        here = list(self.figures_here())
        try:
            await self._database.in_thread(lambda connection: self._judge(connection, here))
            if self._url is not None:
                await deliver(self._url, self._database.in_thread)
        except (TemporaryError, psycopg.Error) as error:
            log.warning("alerts_not_judged", reason=str(error))
            return False
        return True

    def _judge(self, connection: Connection, here: Sequence[Observation]) -> None:
        counts = partial(is_set_up, stored.complete(self._settings, connection))
        alerts = Alerts(connection)
        alerts.seen_set_up(sources=sorted(one.value for one in names() if counts(one.value)))
        health = alerts.sync_health()
        connection.commit()  # what follows waits for other processes
        observed = [*here, *figures_of_syncs(health, counts)]
        judge(connection, observed, repeat_seconds=self._repeat_seconds, notify=self._url is not None)

    def figures_here(self) -> Iterator[Observation]:
        """Yield what this process sees of the installation and of its machine."""
        settings, gauges = self._settings, self._monitor.gauges
        if (slow := self._latency.percentile()) is not None:
            yield Observation("SearchSlow", slow)
        for rule, recent in self._shares.items():
            if (share := recent.share()) is not None:
                yield Observation(rule, share)
        for name, up in self._monitor.dependencies.items():
            yield Observation(DOWN, float(up), name)
        if settings.max_vectors and self._monitor.points is not None:
            yield Observation("IndexFilling", self._monitor.points / settings.max_vectors)
        if settings.embedding_budget:
            spent = sum(one.value for one in self._monitor.totals if one.what == "embedding_month_cost")
            yield Observation("EmbeddingBudget", spent / settings.embedding_budget)
        if size := gauges.get("home_disk_bytes"):
            yield Observation("DiskFilling", gauges["home_disk_free_bytes"] / size)
        if "home_disk_writable" in gauges:
            yield Observation("DiskUnwritable", gauges["home_disk_writable"])


def figures_of_syncs(health: Sequence[SyncHealth], counts: Callable[[str], bool]) -> Iterator[Observation]:
    """Yield what the latest syncs show. Only sources that are set up can be overdue, or fail again."""
    for one in health:
        if not counts(one.source):
            continue
        if one.good + one.bad:
            yield Observation("SyncsFail", one.good / (one.good + one.bad), one.source)
        yield Observation("SyncsFailInARow", one.failures, one.source)
        if one.documents:
            for rule in ("DocumentsFail", "ManyDocumentsFail"):
                yield Observation(rule, one.failed / one.documents, one.source)
        if one.retries >= FEW_RETRIES:
            yield Observation("RetriesFail", one.retries_failed / one.retries, one.source)
        if one.seconds_ago is not None and (one.failures or not one.running):  # one that has failed excuses nothing
            yield Observation("SyncOverdue", one.seconds_ago, one.source)


def _webhook(settings: Settings) -> str | None:
    return None if settings.alert_webhook_url is None else settings.alert_webhook_url.get_secret_value()


class Outage:
    """Tells that Postgres is down, or that alerts cannot be judged on it, without it: once when that has lasted as long as the rule says,
    and once when it has ended.
    """

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._url = _webhook(settings)
        self._clock = clock
        self._since: float | None = None
        self._told = ""

    async def look(self, *, down: bool, judged: bool = True) -> None:
        """Tell what has changed. A webhook that fails is tried again at the next look."""
        rule, now = RULES[DOWN], self._clock()
        if down or not judged:
            self._since = now if self._since is None else self._since
            if not self._told and now - self._since >= rule.hold_seconds:
                said = rule.sentence("postgres" if down else UNJUDGED, 0)
                if await self._tell(f"[{rule.severity}] {DOWN}: {said}"):
                    self._told = said
        elif self._since is not None:
            lasted = how_long(now - self._since)
            if not self._told or await self._tell(f"[resolved] {DOWN}: {self._told} It lasted {lasted}."):
                self._since, self._told = None, ""

    async def _tell(self, text: str) -> bool:
        log.error("alert", rule=DOWN, subject="postgres", text=text)
        return self._url is None or (await post(self._url, text)).accepted
