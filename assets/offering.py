"""Offer a part of a large sync's documents to other runs, which parse, chunk and embed them (`assets.preparing`).

A large partition is listed and indexed by the one run that has its lease. What takes longest needs no lease, because it is kept in the lake
by content: other runs take waves of the least urgent documents, this sync begins with the most urgent ones. A wave that is ready comes back
and passes through all stages here, which find their work done; so does a wave whose run has died, or that no run has taken, and its work
is done here. All that another run does is what this one would do, so nothing depends on it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import psycopg
import structlog

from assets.backlog import Backlog
from assets.index.targets import Target, pending
from resources.core.domain import STAGES
from resources.core.errors import NoAnswerError, NotRunningError
from resources.syncs import launch
from resources.syncs.counts import StageResult
from resources.syncs.jobs import preparing
from resources.syncs.syncing import SyncJob
from sql.offers import Offers
from sql.rows import Pending

FEWEST_DOCUMENTS = 500
"""Documents that wait for which other runs are worth their start."""
LOOK_SECONDS = 0.5
START_SECONDS = 1800.0
"""How long after its request a run that has not begun is taken for one that never will. Source: start_timeout_seconds in dagster.yaml"""
AGAIN_SECONDS = 300.0
"""How long after a request of runs others are requested for those that have ended."""
STALLED_SECONDS = 900.0
"""How long a run may have a wave, once nothing else is left to do here. A file may take a minute to parse."""
WORK = {"parsed": ("parsed", "skipped"), "chunked": ("chunked",), "embedded": ("embedded",)}
"""What another run counts where this sync finds the work done and counts `reused`."""
SEEN_HERE = frozenset({"documents", "reused", "failed"})
"""Counts of another run that this sync counts itself."""

log = structlog.get_logger("sync")


class Offering:
    """The waves that one sync offers, in a thread of its own from `start` to `end`."""

    def __init__(self, job: SyncJob, backlog: Backlog, target: Target) -> None:
        self._job = job
        self._backlog = backlog
        self._target = target
        self._lent: dict[int, list[Pending]] = {}
        self._done: dict[str, Mapping[str, Any]] = {}
        """What other runs did for a wave that came back, by the id of its first document."""
        self._names: dict[str, float] = {}
        """Leases of the runs that have not ended, and when they were requested: some may wait in Dagster's queue."""
        self._begun: set[str] = set()
        """Those that were seen."""
        self._requested = -AGAIN_SECONDS
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="offers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Withdraw what is still offered, and wait for the thread."""
        self._ended.set()
        self._thread.join()

    def credit(self, documents: Sequence[Pending], stage: str, result: StageResult) -> None:
        """Count what another run did for a wave as done, where this sync counts it as there already."""
        first = documents[0].doc_id
        done = self._done.get(first, {}).get(stage)
        if done is not None:
            credited(stage, result, done)
        if stage == STAGES[-1]:
            self._done.pop(first, None)

    def _run(self) -> None:
        try:
            with self._job.for_thread() as job:
                offers = Offers(job.stores.connection)
                try:
                    while not self._ended.wait(LOOK_SECONDS):
                        self._take_back(job, offers)
                        self._request(job, offers)
                        self._offer(offers)
                finally:
                    offers.end_offers(job_id=job.job_id)
        except Exception:  # whatever it is, the sync does the work itself
            log.exception("offers_ended", job_id=self._job.job_id)
        finally:
            self._backlog.runs = 1
            for documents in self._lent.values():
                self._backlog.give_back(documents, unchanged={one.doc_id for one in documents})

    def _take_back(self, job: SyncJob, offers: Offers) -> None:
        """Take back waves that are ready or whose run has died and, if nothing else is left to do, those that no run has taken."""
        rest = STALLED_SECONDS if self._backlog.drained else None
        if not self._lent:
            return
        results = {wave.number: wave.results for wave in offers.take_back(job_id=job.job_id, rest=rest)}
        offered = set(offers.offered(job_id=job.job_id))
        # those that are neither were withdrawn, because another process has closed the job
        for number in self._lent.keys() - offered:
            documents = self._lent[number]
            keys = {one.doc_id: one.content_key for one in documents}
            job.partitions = self._job.partitions  # a request may have added some
            rows = pending(job, self._target, doc_ids=list(keys))
            unchanged = {one.doc_id for one in rows if one.content_key == keys[one.doc_id]}
            if done := results.get(number):
                self._count(documents, unchanged, done)
            self._backlog.give_back(documents, unchanged=unchanged)
            del self._lent[number]

    def _count(self, documents: Sequence[Pending], unchanged: set[str], results: Mapping[str, Any]) -> None:
        embedded = results.get("embedded", {}).get("counts", {})
        self._job.count(**{name: embedded.get(name, 0) for name in ("embedded", "tokens", "cost_usd")})
        first = next((one.doc_id for one in documents if one.doc_id in unchanged), None)
        if first is not None:
            self._done[first] = results

    def _request(self, job: SyncJob, offers: Offers) -> None:
        """Request as many runs as may share the work, again after a while for those that have ended."""
        now = time.monotonic()
        if self._backlog.left < FEWEST_DOCUMENTS or now - self._requested < AGAIN_SECONDS:
            return
        source = job.stores.source
        self._requested = now
        ended = self._begun - set(self._working(offers)) | self._ended_runs(job, offers)
        ended |= {one for one, at in self._names.items() if one not in self._begun and now - at > START_SECONDS}
        self._names = {one: at for one, at in self._names.items() if one not in ended}
        for _ in range(job.runs - 1 - len(self._names)):
            name = uuid4().hex
            try:
                launch.launch_preparing(job.stores.settings, source, job.job_id, name)
            except NoAnswerError as error:  # it may start late
                log.warning("sync_delayed", job_id=job.job_id, reason=str(error))
            except NotRunningError as error:
                log.warning("sync_not_shared_out", job_id=job.job_id, reason=str(error))
                return
            self._names[name] = now
        log.info("sync_shared_out", job_id=job.job_id, documents=self._backlog.left, runs=len(self._names))

    def _working(self, offers: Offers) -> list[str]:
        working = (
            offers.working(source=preparing(self._job.stores.source), names=list(self._names)) if self._names else []
        )
        self._begun.update(working)
        return working

    def _ended_runs(self, job: SyncJob, offers: Offers) -> set[str]:
        """Return the names of runs that ended in Dagster, such as in its queue. Those in another database are unknown."""
        if not self._names or job.stores.settings.dagster_database_url is not None:
            return set()
        try:
            return set(offers.ended_runs(names=list(self._names)))
        except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
            return set()

    def _offer(self, offers: Offers) -> None:
        """Keep a wave on offer for each run that works."""
        job = self._job
        self._backlog.runs = 1 + len(self._names)  # also those that are about to start
        working = self._working(offers)
        for _ in range(len(working) - (offers.waiting(job_id=job.job_id) if working else 0)):
            documents = self._backlog.lend()
            if not documents:
                return
            try:
                number = offers.offer(job_id=job.job_id, doc_ids=[one.doc_id for one in documents])
            except BaseException:
                self._backlog.give_back(documents, unchanged={one.doc_id for one in documents})
                raise
            self._lent[number] = documents


def credited(stage: str, result: StageResult, done: Mapping[str, Any]) -> None:
    """Move what another run did from `reused` to what it is called if it is done here."""
    for partition, counts in done["partitions"].items():
        reused = result.partitions.get(partition, {}).get("reused", 0)
        work = sum(counts.get(name, 0) for name in WORK[stage])
        added = {name: number for name, number in counts.items() if name not in SEEN_HERE and not _of_all(stage, name)}
        result.count(partition, **{**added, "reused": -min(reused, work)})
    if stage == "embedded":
        for name in ("tokens", "cost_usd"):
            result.counts[name] = result.counts.get(name, 0) + done["counts"].get(name, 0)
    result.seconds += done["seconds"]


def _of_all(stage: str, name: str) -> bool:
    """Return True for the number of a stage's texts, of which some may have been there."""
    return stage == "embedded" and name == "chunks"
