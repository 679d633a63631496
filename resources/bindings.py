"""The Dagster resource that opens a source's sync when its first stage asks for it and closes it when the run ends.

The in-process executor runs all stages of a run in one process, so the lock, job row and counts live as long as the run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import dagster as dg
import structlog
from pydantic import PrivateAttr

from resources.core.domain import STAGES, SourceName
from resources.core.errors import BusyError, NotRunningError, ServiceUnavailableError
from resources.launch import JOB_TAG, PARTITION_TAG, WHOLE, start_sync
from resources.logging import configure
from resources.settings import load
from resources.sources import spec_of
from resources.sources.spec import WaitingWork
from resources.stores.postgres import session
from resources.syncing import SyncJob, open_sync

log = structlog.get_logger("bindings")


class Syncs(dg.ConfigurableResource["Syncs"]):
    """The open syncs of this run, by source. Configured by the environment alone, so no secret enters a run's configuration."""

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
                job_id=context.run.tags.get(JOB_TAG),
                partitions=keys,
                run_id=context.run.run_id,
                requested_by="schedule" if keys is None else "backfill",
            )
            self._open[source] = self._stack.enter_context(sync)
            selected = context.run.asset_selection
            keys_of_run = selected if selected is not None else _all_stages(source)
            self._open[source].planned = {key.path[-1] for key in keys_of_run if key.path[0] == source.value}
            self._open[source].considerate = True
        return self._open[source]

    def current(self, source: SourceName) -> SyncJob:
        """Return the sync that this run has open. Raises `KeyError` outside of a run that materialized the source."""
        return self._open[source]


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
