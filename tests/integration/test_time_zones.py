"""A Postgres of one's own has any time zone: Debian's is Etc/UTC, which polars does not compare with UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql

from assets.upkeep.erase import erase
from tests.fixtures.installation import Installation
from tests.fixtures.s3 import BUCKET, S3Server


@pytest.fixture
def store() -> Iterator[S3Server]:
    with S3Server() as made:
        yield made


@pytest.mark.parametrize("place", ["folder", "object store"])
@pytest.mark.parametrize("zone", ["Etc/UTC", "Asia/Kathmandu"])
def test_syncs_and_erasure_work_in_every_time_zone(
    store: S3Server, installation: Installation, zone: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with psycopg.connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET timezone TO {}").format(name, sql.Literal(zone)))
    if place == "object store":
        for variable, value in store.environment.items():
            monkeypatch.setenv(variable, value)
        installation.settings = installation.settings.model_copy(update={"lake_url": f"s3://{BUCKET}/lake"})
    installation.write("heron.md", "# Heron\n\nThe heron stands in the pond.\n")
    installation.write("otter.md", "# Otter\n\nThe otter sleeps until noon.\n")
    installation.sync()
    installation.write("heron.md", "# Heron\n\nThe heron has flown to another pond.\n")
    (installation.root / "otter.md").unlink()
    installation.sync()
    assert installation.agrees()
    if place == "folder":  # the simulated store answers from this process, which erasure's calls into Rust block
        erase(installation.settings, after=timedelta())
        assert installation.rows("SELECT count(*) AS documents FROM documents") == [{"documents": 1}]
    installation.sync(full=True)
    assert [one["title"] for one in installation.points()] == ["Heron"]
