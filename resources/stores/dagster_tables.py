"""Check where Dagster's tables are, before it creates them."""

import psycopg

from resources.core.errors import ConfigurationError, ServiceUnavailableError
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
