"""Concordance behind PgBouncer in transaction mode, where no two statements of a client need have the same connection to Postgres."""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from orchestration.backup import back_up
from orchestration.demo import sample
from orchestration.restore import restore
from orchestration.supervision.services import services
from orchestration.supervision.storage import Storage
from resources import keys
from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError
from resources.schema import prepare
from resources.settings import Settings, load
from resources.stores import leases
from resources.stores.dagster_tables import check_place
from resources.stores.leases import claim
from resources.stores.postgres import session
from tests.fixtures.company import Company, running_company
from tests.fixtures.dagster_runs import dagster_storage_url
from tests.fixtures.pgbouncer import PgBouncer
from tests.fixtures.postgres import make_home, with_database
from tests.fixtures.waiting import until
from tests.machine.test_sample_company import MODES, PEOPLE, ask, indexed, leaks, misplaced

IGNORING = "ignore_startup_parameters = options"
OURS = "SELECT count(*) AS tables FROM pg_tables WHERE schemaname = %s AND tablename = ANY(%s)"
DAGSTERS = ["runs", "run_tags", "event_logs", "job_ticks", "daemon_heartbeats"]


@pytest.fixture
def pooled_company(pgbouncer: PgBouncer) -> Iterator[Company]:
    """The sample company, with every connection to Postgres through the pooler."""
    home = make_home()
    try:
        with running_company(
            home,
            postgres_url=pgbouncer.url,
            postgres_prepare_threshold=0,
            dagster_database_url=pgbouncer.dagster_url,
        ) as company:
            yield company
    finally:
        shutil.rmtree(home)


def test_the_sample_company_end_to_end(pooled_company: Company, pgbouncer: PgBouncer) -> None:
    company = pooled_company
    assert company.first_documents == len(indexed())
    faults: list[str] = []
    for question, person, mode in itertools.product(sample.questions(), PEOPLE, MODES):
        results = ask(company, person, question.question, mode=mode)["results"]
        faults += misplaced(person, question, mode, [result["source_id"] for result in results])
    for question, (name, person) in itertools.product(sample.questions_of_sources(), PEOPLE.items()):
        results = ask(company, name, question.question)["results"]
        faults += [f"{name}, {question.question!r}: shows {one}" for one in leaks(person, results)]
    assert faults == []
    assert company.sync(SourceName.FILES)["status"] == "success"
    for schema, expected in (("dagster", len(DAGSTERS)), ("public", 0)):
        assert company.rows(OURS, schema, DAGSTERS) == [{"tables": expected}]
    assert company.rows("SELECT count(*) AS leases FROM partition_leases") == [{"leases": 0}]
    pools = {pool["database"]: pool for pool in pgbouncer.show("POOLS")}
    assert {pools[name]["pool_mode"] for name in ("concordance", "concordance_dagster")} == {"transaction"}
    with psycopg.connect(pgbouncer.postgres.dsn) as connection:
        (servers,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'concordance' AND pid <> pg_backend_pid()"
        ).fetchone() or (0,)
        settings = connection.execute("SHOW search_path").fetchone()
    assert servers == len(pgbouncer.show("SERVERS")), "every connection is the pooler's"
    assert settings == ('"$user", public',)
    _assert_no_session_state(pgbouncer)


def _assert_no_session_state(pgbouncer: PgBouncer) -> None:
    """Nothing that a client has set, locked or prepared is left on a connection of the pool, where the next client would find it.

    A transaction of another client may hold an advisory lock at the moment, but not for long.
    """
    with psycopg.connect(pgbouncer.url, prepare_threshold=None) as one:
        for name, value in (("lock_timeout", "0"), ("statement_timeout", "0"), ("search_path", '"$user", public')):
            assert one.execute(f"SHOW {name}".encode()).fetchone() == (value,)
        locked = b"SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        until(lambda: one.execute(locked).fetchone() == (0,), "no advisory lock")
        for what in (b"pg_prepared_statements", b"pg_listening_channels() AS c"):
            assert one.execute(b"SELECT count(*) FROM " + what).fetchone() == (0,)


