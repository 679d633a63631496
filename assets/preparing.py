"""A run that prepares documents of a large sync: it parses, chunks and embeds the waves which that sync offers (`assets.offering`).

It writes to the lake only, by content, and nothing that belongs to a document, so it needs no lease of their partition and cannot
disturb the run that has it. It has a lease of its own, by which its sync sees that it lives and for which erasure waits. It ends soon after
its sync does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial

import structlog

from assets.chunked import chunk_missing
from assets.embedded import embed_missing
from assets.index.targets import active_target, pending
from assets.parsed import parse_ahead, parser_pool
from assets.parsing.pool import ParserPool
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError
from resources.settings import Settings
from resources.sources import stored
from resources.stores.clients import Stores
from resources.stores.fenced import fenced_session
from resources.stores.leases import claim
from resources.stores.postgres import session
from resources.syncs.counts import StageResult
from resources.syncs.jobs import preparing
from resources.syncs.syncing import SyncJob
from sql.offers import OfferedWave, Offers

LOOK_SECONDS = 0.5
WATCH_SECONDS = 1.0
IDLE_SECONDS = 60.0
"""How long it waits for the next wave, before it makes room for another run."""

log = structlog.get_logger("sync")


def prepare(settings: Settings, source: SourceName, job_id: str, name: str) -> dict[str, int]:
    """Prepare what the sync `job_id` offers, under the lease `name`. Returns how many waves and documents that were.

    Returns at once if the sync has ended, or while an erasure or a new index keeps it from writing.
    """
    settings = stored.complete(settings)
    counts = {"waves": 0, "documents": 0}
    lease = claim(settings.postgres_dsn, preparing(source), [name], seconds=0)
    if lease is None:
        return counts
    try:
        with (
            fenced_session(settings.postgres_dsn, lease) as connection,
            parser_pool(settings, settings.parse_workers) as parsers,
        ):
            stores = Stores(settings, source, connection, lease)
            offers = Offers(connection)
            idle = time.monotonic()
            while offers.wanted(job_id=job_id, number=None, lease=lease.owner):
                wave = offers.take(job_id=job_id, lease=lease.owner)
                if wave is not None:
                    counts["documents"] += _prepare(stores, job_id, wave, lease.owner, parsers)
                    counts["waves"] += 1
                    idle = time.monotonic()
                elif time.monotonic() - idle > IDLE_SECONDS:
                    break
                else:
                    time.sleep(LOOK_SECONDS)
    finally:
        lease.release()
    return counts


def _prepare(stores: Stores, job_id: str, wave: OfferedWave, owner: str, parsers: ParserPool) -> int:
    """Prepare a wave and hand it back. Returns its number of documents; 0 if its sync has ended or taken it back meanwhile."""
    job = SyncJob(stores)
    target = active_target(stores)
    try:
        with _watched(job, job_id, wave.number, owner):
            documents = pending(job, target, doc_ids=wave.doc_ids)
            for stage, work in {
                "parsed": lambda: parse_ahead(job, documents, parsers),
                "chunked": lambda: chunk_missing(job, documents, target.profiles, target.tokenizer()),
                "embedded": lambda: embed_missing(job, target, documents, ahead=True),
            }.items():
                job.progress(stage)
                with job.busy(stage):
                    job.add(stage, work())
    except AbortSyncError:
        if not job.stopping.is_set():
            raise
        log.info("preparing_stopped", job_id=job_id, wave=wave.number)
        return 0
    results = {stage: _result(result) for stage, result in job.results.items()}
    Offers(stores.connection).ready(job_id=job_id, number=wave.number, lease=owner, results=results)
    return len(documents)


def _result(result: StageResult) -> dict[str, object]:
    return {"counts": result.counts, "partitions": result.partitions, "seconds": result.seconds}


@contextmanager
def _watched(job: SyncJob, job_id: str, number: int, owner: str) -> Generator[None]:
    """Stop the block's work, at its next report of progress, once the sync has ended or taken back the wave."""
    ended = threading.Event()
    watch = threading.Thread(target=partial(_watch, job, job_id, number, owner, ended), name="watch", daemon=True)
    watch.start()
    try:
        yield
    finally:
        ended.set()
        watch.join()


def _watch(job: SyncJob, job_id: str, number: int, owner: str, ended: threading.Event) -> None:
    try:
        with session(job.stores.settings.postgres_dsn, autocommit=True) as connection:
            offers = Offers(connection)
            while not ended.wait(WATCH_SECONDS):
                if not offers.wanted(job_id=job_id, number=number, lease=owner):
                    break
    finally:  # also without an answer of Postgres: what the sync does is not known then
        if not ended.is_set():
            job.stopping.set()
