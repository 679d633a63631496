"""Settings of the databases and of Dagster: the embedded ones' ports, or the addresses of your own."""

from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from pydantic import Field, SecretStr, field_validator

from resources.settings.service import Port, ServiceSettings
from resources.settings.urls import HttpUrl, StoreUrl, check_postgres_url
from resources.withheld import Withheld

DAGSTER_SCHEMA = "dagster"
"""Schema of Dagster's tables in our database. Dagster creates the tables but not the schema."""


def in_dagster_schema(dsn: str) -> str:
    """Return the URL of our database with Dagster's schema as its search path."""
    parts = urlsplit(dsn)
    query = dict(parse_qsl(parts.query))
    query["options"] = f"{query.get('options', '')} -csearch_path={DAGSTER_SCHEMA}".strip()
    return urlunsplit(parts._replace(query=urlencode(query, quote_via=quote)))


class DatabaseSettings(ServiceSettings):
    """Postgres, Qdrant, the lake and Dagster."""

    postgres_port: Port = 5433
    postgres_url: SecretStr | None = None
    postgres_prepare_threshold: Annotated[int, Field(ge=0)] = 5
    """Executions after which the HTTP service prepares a statement; 0: never."""
    dagster_database_url: SecretStr | None = None
    """Where Dagster keeps its tables, as it is; unset: in the schema `dagster` of our database."""
    qdrant_port: Port = 6333
    qdrant_url: HttpUrl | None = None
    qdrant_api_key: SecretStr | None = None
    """Unset: none for your own; the embedded one demands the key kept in HOME."""
    lake_url: StoreUrl | None = None
    """Where the lake lives: file:///path, s3://bucket/prefix, az://… or gs://…."""
    dagster_port: Port = 3000
    dagster_url: HttpUrl | None = None
    dagster_secret: SecretStr | None = None
    """Sent to Dagster's webserver as a bearer token. Unset: none for your own; ours demands the one kept in HOME."""

    @field_validator("postgres_url", "dagster_database_url")
    @classmethod
    def _of_postgres(cls, url: SecretStr | None) -> SecretStr | None:
        if url is not None and not isinstance(url, Withheld):  # `up` has checked it
            check_postgres_url(url)
        return url

    @property
    def passfile(self) -> Path:
        """Password file of the embedded Postgres, readable by its owner alone."""
        return self.home / "postgres" / "pgpass"

    @property
    def postgres_dsn(self) -> str:
        """libpq URL of the database, without a password when Postgres is embedded (libpq reads it from `passfile`)."""
        if self.postgres_url is not None:
            return self.postgres_url.get_secret_value()
        return (
            f"postgresql://concordance@127.0.0.1:{self.postgres_port}/concordance?passfile={quote(str(self.passfile))}"
        )

    @property
    def dagster_dsn(self) -> str:
        """libpq URL of Dagster's tables, which are in the first schema of its search path."""
        if self.dagster_database_url is not None:
            return self.dagster_database_url.get_secret_value()
        return in_dagster_schema(self.postgres_dsn)

    @property
    def qdrant_address(self) -> str:
        return (self.qdrant_url or f"http://127.0.0.1:{self.qdrant_port}").rstrip("/")

    @property
    def dagster_address(self) -> str:
        return (self.dagster_url or f"http://127.0.0.1:{self.dagster_port}").rstrip("/")

    @property
    def lake_address(self) -> str:
        return (self.lake_url or (self.home / "lake").as_uri()).rstrip("/")

    @property
    def embedded_postgres(self) -> bool:
        """True if `up` runs Postgres."""
        return self.postgres_url is None

    @property
    def embedded_qdrant(self) -> bool:
        """True if `up` runs the vector server."""
        return self.qdrant_url is None
