"""The embedded Postgres: what was committed survives a kill, stale files do no harm, two clusters stand side by side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
import pytest

from resources import keys
from resources.embedded.postgres import EmbeddedPostgres
from resources.embedded.privileges import Account, closed_parent, unprivileged
from resources.errors import ConfigurationError
from resources.settings import Settings
from tests.fixtures.postgres import PostgresProcess, home_settings, make_home


@pytest.fixture
def home() -> Iterator[Path]:
    folder = make_home()
    yield folder
    shutil.rmtree(folder)


def fetch(dsn: str, query: str) -> object:
    with psycopg.connect(dsn) as conn:
        row = conn.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]


def test_a_kill_loses_nothing_committed(postgres_process: PostgresProcess) -> None:
    with psycopg.connect(postgres_process.dsn) as conn:
        conn.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
    postgres_process.kill()
    postgres_process.restart()
    assert fetch(postgres_process.dsn, "SELECT count(*) FROM kept") == 1000
    postgres_process.kill()
    postgres_process.restart()
    assert fetch(postgres_process.dsn, "SELECT count(*) FROM kept") == 1000


def test_a_kill_with_clients_at_work(postgres_process: PostgresProcess) -> None:
    """Their backends outlive the server for a moment and hold its shared memory."""
    clients = [psycopg.connect(postgres_process.dsn) for _ in range(5)]
    for client in clients:
        client.execute("CREATE TEMP TABLE scratch AS SELECT generate_series(1, 10000) AS n")
    postgres_process.kill()
    postgres_process.restart()
    assert fetch(postgres_process.dsn, "SELECT 1") == 1
    for client in clients:
        client.close()


def test_a_stale_pid_file_whose_number_went_to_a_stranger(postgres_process: PostgresProcess) -> None:
    pid_file = postgres_process.server.data / "postmaster.pid"
    saved = pid_file.read_text()
    postgres_process.stop()
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        pid_file.write_text(saved.replace(saved.split("\n", 1)[0], str(stranger.pid), 1))
        postgres_process.start()
        assert fetch(postgres_process.dsn, "SELECT 1") == 1
        assert stranger.poll() is None, "the stranger must live"
    finally:
        stranger.kill()
        stranger.wait()


def test_a_server_that_a_killed_owner_left_is_replaced(postgres_process: PostgresProcess) -> None:
    left = psutil.Process(postgres_process.pid)
    successor = EmbeddedPostgres(postgres_process.settings)
    successor.start()
    try:
        assert successor.pid != left.pid
        assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
        assert successor.ready()
    finally:
        successor.stop()


def test_two_clusters_side_by_side(postgres_process: PostgresProcess, home: Path) -> None:
    other = PostgresProcess(home_settings(home))
    other.start()
    try:
        with psycopg.connect(other.dsn) as conn:
            conn.execute("CREATE TABLE mine (n int)")
        assert fetch(postgres_process.dsn, "SELECT to_regclass('mine') IS NULL") is True
        crossed = other.dsn.replace(quote(str(other.settings.passfile)), quote(str(postgres_process.settings.passfile)))
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            psycopg.connect(crossed)
    finally:
        other.stop()


def test_a_half_made_cluster_is_made_again(home: Path) -> None:
    process = PostgresProcess(home_settings(home))
    draft = process.server.folder / "data.new"
    draft.mkdir(parents=True)
    process.server.folder.chmod(0o711)
    (draft / "PG_VERSION").write_text("18")
    process.start()
    try:
        assert fetch(process.dsn, "SELECT 1") == 1
        assert not draft.exists()
    finally:
        process.stop()


def test_a_changed_password_file_is_mended_and_closed(postgres_process: PostgresProcess) -> None:
    passfile = postgres_process.settings.passfile
    passfile.write_text("nonsense")
    passfile.chmod(0o644)
    postgres_process.restart()
    assert passfile.stat().st_mode & 0o777 == 0o600
    assert fetch(postgres_process.dsn, "SELECT 1") == 1


def test_the_password_shows_nowhere(postgres_process: PostgresProcess) -> None:
    password = keys.load(postgres_process.settings).postgres_password
    arguments = " ".join(psutil.Process(postgres_process.pid).cmdline())
    assert password not in arguments
    assert password not in postgres_process.server.log.read_text()
    assert password not in postgres_process.dsn


def test_the_role_is_no_superuser_and_the_superuser_cannot_come_in(postgres_process: PostgresProcess) -> None:
    assert fetch(postgres_process.dsn, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
    with pytest.raises(psycopg.OperationalError, match="no pg_hba"):
        psycopg.connect(postgres_process.dsn.replace("concordance@", "postgres@"))


def test_text_is_unicode_whatever_the_machine_speaks(postgres_process: PostgresProcess) -> None:
    assert (
        fetch(postgres_process.dsn, "SELECT upper('straße é ж')") == "STRASSE É Ж"
        or fetch(postgres_process.dsn, "SELECT upper('é ж')") == "É Ж"
    )
    assert fetch(postgres_process.dsn, "SHOW server_encoding") == "UTF8"


def test_extensions_that_we_need_are_there(database: str) -> None:
    with psycopg.connect(database) as conn:
        conn.execute("CREATE EXTENSION pg_trgm")
        conn.execute("CREATE EXTENSION unaccent")


def test_a_taken_port_names_the_setting(postgres_process: PostgresProcess, home: Path) -> None:
    settings = Settings(_env_file=None, home=home, postgres_port=postgres_process.settings.postgres_port)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="CONCORDANCE_POSTGRES_PORT"):
        EmbeddedPostgres(settings).start()


def test_a_closed_folder_on_the_way_is_named(tmp_path: Path) -> None:
    nobody = Account("nobody", 65534, 65534)
    (tmp_path / "closed").mkdir(mode=0o700)
    found = closed_parent(tmp_path / "closed" / "deep" / "data", nobody)
    # pytest's own folders may be closed already; the outermost closed one is what a person must open first.
    assert found is not None
    assert tmp_path.is_relative_to(found) or found == tmp_path / "closed"


@pytest.mark.skipif(os.geteuid() == 0, reason="as root the server does run as somebody else")
def test_an_ordinary_user_runs_it_himself() -> None:
    assert unprivileged() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to drop its rights")
def test_root_drops_its_rights(postgres_process: PostgresProcess) -> None:
    account = unprivileged()
    assert account is not None
    assert psutil.Process(postgres_process.pid).uids().real == account.uid
    assert psutil.Process(postgres_process.pid).gids().real == account.gid
    assert postgres_process.server.data.stat().st_uid == account.uid
    assert postgres_process.settings.passfile.stat().st_uid == 0
