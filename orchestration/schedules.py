"""The sync job and schedule of each source, sensors for waiting uploads and events, and an alert when a run fails."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import dagster as dg

from assets import catalog
from orchestration import dagster_api
from orchestration.dagster_api import UnresolvedAssetJobDefinition
from orchestration.jobs import ALERTED
from resources.alerts import alert
from resources.core.domain import SourceName
from resources.core.durations import duration
from resources.core.errors import BusyError
from resources.settings import Settings, load
from resources.sources import configured, label, spec_of, stored
from resources.sources.spec import WaitingWork
from resources.stores.postgres import Connection, session
from resources.stores.waiting import REQUESTED_BY, mark_requested, waiting
from resources.syncs.jobs import create_job, fail_run, fail_unbegun
from resources.syncs.launch import PREPARES_TAG, SOURCE_TAG, job_of, launch_again, run_tags
from sql.rows import SourceState
from sql.sync import Jobs, Partitions

FAILURE_SECONDS = 5
MOST_RUNS = 1000
"""Failed runs of one job that are looked through."""
LATE = timedelta(minutes=1)
"""A run that ends this long after its creation without having started was late. One whose process died ends sooner."""
PAUSE = timedelta(hours=1)
"""How long a schedule skips a source that refused our credentials."""
LONGEST_PAUSE_SECONDS = 600
"""Longest pause of a sensor whose syncs fail. Schedules and people start syncs meanwhile."""
SENSOR_SECONDS = 10
"""Interval of the sensors, a fallback for the runs that the HTTP service starts itself."""


def sync_job(source: SourceName) -> UnresolvedAssetJobDefinition:
    """Return the job that syncs a source: its five assets and their checks, in one process."""
    return dagster_api.define_asset_job(
        name=f"sync_{source.value}",
        selection=dagster_api.asset_groups(source.value),
        executor_def=dg.in_process_executor,
        description=f"Sync the index with {label(source)}. Takes a few seconds if nothing changed. A run without a partition "
        "syncs the whole source.",
        tags={SOURCE_TAG: source.value, **catalog.purpose("sync")},
        owners=catalog.OWNERS,
    )


def _request(
    source: SourceName,
    requested_by: str,
    partitions: Sequence[str] | None = None,
    accepted: Callable[[], None] = lambda: None,
) -> dg.RunRequest | dg.SkipReason:
    """Create the job row and request its run, or add the request to the running sync, unless the source is not set up or paused.

    `accepted` is called in the first two cases.
    """
    settings = load()
    with session(settings.postgres_dsn) as connection:
        settings = stored.complete(settings, connection)
        state = Partitions(connection, source.value).source_state()
    if not configured(settings, source):
        return dg.SkipReason(spec_of(source).help)
    if (
        state is not None
        and state.paused_at is not None
        and not _retry_due(state, spec_of(source).fingerprint(settings))
    ):
        return dg.SkipReason(
            f"Paused: {state.paused_reason} The sync is retried within an hour; start one to retry now."
        )
    try:
        job = create_job(
            settings.postgres_dsn,
            source,
            partitions=partitions,
            full=False,
            requested_by=requested_by,
            merge=True,
            elsewhere=settings.dagster_database_url is not None,
        )
    except BusyError as error:
        if error.merged:
            accepted()
        return dg.SkipReason(f"{error} Job {error.job_id}.")
    accepted()
    return dg.RunRequest(run_key=None, tags=run_tags(source, job.job_id))


def _backing_off(connection: Connection, source: SourceName) -> dg.SkipReason | None:
    """Return why a sensor does not start a sync yet: the last ones failed, and each failure doubles the pause."""
    seconds = Jobs(connection).retry_after(source=source.value, longest=LONGEST_PAUSE_SECONDS)
    if seconds is None or seconds <= 0:
        return None
    return dg.SkipReason(
        f"The last syncs of {label(source)} failed. What is waiting is tried again in {seconds:.0f} s."
    )


def _retry_due(state: SourceState, credentials: str) -> bool:
    """Return True if a paused source has new credentials, or was last tried more than an hour ago."""
    return bool(
        state.credentials != credentials or state.tried_at is None or datetime.now(UTC) - state.tried_at > PAUSE
    )


def sync_schedule(
    source: SourceName, job: UnresolvedAssetJobDefinition, minutes: int, *, on: bool
) -> dg.ScheduleDefinition:
    """Return the schedule of a source, enabled if the source is or may be set up meanwhile; a tick during its sync is added to it."""

    @dagster_api.schedule(
        name=f"sync_{source.value}_schedule",
        cron_schedule=f"*/{minutes} * * * *" if minutes < 60 else "0 * * * *",
        job=job,
        description=f"Sync {label(source)} every {minutes} minutes (CONCORDANCE_SYNC_MINUTES)."
        + _off(source, set_up=on),
        tags=catalog.purpose("sync"),
        owners=catalog.OWNERS,
        default_status=dg.DefaultScheduleStatus.RUNNING if on else dg.DefaultScheduleStatus.STOPPED,
    )
    def tick() -> dg.RunRequest | dg.SkipReason:
        return _request(source, "schedule")

    return tick


def _off(source: SourceName, *, set_up: bool) -> str:
    return "" if set_up else f" Off: {spec_of(source).help}"


def _sensor_status(*, set_up: bool) -> dg.DefaultSensorStatus:
    return dg.DefaultSensorStatus.RUNNING if set_up else dg.DefaultSensorStatus.STOPPED


def waiting_sensor(
    source: SourceName, work: WaitingWork, job: UnresolvedAssetJobDefinition, *, set_up: bool
) -> dg.SensorDefinition:
    """Return the sensor that starts a sync if work of the source is waiting."""

    @dagster_api.sensor(
        name=work.sensor,
        job=job,
        minimum_interval_seconds=SENSOR_SECONDS,
        description=f"Sync {label(source)} if something waits for it." + _off(source, set_up=set_up),
        tags=catalog.purpose("sync"),
        owners=catalog.OWNERS,
        default_status=_sensor_status(set_up=set_up),
    )
    def look() -> dg.RunRequest | dg.SkipReason:
        with session(load().postgres_dsn) as connection:
            if not work.pending(connection):
                return dg.SkipReason("Nothing is waiting.")
            if (pause := _backing_off(connection, source)) is not None:
                return pause
        return _request(source, "sensor")

    return look


def event_sensor(source: SourceName, job: UnresolvedAssetJobDefinition, *, on: bool) -> dg.SensorDefinition:
    """Return the sensor that syncs the partitions named by a source's events if the HTTP service could not start that sync.

    It is enabled as the schedule is.
    """

    @dagster_api.sensor(
        name=f"waiting_events_{source.value}",
        job=job,
        minimum_interval_seconds=SENSOR_SECONDS,
        description=f"Sync what events of {label(source)} name." + _off(source, set_up=on),
        tags=catalog.purpose("sync"),
        owners=catalog.OWNERS,
        default_status=_sensor_status(set_up=on),
    )
    def look() -> dg.RunRequest | dg.SkipReason:
        with session(load().postgres_dsn) as connection:
            found = waiting(connection, source)
            pause = _backing_off(connection, source)
        if found is None:
            return dg.SkipReason("No events are waiting.")
        if pause is not None:
            return pause

        def accepted() -> None:
            with session(load().postgres_dsn) as connection:
                mark_requested(connection, found)

        return _request(source, REQUESTED_BY, found.partitions, accepted)

    return look


@dagster_api.run_failure_sensor(
    name="alert_on_failure",
    description="Send an alert for a failed run other than a sync, and close the job of a sync that could not.",
    tags=catalog.purpose("alerts"),
    metadata=catalog.DOCUMENTATION,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=FAILURE_SECONDS,
)
def failure_alert(context: dg.RunFailureSensorContext) -> None:
    """Send an alert for a failed run other than a sync, and close the job of a sync that could not."""
    run = context.dagster_run
    record = context.instance.get_run_record_by_id(run.run_id)
    late = (
        record is not None
        and record.start_time is None
        and datetime.now(UTC) - record.create_timestamp.astimezone(UTC) > LATE
    )
    settings = load()
    quiet = _has_alerted(context) or (record is not None and _is_told(context.instance, record, settings))
    close_failed(settings, run, context.failure_event.message, late=late, quiet=quiet)


def _is_told(instance: dg.DagsterInstance, record: dg.RunRecord, settings: Settings) -> bool:
    """Return True if an earlier failure of the job told of it in this period of CONCORDANCE_LIMITS__ALERT_REPEAT.

    Periods rather than the time since the latest: a job that keeps failing alerts once in each, and of runs that fail together the first.
    """
    created, seconds = record.create_timestamp.astimezone(UTC), duration(settings.alert_repeat).total_seconds()
    begun = datetime.fromtimestamp(created.timestamp() // seconds * seconds, UTC)
    earlier = dg.RunsFilter(
        job_name=record.dagster_run.job_name,
        statuses=[dg.DagsterRunStatus.FAILURE],
        created_after=begun,
        created_before=created,
    )
    return any(_alerts(run) for run in instance.get_runs(earlier, limit=MOST_RUNS))


def _alerts(run: dg.DagsterRun) -> bool:
    """Return True if a failure of the run alerts by itself: it is neither the job of a sync nor does a sync do its work."""
    return job_of(run.tags) is None and PREPARES_TAG not in run.tags


def _has_alerted(context: dg.RunFailureSensorContext) -> bool:
    """Return True if the run failed with a `dg.Failure` that says so."""
    failures = [event.step_failure_data.user_failure_data for event in context.get_step_failure_events()]
    return any(failure is not None and ALERTED in failure.metadata for failure in failures)


def close_failed(
    settings: Settings, run: dg.DagsterRun, message: str | None, *, late: bool, quiet: bool = False
) -> None:
    """Close the job of a failed sync unless that is done, and send an alert if we did not launch it as one, as for a backfill, unless
    `quiet`. Of the message only the first line counts.

    Syncs that fail alert by the rules of `resources.alerts`. A sync whose run was so late to start that Dagster gave it up has not
    failed: it is started again.
    """
    job_id = job_of(run.tags)
    if late and job_id is not None and launch_again(settings, SourceName(run.tags[SOURCE_TAG]), job_id):
        return
    said = (message or "").strip().partition("\n")[0] or "Its log says why."
    reason = f"Dagster run {run.run_id} of {run.job_name} failed. {said}"
    fail_run(settings.postgres_dsn, run.run_id, job_id, reason)
    if _alerts(run) and not quiet:
        alert(settings, f"Dagster run {run.run_id} of {run.job_name} failed. Its log says why.")


@dagster_api.run_status_sensor(
    run_status=dg.DagsterRunStatus.CANCELED,
    name="close_terminated_syncs",
    description="Close the job of a sync whose run was terminated before it began.",
    tags=catalog.purpose("sync"),
    metadata=catalog.DOCUMENTATION,
    default_status=dg.DefaultSensorStatus.RUNNING,
    minimum_interval_seconds=FAILURE_SECONDS,
)
def canceled_sync(context: dg.RunStatusSensorContext) -> None:
    """Close the job of a sync whose run was terminated before it began."""
    job_id = job_of(context.dagster_run.tags)
    if job_id is not None:
        fail_unbegun(load().postgres_dsn, job_id)
