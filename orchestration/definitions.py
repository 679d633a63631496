"""The Dagster code location: assets, checks, jobs, schedules and sensors of all sources."""

from contextlib import suppress

import dagster as dg
import psycopg

from assets.factory import source_assets
from orchestration.asset_checks import source_checks
from orchestration.erasure import daily_erasure, daily_erasure_schedule
from orchestration.evaluation.monthly import monthly_evaluation, monthly_evaluation_schedule, relevance_evaluation
from orchestration.maintenance import weekly_upkeep, weekly_upkeep_schedule
from orchestration.people import people_job, people_schedule
from orchestration.preparing import preparation_job
from orchestration.reconciliation import JOBS, SCHEDULES
from orchestration.schedules import canceled_sync, event_sensor, failure_alert, sync_job, sync_schedule, waiting_sensor
from resources.bindings import Syncs
from resources.core.domain import SourceName
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings, load
from resources.sources import specs
from resources.sources.stored import complete, storable


def definitions() -> dg.Definitions:
    """Return the code location."""
    settings = load()
    set_up = _set_up(settings)
    on = {spec.name: set_up[spec.name] or bool(storable(spec)) for spec in specs()}
    jobs = {spec.name: sync_job(spec.name) for spec in specs()}
    people = people_job()
    return dg.Definitions(
        assets=[
            *(
                asset
                for spec in specs()
                for asset in source_assets(spec, settings.sync_minutes, set_up=set_up[spec.name])
            ),
            relevance_evaluation,
        ],
        asset_checks=[check for source in jobs for check in source_checks(source)],
        jobs=[
            *jobs.values(),
            *map(preparation_job, jobs),
            people,
            weekly_upkeep,
            *JOBS,
            daily_erasure,
            monthly_evaluation,
        ],
        schedules=[
            *(sync_schedule(spec.name, jobs[spec.name], settings.sync_minutes, on=on[spec.name]) for spec in specs()),
            people_schedule(people, settings),
            weekly_upkeep_schedule,
            *SCHEDULES,
            daily_erasure_schedule,
            monthly_evaluation_schedule,
        ],
        sensors=[
            *(
                waiting_sensor(spec.name, spec.waiting, jobs[spec.name], set_up=set_up[spec.name])
                for spec in specs()
                if spec.waiting
            ),
            *(
                event_sensor(spec.name, jobs[spec.name], on=on[spec.name])
                for spec in specs()
                if spec.capabilities.events
            ),
            failure_alert,
            canceled_sync,
        ],
        resources={"syncs": Syncs()},
        executor=dg.in_process_executor,  # also for backfills: one process, and so one lock and one job row
    )


def _set_up(settings: Settings) -> dict[SourceName, bool]:
    """Return which sources are set up: by stored settings too, if Postgres answers and has been migrated."""
    with suppress(ServiceUnavailableError, psycopg.errors.UndefinedTable):
        settings = complete(settings)
    return {spec.name: spec.configured(settings) for spec in specs()}


defs = definitions()
