"""Dumps are loaded as a whole or not at all, also by a server that is older than the programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from resources.core.errors import ConcordanceError
from resources.servers.postgres.dump import dump, load_dump
from resources.servers.processes import free_port
from resources.settings import Settings
from tests.fixtures.postgres import PostgresProcess, make_home, with_database

FIRST_WITH_THE_SETTING = 17
"""The version of Postgres that has transaction_timeout, which pg_restore sets on every server."""
SECONDS = 30
ACCOUNT = "nobody" if os.geteuid() == 0 else None
"""Postgres refuses to run as root."""


@pytest.fixture
def older_server() -> Iterator[str]:
    """URL of an empty database of the system's Postgres, if that is old enough."""
    found = [
        folder for folder in Path("/usr/lib/postgresql").glob("*/bin") if int(folder.parts[-2]) < FIRST_WITH_THE_SETTING
    ]
    if not found:
        pytest.skip(
            f"no Postgres older than {FIRST_WITH_THE_SETTING} is installed: Debian 12's package postgresql is 15"
        )
    home = make_home()
    data, port = home / "data", free_port()
    data.mkdir(mode=0o700)
    if ACCOUNT is not None:
        shutil.chown(data, ACCOUNT)
    url = f"postgresql://concordance@127.0.0.1:{port}/postgres"
    log = (home / "log").open("wb")
    initialise = [found[0] / "initdb", "-D", data, "-U", "concordance", "--auth=trust", "--no-sync"]
    subprocess.run(initialise, user=ACCOUNT, stdout=log, stderr=log, check=True)
    serve = [found[0] / "postgres", "-D", data, "-p", str(port), "-k", "", "-c", "listen_addresses=127.0.0.1", "-F"]
    server = subprocess.Popen(serve, user=ACCOUNT, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            try:
                psycopg.connect(url).close()
                break
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, (home / "log").read_text()
                time.sleep(0.05)
        yield url
    finally:
        server.kill()
        server.wait()
        log.close()
        shutil.rmtree(home)


def settings(home: Path, url: str) -> Settings:
    return Settings(_env_file=None, home=home, postgres_url=SecretStr(url))  # type: ignore[call-arg]


@pytest.fixture
def empty(postgres_server: PostgresProcess) -> Iterator[str]:
    """URL of a database without tables."""
    postgres_server.connection.execute("CREATE DATABASE empty")
    yield with_database(postgres_server.dsn, "empty")
    postgres_server.connection.execute("DROP DATABASE empty WITH (FORCE)")


@pytest.fixture
def dumped(database: str, tmp_path: Path) -> Path:
    """The dump of a migrated database with a table of a million numbers, of which the file holds some megabytes."""
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE marks AS SELECT random() AS mark FROM generate_series(1, 1000000)")
    dump(settings(tmp_path, database), tmp_path / "dump")
    return tmp_path / "dump"


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert row is not None
    return int(row[0])


def test_an_older_server_loads_a_dump(dumped: Path, database: str, older_server: str, tmp_path: Path) -> None:
    load_dump(settings(tmp_path, older_server), dumped)
    assert tables(older_server) == tables(database)
    with psycopg.connect(older_server) as connection:
        assert connection.execute("SELECT count(*) FROM marks").fetchone() == (1_000_000,)


def test_a_dump_that_is_cut_off_leaves_nothing(dumped: Path, empty: str, tmp_path: Path) -> None:
    whole = dumped.read_bytes()
    for size in (0, 100, len(whole) // 2, len(whole) - 100_000):
        dumped.write_bytes(whole[:size])
        with pytest.raises(ConcordanceError, match="pg_restore failed: "):
            load_dump(settings(tmp_path, empty), dumped)
        assert tables(empty) == 0
    dumped.write_bytes(whole)
    load_dump(settings(tmp_path, empty), dumped)
    assert tables(empty) > 1


def test_variables_of_libpq_complete_the_url(
    dumped: Path, empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they do for syncs."""
    parts = conninfo_to_dict(empty)
    monkeypatch.setenv("PGUSER", str(parts.pop("user")))
    url = f"postgresql:///?{urlencode(parts)}"
    load_dump(settings(tmp_path, url), dumped)
    assert tables(empty) > 1
    dump(settings(tmp_path, url), tmp_path / "again")
    assert (tmp_path / "again").stat().st_size > 0


def test_what_the_database_refuses_is_said(dumped: Path, empty: str, tmp_path: Path) -> None:
    with psycopg.connect(empty) as connection:
        connection.execute("CREATE TABLE marks (mark text)")
    with pytest.raises(ConcordanceError, match=r'psql failed: .*relation "marks" already exists'):
        load_dump(settings(tmp_path, empty), dumped)
    assert tables(empty) == 1
