"""Maintenance, backfills and planned syncs wait in Dagster's queue; the limit of a source's pool counts from the first run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import dagster as dg
import pytest
import yaml
from dagster._core.execution.api import create_execution_plan
from dagster._core.remote_origin import RegisteredCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin
from dagster._core.workspace.context import WorkspaceRequestContext
from dagster._daemon.run_coordinator.queued_run_coordinator_daemon import QueuedRunCoordinatorDaemon

from assets import catalog
from orchestration.dagster_api import SubmitRunContext
from orchestration.schedules import canceled_sync
from orchestration.supervision.environment import ROOT
from resources.core.domain import SourceName
from resources.schema import prepare
from resources.settings import Settings
from resources.stores.postgres import session
from resources.syncs import launch
from resources.syncs.jobs import create_job
from resources.syncs.launch import BACKFILL_TAG, LOCATION, REPOSITORY, run_tags
from sql.sync import Jobs
from tests.fixtures.dagster_runs import instance_with

LIMIT = 2


@dg.op(pool="slack")
def work() -> None:
    """Do nothing."""


@dg.job
def sync_slack() -> None:
    """A job in the pool of its source."""
    work()


@pytest.fixture
def instance(database: str) -> Iterator[dg.DagsterInstance]:
    more = {
        "run_coordinator": {"module": "orchestration.supervision.coordinator", "class": "SyncRunCoordinator"},
        "run_launcher": {"module": "tests.fixtures.idle_launcher", "class": "IdleLauncher"},
        "concurrency": {
            **yaml.safe_load((ROOT / "dagster.yaml").read_text())["concurrency"],
            "pools": {"granularity": "run", "default_limit": LIMIT},
        },
    }
    with instance_with(database, more) as made:
        yield made


def submit(instance: dg.DagsterInstance, tags: dict[str, str]) -> dg.DagsterRun:
    repository = RemoteRepositoryOrigin(RegisteredCodeLocationOrigin(LOCATION), REPOSITORY)
    run = instance.create_run_for_job(
        sync_slack,
        execution_plan=create_execution_plan(sync_slack),
        tags=tags,
        remote_job_origin=RemoteJobOrigin(repository, sync_slack.name),
    )
    workspace = cast("WorkspaceRequestContext", None)
    return instance.run_coordinator.submit_run(SubmitRunContext(run, workspace))


def test_only_planned_syncs_wait(instance: dg.DagsterInstance) -> None:
    assert submit(instance, run_tags(SourceName.SLACK, "job", planned=True)).status == dg.DagsterRunStatus.QUEUED
    assert submit(instance, run_tags(SourceName.SLACK, "job", planned=False)).status == dg.DagsterRunStatus.STARTING


def test_the_runs_of_a_backfill_wait_for_the_pool(instance: dg.DagsterInstance) -> None:
    """Of partitions that are no neighbours, each has its run."""
    runs = [submit(instance, {BACKFILL_TAG: "chosen"}).run_id for _ in range(LIMIT + 3)]
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    waiting: Any = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.run_id for run in waiting] == runs[:LIMIT]


def test_maintenance_runs_one_at_a_time(instance: dg.DagsterInstance) -> None:
    """After an outage, the schedules of all missed jobs start at once."""
    runs = [submit(instance, catalog.purpose(catalog.UPKEEP)) for _ in range(3)]
    assert {run.status for run in runs} == {dg.DagsterRunStatus.QUEUED}
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    waiting: Any = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.run_id for run in waiting] == [runs[0].run_id]


def test_the_pool_has_its_limit_before_the_queue_is_looked_at(instance: dg.DagsterInstance) -> None:
    runs = [submit(instance, run_tags(SourceName.SLACK, "job", planned=True)).run_id for _ in range(LIMIT + 3)]
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    waiting: Any = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.run_id for run in waiting] == runs[:LIMIT]


def test_a_limit_that_an_operator_has_set_is_kept(instance: dg.DagsterInstance) -> None:
    instance.event_log_storage.set_concurrency_slots("slack", 5)
    submit(instance, run_tags(SourceName.SLACK, "job", planned=True))
    assert [(one.name, one.limit) for one in instance.event_log_storage.get_pool_limits()] == [("slack", 5)]


def test_runs_that_prepare_documents_wait_behind_planned_ones(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []
    monkeypatch.setattr(launch, "launch", lambda _settings, job, tags: asked.append({"job": job, **tags}))
    launch.launch_preparing(Settings(), SourceName.SLACK, "job", "name")
    (tags,) = asked
    assert tags.pop("job") == "prepare_slack"
    preparing = submit(instance, tags).run_id
    planned = [submit(instance, run_tags(SourceName.SLACK, "job", planned=True)).run_id for _ in range(2)]
    daemon = QueuedRunCoordinatorDaemon(interval_seconds=1)
    waiting: Any = daemon._get_runs_to_dequeue(instance, instance.get_concurrency_config(), None)
    assert [run.run_id for run in waiting] == planned
    assert instance.get_run_by_id(preparing)


@pytest.mark.parametrize("planned", [True, False], ids=["queued", "starting"])
def test_the_job_of_a_run_that_is_terminated_before_it_begins_is_closed(
    instance: dg.DagsterInstance, database: str, monkeypatch: pytest.MonkeyPatch, planned: bool
) -> None:
    """No process does so, and whoever waited for the sync was told that the machine is busy, until another sync was started."""
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", database)
    prepare(database)
    job = create_job(database, SourceName.SLACK, partitions=None, full=False, requested_by="test")
    run = submit(instance, run_tags(SourceName.SLACK, job.job_id, planned=planned))
    other = submit(instance, {})
    for one in (other, run):
        assert state(database, job.job_id) == ("running", None)
        if not instance.run_coordinator.cancel_run(one.run_id):
            instance.report_run_canceled(one)
        look(instance, canceled_sync, dg.DagsterEventType.RUN_CANCELED, one.run_id)
    status, reason = state(database, job.job_id)
    assert status == "failed"
    assert "terminated before it began" in str(reason)


def test_a_sync_that_has_begun_closes_its_job_itself(
    instance: dg.DagsterInstance, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster may show a run as terminated whose process does not know it yet."""
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", database)
    prepare(database)
    job = create_job(database, SourceName.SLACK, partitions=None, full=False, requested_by="test")
    run = submit(instance, run_tags(SourceName.SLACK, job.job_id))
    with session(database, autocommit=True) as connection:
        Jobs(connection).claim_job(job_id=job.job_id, run_id=run.run_id, lease="lease")
    instance.report_run_canceled(run)
    look(instance, canceled_sync, dg.DagsterEventType.RUN_CANCELED, run.run_id)
    assert state(database, job.job_id) == ("running", None)


def state(dsn: str, job_id: str) -> tuple[str, str | None]:
    with session(dsn) as connection:
        row = Jobs(connection).job(job_id=job_id)
        return row.status, row.error_message


def look(instance: dg.DagsterInstance, sensor: Any, event: dg.DagsterEventType, run_id: str) -> None:
    """Let a sensor look at a run as Dagster's daemon does."""
    (entry,) = instance.all_logs(run_id, of_type=event)
    run = instance.get_run_by_id(run_id)
    assert run is not None
    sensor(dg.build_run_status_sensor_context(sensor.name, entry.dagster_event, instance, run))
