"""A sync whose stages overlap: pending documents pass through them in waves, small ones first.

Three threads parse and chunk, embed, and index, each with a connection of its own and about a wave behind the previous one. A wave is
written to the stores in the same order as by stages that run one after another, so a sync that is killed continues where it stopped.
Meanwhile the main thread lists the source, again for each request that is added to the sync, and passes small new documents through all
stages itself: however much is waiting, a note is searchable within seconds.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from assets import steps
from assets.backlog import Backlog, evenly
from assets.index.again import admitted, rewrite_all, tell_left
from assets.index.collection import ensure_collection, is_measured
from assets.index.targets import PENDING_DOCUMENTS, Target, active_target, pending, pending_pages
from assets.index.work import by_urgency, complete_marks, unmark
from assets.offering import Offering
from assets.parsed import parse_missing, parser_pool
from assets.parsing.pool import ParserPool
from resources import priority, tracing
from resources.core.domain import STAGES, State
from resources.core.errors import BudgetExceededError, CapacityError, ConcordanceError
from resources.syncs.claiming import roots_of
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob, reason_of
from sql.rows import Pending

EARLY_DOCUMENTS = 1000
"""Documents of a listing after which waves begin, before it ends."""
LOOK_SECONDS = 0.5
LOOK_SHARE = 10
"""During a listing, a sync waits ten times as long as it looked for pending documents: there may be many marks, and few of them."""
CLAIM_SECONDS = 5.0
"""How long a sync that has nothing else to do waits for partitions of a request that another process keeps, before it looks again."""
COUNTS = {
    "raw": (),
    "parsed": ("documents", "parsed", "reused", "skipped", "failed"),
    "chunked": ("documents", "chunked", "reused", "chunks", "tokens"),
    "embedded": ("chunks", "embedded", "reused", "tokens", "cost_usd"),
    "indexed": ("documents", "points"),
}
"""What each stage reports, zeros included."""

SPANS = {
    "raw": "list_files",
    "parsed": "extract_content",
    "chunked": "chunk",
    "embedded": "generate_embeddings",
    "indexed": "upsert_vectors",
}
"""Names of the stages' spans."""

Step = Callable[[SyncJob, Sequence[Pending]], StageResult]
Collect = Callable[[SyncJob, Callable[[StageResult], None]], StageResult]


