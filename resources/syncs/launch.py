"""Start a sync from outside Dagster: create a job row, then launch the run through the webserver's GraphQL API.

Used by the HTTP interface and the command line, so it does not import Dagster.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import httpx
import structlog

from resources import dagster_access, http_clients, tracing
from resources.core.domain import SourceName
from resources.core.errors import InvalidRequestError, NoAnswerError, NotRunningError, ServiceUnavailableError
from resources.core.json import object_of
from resources.settings import Settings
from resources.sources import configured, spec_of, stored
from resources.stores import disk
from resources.stores.postgres import session
from resources.syncs.jobs import create_job, end_job, launching
from sql.rows import Started
from sql.sync import Jobs

LOCATION = "concordance"
"""Name of the Dagster code location, under which the state of schedules and sensors is stored."""
REPOSITORY = "__repository__"
JOB_TAG = "concordance/job_id"
SOURCE_TAG = "concordance/source"
PLANNED_TAG = "concordance/planned"
"""Of a run whose partitions a sync of the whole source has left to it: Dagster's queue starts it."""
PREPARES_TAG = "concordance/prepares"
"""Of a run that prepares documents for a sync: the id of the sync's job."""
NAME_TAG = "concordance/preparing"
"""The name of its lease."""
PRIORITY_TAG = "dagster/priority"
PARENT_TAG = "dagster/parent_run_id"
"""Of a run that somebody executes again: Dagster copies the tags of the run before."""
TRACE_TAG = "concordance/traceparent"
"""Continues the trace of the request in the run."""
WHOLE = "whole source"
"""Partition tag of a run over a whole source; no source has a partition of this name. Dagster refuses runs of partitioned assets without
the tag, because it could not say which upstream partitions they read."""
PARTITION_TAG = "dagster/partition"
BACKFILL_TAG = "dagster/backfill"
RANGE_START_TAG, RANGE_END_TAG = "dagster/asset_partition_range_start", "dagster/asset_partition_range_end"
LAUNCH_TIMEOUT_SECONDS = 30

log = structlog.get_logger("sync")

StartedSync = Started

_LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""


def start_sync(
    settings: Settings,
    source: SourceName,
    *,
    partitions: Sequence[str] | None,
    full: bool,
    requested_by: str,
) -> StartedSync:
    """Create the job and launch its Dagster run. Blocks for about 0.5 s.

    Raises `InvalidRequestError` if the source is not set up, `BusyError` if it is already being synced, in most cases with the request
    added to that sync (`merged`), `StorageFullError` or
    `StorageReadOnlyError` if a disk keeps it from starting, and `NotRunningError` if Dagster does not answer for another reason.
    The job is closed again.
    """
    try:
        if not configured(stored.complete(settings), source):
            raise InvalidRequestError(spec_of(source).help)
        job = create_job(
            settings.postgres_dsn,
            source,
            partitions=partitions,
            full=full,
            requested_by=requested_by,
            merge=True,
            elsewhere=settings.dagster_database_url is not None,
        )
    except ServiceUnavailableError as error:
        raise disk.cause(settings) or error from error
    try:
        with launching(settings.postgres_dsn, job.job_id):
            launch_run(settings, source, job.job_id)
    except NoAnswerError as error:  # its run may start late; if not, the next request takes the job over
        log.warning("sync_delayed", job_id=job.job_id, reason=str(error))
    except NotRunningError as error:
        reason = disk.cause(settings) or error
        try:
            end_job(settings.postgres_dsn, job.job_id, str(reason))
        except ServiceUnavailableError as fault:  # the next sync closes it; the reason matters more
            log.warning("job_not_closed", job_id=job.job_id, reason=str(fault))
        raise reason from error
    return job


