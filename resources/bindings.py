"""The Dagster resource that opens a source's sync when its first stage asks for it and closes it when the run ends.

The in-process executor runs all stages of a run in one process, so the lock, job row and counts live as long as the run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from enum import StrEnum

import dagster as dg
import structlog
from pydantic import Field, PrivateAttr

from resources import tracing
from resources.core.domain import STAGES, SourceName
from resources.core.errors import BusyError, ConcordanceError, NotRunningError, ServiceUnavailableError
from resources.logging import configure
from resources.settings import load
from resources.sources import label, spec_of, stored
from resources.sources.spec import WaitingWork
from resources.stores.postgres import session
from resources.syncs.jobs import hold
from resources.syncs.launch import PARENT_TAG, PARTITION_TAG, TRACE_TAG, WHOLE, job_of, start_sync
from resources.syncs.syncing import SyncJob, open_sync

log = structlog.get_logger("bindings")


class PipelineStage(StrEnum):
    """The stages, for Dagster's configuration, which has no literals."""

    raw = "raw"
    parsed = "parsed"
    chunked = "chunked"
    embedded = "embedded"
    indexed = "indexed"


class Syncs(dg.ConfigurableResource["Syncs"]):
    """The open syncs of this run, by source. A run may limit or extend them; settings come from the environment alone."""

    full: bool = Field(
        default=False,
        description="List the source, or the chosen partitions, from the beginning, fetch every document and rewrite every index entry. "
        "What has not changed is not parsed or embedded again. If the run is interrupted, the next sync continues.",
    )
    documents: list[str] = Field(
        default=[],
        description="Process only these documents, by source ID or document ID, as they were last fetched: retry those that could "
        "not be read, and rewrite their index entries. The source is not asked. Empty: all.",
    )
    stages: list[PipelineStage] = Field(
        default=[], description="Run only these stages; the others report what there is. Empty: all that are selected."
    )
    _stack: ExitStack = PrivateAttr(default_factory=ExitStack)
    _open: dict[SourceName, SyncJob] = PrivateAttr(default_factory=dict[SourceName, SyncJob])

    @contextmanager
    def yield_for_execution(self, context: dg.InitResourceContext) -> Generator[Syncs]:  # noqa: ARG002
        """Close every sync that the run opened, even after an error."""
        configure(load().log_level, "dagster")
        with self._stack:
            yield self
        for source, run in self._open.items():
            work = spec_of(source).waiting
            if work is not None and run.error is None:  # after a failure, leave the retry to the sensor
                _sync_waiting(source, work)

    def of(self, source: SourceName, context: dg.AssetExecutionContext) -> SyncJob:
        """Return the run's sync of a source; the first call waits for the source's lock."""
        if source not in self._open:
            keys = chosen_partitions(context)
            sync = open_sync(
                load(),
                source,
                job_id=job_of(context.run.tags),
                partitions=keys,
                full=self.full,
                run_id=context.run.run_id,
                requested_by="schedule" if keys is None else "backfill",
                carrier={tracing.TRACEPARENT: context.run.tags.get(TRACE_TAG, "")},
                again=PARENT_TAG in context.run.tags,
            )
            job = self._stack.enter_context(sync)
            self._open[source] = job
            keys_of_run = context.run.asset_selection or _all_stages(source)
            chosen = {stage.value for stage in self.stages} or set(STAGES)
            job.planned = {key.path[-1] for key in keys_of_run if key.path[0] == source.value} & chosen
            job.full = job.full or self.full
            job.documents = self._chosen_documents(job) if self.documents else None
            if self.documents or STAGES[0] not in job.planned:
                job.stores.jobs.lists_nothing(job_id=job.job_id)
            job.considerate = True
            job.runs = job.stores.settings.sync_runs
        return self._open[source]

    def _chosen_documents(self, job: SyncJob) -> list[str]:
        """Return the ids of the chosen documents. Raises `dg.Failure` if the source does not have one of them."""
        found = job.stores.documents.chosen(ids=self.documents)
        known = {name for row in found for name in (row.doc_id, row.source_id)}
        if unknown := [str(number) for number, one in enumerate(self.documents, start=1) if one not in known]:
            where = "entry" if len(unknown) == 1 else "entries"
            job.error = (
                f"{label(job.stores.source)} does not have the documents in {where} {', '.join(unknown)} of `documents` in the run's "
                "configuration."
            )
            raise dg.Failure(job.error, allow_retries=False)
        return [row.doc_id for row in found]

    def current(self, source: SourceName) -> SyncJob:
        """Return the sync that this run has open. A run of checks alone has none: it waits for the source, and looks at its latest sync."""
        if source not in self._open:
            stores = self._stack.enter_context(hold(stored.complete(load()), source))
            latest = stores.jobs.latest_start(source=source.value)
            self._open[source] = SyncJob(stores, started_ns=0 if latest is None else int(latest.timestamp() * 1e9))
        return self._open[source]


@contextmanager
def as_failure() -> Generator[None]:
    """Raise the message of an error of ours as `dg.Failure`: Dagster shows no other errors. Their causes may quote documents."""
    try:
        yield
    except ConcordanceError as error:
        raise dg.Failure(str(error), allow_retries=False) from None


def chosen_partitions(context: dg.AssetExecutionContext) -> list[str] | None:
    """Return the partitions that a backfill names; None for a run over the whole source."""
    return None if context.run.tags.get(PARTITION_TAG) == WHOLE else list(context.partition_keys)


def _all_stages(source: SourceName) -> set[dg.AssetKey]:
    return {dg.AssetKey([source.value, stage]) for stage in STAGES}


def _sync_waiting(source: SourceName, work: WaitingWork) -> None:
    """Start another sync for work that arrived while this one ran; if that fails, the sensor starts it later."""
    settings = load()
    try:
        with session(settings.postgres_dsn) as connection:
            if not work.pending(connection):
                return
        start_sync(settings, source, partitions=None, full=False, requested_by=source.value)
    except (BusyError, NotRunningError, ServiceUnavailableError) as error:
        log.info("work_left_to_sensor", source=source.value, reason=str(error))