class Waves:
    """One sync of all stages. `collect` synchronises the registry with the source and calls its argument after each batch.

    Errors of the stages after the first are left in `job.failures`; other documents continue as far as they can.
    """

    def __init__(self, job: SyncJob, collect: Collect) -> None:
        self._job = job
        self._collect = collect
        self._backlog = Backlog()
        self._ids: list[str] = []
        """Documents that are marked and not in the backlog yet, the most urgent first."""
        self._active: Target | None = None
        self._prepared: set[str] = set()
        """Ids of documents that were parsed and chunked for the sample."""
        self._threads: list[threading.Thread] = []
        self._offering: Offering | None = None
        self._look_at = 0.0
        self._chunks = self._chunked_bytes = 0

    def run(self) -> None:
        """Sync until nothing is pending and every request is done."""
        job = self._job
        for stage in STAGES:
            job.add(stage, StageResult(dict.fromkeys(COUNTS[stage], 0)))
        try:
            with job.busy("raw"), tracing.span(SPANS["raw"]):
                job.add("raw", self._collect(job, self._stored))
            with self._failing("indexed"):
                self._bring_up_to_date()
            tell_left(job)
        except BaseException:
            job.stopping.set()
            raise
        finally:
            self._end()
            job.stopping.clear()
        self._tell_stopped()

    def _bring_up_to_date(self) -> None:
        """Process what is pending, list the source again for each request, and end once there is nothing of either."""
        job = self._job
        while True:
            found = self._round()
            while not self._backlog.idle and not job.failures:
                if self._requested():
                    self._round()
                elif self._ids and not self._backlog.waiting:
                    self._refill()
                self._backlog.wait(LOOK_SECONDS)
            if job.failures:
                return
            if found:
                continue  # content that changed while it was being indexed is pending again
            with job.busy("indexed"):
                steps.finish(job, self._target)
            if not job.job_id or job.stores.jobs.refuse_requests(job_id=job.job_id):
                return
            while not self._requested(wait=CLAIM_SECONDS):  # another process has what is requested
                if job.stores.jobs.refuse_requests(job_id=job.job_id):
                    return
                job.progress("raw")

    def _round(self) -> bool:
        """Remove and update what has changed, take in what is pending, and pass its small documents through. Return True if any is."""
        job = self._job
        target = self._target
        with job.busy("indexed"):
            job.add("indexed", steps.settle(job, target, self._backlog.busy))
        self._ids = by_urgency(job, target)
        express = self._backlog.admit(*self._next())
        found = bool(express) or self._backlog.waiting
        self._count()
        self._start()
        if express:
            with self._releasing(express), parser_pool(job.stores.settings, len(express)) as parsers:
                self._pass(job, express, {**self._preparing(parsers), "embedded": self._embed, "indexed": self._index})
        return found

    def _requested(self, *, wait: float = 0.0) -> bool:
        """List the source again if that was requested; return True if it was. An error then fails the sync in the end.

        A request for partitions that another process keeps for longer than `wait` seconds stays for the next time.
        """
        job, stores = self._job, self._job.stores
        found = stores.jobs.take_requests(job_id=job.job_id) if job.job_id else None
        if found is None:
            return False
        asked = job.partitions if found.partitions is None and job.rest else found.partitions
        wanted = None if asked is None else roots_of(stores.connection, stores.source, asked)
        if not job.claim(wanted, wait=wait):
            stores.jobs.add_request(source=stores.source.value, partitions=found.partitions, full_sync=found.full_sync)
            return False
        if job.partitions is not None:
            job.partitions = None if asked is None else sorted({*job.partitions, *asked})
        if found.full_sync:
            rewrite_all(job, asked)
        view = replace(job, partitions=asked, full=found.full_sync, rest=job.rest and found.partitions is None, runs=1)
        try:
            with job.busy("raw"), tracing.span(SPANS["raw"]):
                job.add("raw", self._collect(view, lambda _: None))
        except ConcordanceError as error:
            view.error = reason_of(error)
        job.error = view.error or job.error
        if view.rest:
            job.partitions = view.partitions
        return True

    def _stored(self, result: StageResult) -> None:
        """Begin before a long listing ends, and take in what it has stored since."""
        if self._job.failures or (self._active is None and result.counts["seen"] < EARLY_DOCUMENTS):
            return
        if not self._backlog.waiting and time.monotonic() > self._look_at:
            with self._failing("indexed"):
                self._refill()

    def _refill(self) -> None:
        complete_marks(self._job, self._target)
        began = time.monotonic()
        self._ids = self._ids or by_urgency(self._job, self._target)
        self._backlog.refill(*self._next())
        ended = time.monotonic()
        self._look_at = ended + max(LOOK_SECONDS, LOOK_SHARE * (ended - began))
        self._count()
        self._start()

    @property
    def _target(self) -> Target:
        if self._active is None:
            self._active = self._open()
        return self._active

    def _open(self) -> Target:
        """Return the target with its collection in place; one that was never measured is measured by a sample of the documents."""
        job, active = self._job, active_target(self._job.stores)
        steps.list_keys(job, active)
        sample: list[Pending] = []
        if not is_measured(job.stores.collections.collection(name=active.collection.name)):
            sample = evenly(next(pending_pages(job, active, everything=True, rejected=True)))
        if sample:
            with parser_pool(job.stores.settings, len(sample)) as parsers:
                self._pass(
                    job, sample, {"parsed": partial(_parse, parsers), "chunked": self._counted(partial(_chunk, active))}
                )
            self._prepared.update(one.doc_id + one.content_key for one in sample)
        return ensure_collection(job.stores, active, sample)

    def _next(self) -> tuple[list[Pending], int]:
        """Return the next documents to index, the most urgent first, and about how many follow them."""
        job = self._job
        if not self._ids:
            return admitted(job, []), 0
        # a run that may leave some to the next one decides about all of them at once
        some = PENDING_DOCUMENTS if job.stores.settings.reindex_documents is None else len(self._ids)
        while self._ids:
            ids, self._ids = self._ids[:some], self._ids[some:]
            rows = {one.doc_id: one for one in pending(job, self._target, doc_ids=ids, rejected=True)}
            found = admitted(job, self._backlog.untaken([rows[one] for one in ids if one in rows]))
            if found:
                return found, len(self._ids)
        return [], 0

    def _start(self) -> None:
        """Start the threads if documents wait for them."""
        if self._threads or not self._backlog.waiting:
            return
        if self._job.considerate:
            priority.lower()
        parsed: queue.Queue[list[Pending] | None] = queue.Queue(1)
        embedded: queue.Queue[list[Pending] | None] = queue.Queue(1)
        for work in (
            partial(self._prepare, parsed),
            partial(self._thread, {"embedded": self._embed}, parsed.get, embedded.put),
            partial(self._thread, {"indexed": self._index}, embedded.get, None),
        ):
            self._threads.append(threading.Thread(target=tracing.in_context(work), name="waves", daemon=True))
            self._threads[-1].start()
        if self._job.job_id and self._job.runs > 1 and self._job.stores.settings.reindex_documents is None:
            self._offering = Offering(self._job, self._backlog, self._target)
            self._offering.start()

    def _prepare(self, parsed: queue.Queue[list[Pending] | None]) -> None:
        settings = self._job.stores.settings
        with parser_pool(settings, settings.parse_workers) as parsers:
            self._thread(self._preparing(parsers), self._backlog.wave, parsed.put)

    def _thread(
        self,
        work: Mapping[str, Step],
        take: Callable[[], list[Pending] | None],
        give: Callable[[list[Pending] | None], None] | None,
    ) -> None:
        """Pass wave after wave through stages and on to the next thread. After an error, or if the next thread had one, drop them."""
        waves = iter(take, None)
        try:
            with self._failing(next(iter(work))), self._job.for_thread() as job:
                for wave in waves:
                    with self._releasing(wave) as released:
                        if self._dropped(work):
                            continue
                        self._pass(job, wave, work)
                        if give is not None and not self._dropped(work):
                            released.clear()
                            give(wave)
            # None are left unless the block failed; the thread before must not wait for room in the queue.
            for wave in waves:
                self._backlog.done(wave)
        finally:
            if give is not None:
                give(None)

    def _dropped(self, work: Mapping[str, Step]) -> bool:
        """Return True if one of these stages or a later one has failed."""
        first = min(map(STAGES.index, work))
        return any(STAGES.index(stage) >= first for stage in self._job.failures)

    def _end(self) -> None:
        """End the threads: after the waves in hand, or at once if the sync is stopping."""
        self._backlog.end()
        for thread in self._threads:
            thread.join()
        if self._offering is not None:
            self._offering.end()

    def _tell_stopped(self) -> None:
        """Record how far the sync came if a limit has stopped it."""
        if any(isinstance(error, BudgetExceededError | CapacityError) for error in self._job.failures.values()):
            done, (_, documents) = self._job.results["indexed"].counts["documents"], self._backlog.progress
            self._job.warn(
                f"{done:,} of {documents:,} documents were indexed before that. The next sync continues with the others."
            )

    def _pass(self, job: SyncJob, documents: Sequence[Pending], work: Mapping[str, Step]) -> None:
        """Pass documents through stages, up to the first error."""
        job.partitions = self._job.partitions  # with those of requests that were added since the thread began
        for stage, step in work.items():
            if stage in self._job.failures:
                return
            with self._failing(stage), job.busy(stage), tracing.span(SPANS[stage], documents=len(documents)):
                result = step(job, documents)
                if self._offering is not None:
                    self._offering.credit(documents, stage, result)
                job.add(stage, result)

    @contextmanager
    def _failing(self, stage: str) -> Generator[None]:
        """Record an error of the block as the stage's."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - whatever it is, the stage raises it when its turn comes
            self._job.failures.setdefault(stage, error)
            self._backlog.end()

    @contextmanager
    def _releasing(self, documents: Sequence[Pending]) -> Generator[list[Sequence[Pending]]]:
        """Release documents after the block, unless it clears the list that it gets."""
        held = [documents]
        try:
            yield held
        finally:
            for one in held:
                self._backlog.done(one)
            self._count()

    def _count(self) -> None:
        """Report how many documents are done, of how many, and how many passages these may have."""
        counts = self._job.counts
        counts.done, counts.documents = self._backlog.progress
        if self._chunked_bytes:
            counts.expected = round(self._chunks * self._backlog.size / self._chunked_bytes)

    def _preparing(self, parsers: ParserPool) -> dict[str, Step]:
        return {
            "parsed": self._unprepared(partial(_parse, parsers)),
            "chunked": self._unprepared(self._counted(partial(_chunk, self._target))),
        }

    def _counted(self, step: Step) -> Step:
        """Return the step of chunking, whose passages tell how many the other documents may have."""

        def work(job: SyncJob, documents: Sequence[Pending]) -> StageResult:
            result = step(job, documents)
            if result.counts.get("chunks"):  # else they were there already
                self._chunks += result.counts["chunks"]
                self._chunked_bytes += sum(one.size for one in documents)
            self._count()
            return result

        return work

    def _unprepared(self, step: Step) -> Step:
        """Return the step without the documents that the sample has taken through it."""

        def work(job: SyncJob, documents: Sequence[Pending]) -> StageResult:
            rest = [one for one in documents if one.doc_id + one.content_key not in self._prepared]
            return step(job, rest) if rest else StageResult()

        return work

    def _embed(self, job: SyncJob, documents: Sequence[Pending]) -> StageResult:
        return steps.embed(job, self._target, documents)

    def _index(self, job: SyncJob, documents: Sequence[Pending]) -> StageResult:
        """Index documents as the registry has them now; what changed since they were taken remains pending."""
        keys = {one.doc_id: one.content_key for one in documents}
        rows = pending(job, self._target, doc_ids=list(keys))
        todo = [row for row in rows if row.state == State.LIVE and row.content_key == keys[row.doc_id]]
        result = steps.index(job, self._target, todo, list(keys))
        unmark(job, self._target, list(keys))
        return result


def _parse(parsers: ParserPool, job: SyncJob, documents: Sequence[Pending]) -> StageResult:
    return parse_missing(job, documents, parsers)


def _chunk(active: Target, job: SyncJob, documents: Sequence[Pending]) -> StageResult:
    return steps.chunk(job, active, documents)
