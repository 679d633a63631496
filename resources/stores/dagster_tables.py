"""Dagster's tables: check where they are before it creates them, and remove times of the future."""

import psycopg

from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.logging import logger
from resources.stores.postgres import said

SETTING = "CONCORDANCE_DAGSTER_DATABASE_URL"
REMEDY = (
    "Set it to a URL of Postgres itself that ends in `?options=-csearch_path%3Ddagster`, or to one with a role or a database of its own, "
    "whose search path leads to Dagster's schema: see docs/operations.md, Behind PgBouncer."
)
_SCHEMA = """
SELECT
    current_schema() AS schema,
    current_schema() IS NOT NULL AND to_regclass(quote_ident(current_schema()) || '.schema_migrations') IS NOT NULL AS ours
"""

_FUTURE_TICKS = "DELETE FROM job_ticks WHERE timestamp > to_timestamp(%(now)s) AT TIME ZONE 'UTC'"
_FUTURE_STATES = """
UPDATE instigators AS i SET instigator_body = jsonb_set(i.instigator_body::jsonb, '{job_specific_data}', n.state)::text
FROM (
    SELECT
        s.id,
        jsonb_object_agg(
            e.key,
            CASE
                WHEN right(e.key, 10) = '_timestamp' AND jsonb_typeof(e.value) = 'number' AND e.value::float8 > %(now)s
                THEN to_jsonb(%(now)s::float8)
                ELSE e.value
            END
        ) AS state
    FROM (SELECT id, instigator_body::jsonb -> 'job_specific_data' AS state FROM instigators) AS s
    CROSS JOIN jsonb_each(CASE WHEN jsonb_typeof(s.state) = 'object' THEN s.state ELSE '{}' END) AS e
    GROUP BY s.id
) AS n
WHERE n.id = i.id AND n.state <> i.instigator_body::jsonb -> 'job_specific_data'
"""
log = logger("dagster")


def forget_future(dsn: str, now: float) -> None:
    """Remove what the daemon noted with a clock that was ahead: until then it would start nothing. Call it before the daemon starts."""
    try:
        with psycopg.connect(dsn, connect_timeout=10, prepare_threshold=None) as connection:
            connection.execute("SET LOCAL statement_timeout = '10s'")
            ticks = connection.execute(_FUTURE_TICKS, {"now": now}).rowcount
            states = connection.execute(_FUTURE_STATES, {"now": now}).rowcount
    except psycopg.errors.UndefinedTable:
        return
    except psycopg.Error as error:  # the daemon is started all the same
        log.warning("dagster_future_not_forgotten", reason=said(error))
        return
    if ticks or states:
        log.warning("dagster_future_forgotten", ticks=ticks, schedules_and_sensors=states)


def check_place(dsn: str) -> None:
    """Check the schema in which Dagster creates its tables, in a migrated database. Idempotent.

    Raises `ConfigurationError` if the URL leads to our own tables or to no schema, as a connection pool does that ignores or refuses the
    search path of the URL, and `ServiceUnavailableError` if Postgres does not answer.
    """
    try:
        with psycopg.connect(dsn, connect_timeout=10, prepare_threshold=None) as connection:
            row = connection.execute(_SCHEMA.encode()).fetchone()
    except psycopg.OperationalError as error:
        if "startup parameter" in str(error):
            what = "a connection pool refuses the search path of Dagster's tables, which is a startup option."
            raise ConfigurationError(what, REMEDY, setting=SETTING) from error
        raise ServiceUnavailableError(f"The database of Dagster's tables does not answer: {said(error)}") from error
    schema, ours = row or (None, False)
    if ours:
        what = f"Dagster would create its tables in the schema {schema}, among those of Concordance."
        raise ConfigurationError(what, REMEDY, setting=SETTING)
    if schema is None:
        what = "Dagster's search path leads to no schema: create it, or grant its role USAGE on it."
        raise ConfigurationError(what, REMEDY, setting=SETTING)
