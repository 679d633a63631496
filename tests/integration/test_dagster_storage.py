"""Dagster's tables in the real Postgres."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import dagster as dg
import psycopg
import pytest
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteInstigatorOrigin, RemoteRepositoryOrigin
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster_postgres.storage import DagsterPostgresStorage
from sqlalchemy.exc import SQLAlchemyError

from orchestration.supervision.storage import Storage
from resources.settings.database import in_dagster_schema
from resources.stores.dagster_tables import forget_future
from tests.fixtures.dagster_runs import dagster_storage_url, stored_instance

PROCESSES = 8


def _create_together(storage: type[DagsterPostgresStorage], dsn: str) -> list[Exception]:
    """Open the storage of an empty schema several times at once, as services do at the first start. Return the failures."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS dagster CASCADE")
        connection.execute("CREATE SCHEMA dagster")
    start = threading.Barrier(PROCESSES)
    failures: list[Exception] = []

    def open_storage() -> None:
        start.wait()
        try:
            storage.from_config_value(None, {"postgres_url": dagster_storage_url(dsn)})
        except SQLAlchemyError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_storage) for _ in range(PROCESSES)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return failures


@pytest.mark.parametrize("_attempt", [0, 1, *(pytest.param(number, marks=pytest.mark.slow) for number in range(2, 6))])
def test_services_that_start_together_create_the_tables_once(database: str, _attempt: int) -> None:
    assert _create_together(Storage, database) == []


EVENTS = 200
BEGUN = """SELECT coalesce(max(backend_start), '-infinity') FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""


def test_events_are_written_over_a_connection_that_is_kept(database: str, show: Callable[[str], None]) -> None:
    with stored_instance(database) as instance, psycopg.connect(database, autocommit=True) as connection:
        instance.report_runless_asset_event(dg.AssetMaterialization("passages", partition="first"))
        before = connection.execute(BEGUN).fetchone()
        began = time.perf_counter()
        for number in range(EVENTS):
            instance.report_runless_asset_event(dg.AssetMaterialization("passages", partition=str(number)))
        show(f"Dagster's events: {(time.perf_counter() - began) / EVENTS * 1000:.1f} ms each")
        assert connection.execute(BEGUN).fetchone() == before
        assert len(instance.get_materialized_partitions(dg.AssetKey("passages"))) == EVENTS + 1


def test_a_kept_connection_that_has_ended_is_replaced(database: str) -> None:
    with stored_instance(database) as instance, psycopg.connect(database, autocommit=True) as connection:
        instance.report_runless_asset_event(dg.AssetMaterialization("passages"))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        instance.report_runless_asset_event(dg.AssetMaterialization("passages"))
        assert len(instance.fetch_materializations(dg.AssetKey("passages"), limit=5).records) == 2


def test_a_daemon_does_not_wait_for_the_time_that_a_clock_which_was_ahead_had(database: str) -> None:
    now = time.time()
    origin = RemoteInstigatorOrigin(
        RemoteRepositoryOrigin(RegisteredCodeLocationOrigin("concordance"), "__repository__"), "waiting"
    )
    with stored_instance(database) as instance:
        for number, at in enumerate((now - 600, now + 3600)):
            state = SensorInstigatorData(
                last_tick_timestamp=at, last_tick_start_timestamp=now - 600, cursor="7", min_interval=30
            )
            one = InstigatorState(origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, state)
            (instance.update_instigator_state if number else instance.add_instigator_state)(one)
            instance.create_tick(
                TickData(
                    one.instigator_origin_id,
                    "waiting",
                    InstigatorType.SENSOR,
                    TickStatus.SKIPPED,
                    at,
                    selector_id=one.selector_id,
                )
            )
        forget_future(in_dagster_schema(database), now)
        forget_future(in_dagster_schema(database), now)
        (kept,) = instance.all_instigator_state()
        assert kept.instigator_data == SensorInstigatorData(
            last_tick_timestamp=now, last_tick_start_timestamp=now - 600, cursor="7", min_interval=30
        )
        assert [tick.timestamp for tick in instance.get_ticks(one.instigator_origin_id, one.selector_id)] == [now - 600]
