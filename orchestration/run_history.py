"""Delete old Dagster runs with their events, except those that say when a partition was last materialized."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime

import dagster as dg
import psycopg

from orchestration.evaluation.monthly import monthly_evaluation
from resources.core.domain import STAGES
from resources.core.durations import kept_for
from resources.settings import Settings
from resources.sources import names
from resources.stores.postgres import session
from sql.upkeep import Retention

PAGE = 100
ENDED = (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)


def prune_runs(settings: Settings, instance: dg.DagsterInstance) -> int:
    """Delete ended runs that are older than the settings allow, and return their number. Idempotent.

    The monthly evaluation's runs are kept as long as jobs, because its figures are read over months. Without the run that last changed a
    partition, Dagster would show the partition as missing.
    """
    kept = kept_for(settings.retention_runs)
    if kept is None:
        return 0
    with session(settings.postgres_dsn) as connection:
        now = Retention(connection).time()
    needed = _needed(instance)
    jobs_kept = kept_for(settings.retention_jobs)
    doomed = [
        record.dagster_run.run_id
        for record in _ended_before(instance, now - kept)
        if record.dagster_run.run_id not in needed
        and (
            record.dagster_run.job_name != monthly_evaluation.name
            or (jobs_kept is not None and record.create_timestamp < now - jobs_kept)
        )
    ]
    for run_id in doomed:
        instance.delete_run(run_id)
    with session(settings.postgres_dsn) as connection, suppress(psycopg.errors.UndefinedTable):  # of another storage
        Retention(connection).forget_checks(run_ids=doomed)
    return len(doomed)


def _ended_before(instance: dg.DagsterInstance, time: datetime) -> Iterator[dg.RunRecord]:
    old = dg.RunsFilter(statuses=list(ENDED), created_before=time)
    cursor: str | None = None
    while page := instance.get_run_records(old, limit=PAGE, cursor=cursor):
        yield from page
        cursor = page[-1].dagster_run.run_id


def _needed(instance: dg.DagsterInstance) -> set[str]:
    """Return the runs that last materialized an asset or one of its listed partitions."""
    runs: set[str] = set()
    for source in names():
        listed = set(instance.get_dynamic_partitions(source.value))
        for stage in STAGES:
            key = dg.AssetKey([source.value, stage])
            latest = instance.get_latest_storage_id_by_partition(
                key, dg.DagsterEventType.ASSET_MATERIALIZATION, partitions=listed
            )
            ids = list(latest.values())
            for start in range(0, len(ids), PAGE):
                some = dg.AssetRecordsFilter(asset_key=key, storage_ids=ids[start : start + PAGE])
                runs.update(record.run_id for record in instance.fetch_materializations(some, limit=PAGE).records)
            if (event := instance.get_latest_materialization_event(key)) is not None:
                runs.add(event.run_id)
    return runs