def launch_again(settings: Settings, source: SourceName, job_id: str) -> bool:
    """Launch another run of a job that no process has begun, because its run was late. Return False if one has.

    If Dagster does not start it either, the next request for the source takes the job over.
    """
    with session(settings.postgres_dsn, autocommit=True) as connection:
        jobs = Jobs(connection)
        if not jobs.delay_job(job_id=job_id):
            return False
        planned = jobs.job(job_id=job_id).planned
    try:
        with launching(settings.postgres_dsn, job_id):
            launch_run(settings, source, job_id, planned=planned)
    except NotRunningError as error:
        log.warning("sync_delayed", job_id=job_id, reason=str(error))
    return True


def launch_run(settings: Settings, source: SourceName, job_id: str, *, planned: bool = False) -> str:
    """Launch the run of a job, and return its id; one that is `planned` waits in Dagster's queue. Raises `NotRunningError`."""
    return launch(settings, f"sync_{source.value}", run_tags(source, job_id, planned=planned))


def launch_preparing(settings: Settings, source: SourceName, job_id: str, name: str) -> str:
    """Launch a run that prepares documents for a sync, behind the syncs in Dagster's queue. Raises `NotRunningError`."""
    tags = {PREPARES_TAG: job_id, NAME_TAG: name, SOURCE_TAG: source.value, PLANNED_TAG: "true", PRIORITY_TAG: "-1"}
    return launch(settings, preparing_job(source), tags)


def preparing_job(source: SourceName) -> str:
    """Return the name of Dagster's job that prepares documents of a source."""
    return f"prepare_{source.value}"


def launch(settings: Settings, job: str, tags: Mapping[str, str]) -> str:
    """Launch a run of one of Dagster's jobs, and return its id. Raises `NotRunningError`."""
    params = {
        "selector": {"repositoryLocationName": LOCATION, "repositoryName": REPOSITORY, "jobName": job},
        "executionMetadata": {"tags": [{"key": key, "value": value} for key, value in tags.items()]},
    }
    try:
        response = graphql(settings, _LAUNCH, params=params)
    except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
        raise NoAnswerError(
            f"Dagster did not answer the request to start {job} within {LAUNCH_TIMEOUT_SECONDS} s."
        ) from error
    except httpx.HTTPError as error:
        raise NotRunningError(
            f"Dagster does not answer at {settings.dagster_address} ({error or type(error).__name__})."
            " `concordance status` says whether it is stopped or being restarted."
        ) from error
    try:
        body: Any = response.raise_for_status().json()
    except (httpx.HTTPStatusError, ValueError) as error:
        raise NotRunningError(
            f"Dagster runs at {settings.dagster_address} but answered the request to start {job} with status"
            f" {response.status_code}. Its log says why: {settings.home / 'logs' / 'dagster-webserver.log'}"
        ) from error
    result = object_of(object_of(body.get("data")).get("launchRun"))
    if result.get("__typename") != "LaunchRunSuccess":
        fault = result.get("message") or result.get("errors") or body.get("errors") or result.get("__typename")
        raise NotRunningError(f"Dagster did not start {job}: {fault}. Run `concordance status` for its state.")
    return str(result["run"]["runId"])


def graphql(settings: Settings, query: str, **variables: object) -> httpx.Response:
    """Return the response of Dagster's webserver to a query, whatever its status. Raises `httpx.HTTPError` if there is none."""
    body = {"query": query, "variables": variables}
    with http_clients.own(settings.dagster_address, timeout=LAUNCH_TIMEOUT_SECONDS) as http:
        return http.post("/graphql", json=body, headers=dagster_access.headers(settings))


def job_of(tags: Mapping[str, str]) -> str | None:
    """Return the id of the job that a run is of, by its tags; None if they name none. Anyone who launches a run may write tags."""
    try:
        return str(UUID(tags[JOB_TAG]))
    except (KeyError, ValueError):
        return None


def run_tags(source: SourceName, job_id: str, *, planned: bool = False) -> dict[str, str]:
    tags = {JOB_TAG: job_id, SOURCE_TAG: source.value, PARTITION_TAG: WHOLE}
    if planned:
        tags[PLANNED_TAG] = "true"
    parent = tracing.carrier().get(tracing.TRACEPARENT)
    return tags if parent is None else tags | {TRACE_TAG: parent}
