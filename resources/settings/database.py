"""Settings of the databases and of Dagster: the embedded ones' ports, or the addresses of your own."""

from pathlib import Path
from urllib.parse import quote

from pydantic import SecretStr, field_validator

from resources.settings.service import Port, ServiceSettings
from resources.settings.urls import HttpUrl, StoreUrl, check_postgres_url
from resources.withheld import Withheld


class DatabaseSettings(ServiceSettings):
    """Postgres, Qdrant, the lake and Dagster."""

    postgres_port: Port = 5433
    postgres_url: SecretStr | None = None
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

    @field_validator("postgres_url")
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