def test_a_lease_excludes_others_through_the_pooler(pgbouncer: PgBouncer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.1)
    prepare(pgbouncer.url)
    first = claim(pgbouncer.url, "files", None, seconds=0)
    assert first is not None
    for wanted in (None, ["docs"]):
        assert claim(pgbouncer.url, "files", wanted, seconds=0.5) is None
    first.release()
    second = claim(pgbouncer.url, "files", ["docs"], seconds=0)
    assert second is not None
    second.release()


@pytest.mark.parametrize("others", [0, 6])
def test_a_backup_needs_a_connection_past_the_pool(
    pgbouncer: PgBouncer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: int
) -> None:
    """pg_dump empties the search path of its session, which would be that of the pool's next client."""
    prepare(pgbouncer.url)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", pgbouncer.url)
    keys.ensure(load())
    with _clients(pgbouncer.url, others), pytest.raises(ConfigurationError, match="past the pool"):
        back_up(load(), tmp_path / "backup", "1")
    assert not (tmp_path / "backup").exists()
    direct = pgbouncer.postgres.dsn
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", direct)
    with _clients(pgbouncer.url, others):
        back_up(load(), tmp_path / "backup", "1")
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "other"))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", pgbouncer.url)
    with _clients(pgbouncer.url, others), pytest.raises(ConfigurationError, match="past the pool"):
        restore(load(), tmp_path / "backup")
    assert not (tmp_path / "other").exists()
    with session(direct, autocommit=True) as connection:
        connection.execute("CREATE DATABASE restored")
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", with_database(direct, "restored"))
    restore(load(), tmp_path / "backup")
    with session(load().postgres_dsn) as connection:
        assert connection.execute("SELECT to_regclass('documents') IS NOT NULL AS there").fetchone() == {"there": True}
    _assert_no_session_state(pgbouncer)


@contextmanager
def _clients(url: str, count: int) -> Iterator[None]:
    """Keep connections of the pool busy for a block."""
    ended = threading.Event()

    def work() -> None:
        with session(url, autocommit=True) as connection:
            while not ended.is_set():
                connection.execute("SELECT pg_sleep(0.002)")

    with ThreadPoolExecutor(max(1, count)) as pool:
        working = [pool.submit(work) for _ in range(count)]
        try:
            yield
        finally:
            ended.set()
    for one in working:
        one.result()


@pytest.mark.parametrize("pgbouncer", [IGNORING], indirect=True)
def test_dagsters_tables_do_not_land_among_ours(pgbouncer: PgBouncer, tmp_path: Path) -> None:
    """A pooler that ignores the search path of the URL is found before Dagster creates anything."""
    settings = Settings(_env_file=None, home=tmp_path, postgres_url=pgbouncer.url)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="in the schema public, among those of Concordance") as raised:
        services(settings)
    assert str(raised.value).startswith("CONCORDANCE_DAGSTER_DATABASE_URL: ")
    with pytest.raises(ConfigurationError):
        Storage.from_config_value(None, {"postgres_url": dagster_storage_url(pgbouncer.url)})
    with session(pgbouncer.url) as connection:
        for schema in ("dagster", "public"):
            assert connection.execute(OURS, [schema, DAGSTERS]).fetchall() == [{"tables": 0}]


def test_a_pooler_that_refuses_the_search_path_is_named(pgbouncer: PgBouncer, tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path, postgres_url=pgbouncer.url)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="refuses the search path of Dagster's tables"):
        services(settings)
    check_place(pgbouncer.dagster_url)
    check_place(pgbouncer.postgres.dsn + "&options=-csearch_path%3Ddagster")
    with pytest.raises(ConfigurationError, match="leads to no schema"):
        check_place(pgbouncer.postgres.dsn + "&options=-csearch_path%3Dmissing")
