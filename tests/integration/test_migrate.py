"""Migrations: each is applied once and in order, by whichever process comes first; a changed one is an error."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

from orchestration.cli import run as command
from orchestration.diagnosis import store_checks
from orchestration.restore import _end_sign_ins as end_sign_ins  # pyright: ignore[reportPrivateUsage] (of a dump that nothing makes any more)
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from resources.settings import load
from resources.stores.migrate import migrate, migrations
from resources.stores.offboarding import offboard
from resources.stores.postgres import connect
from tests.fixtures.installation import Installation
from tests.fixtures.postgres import PostgresProcess, with_database
from tests.fixtures.waiting import until


@pytest.fixture
def empty(postgres_server: PostgresProcess) -> Iterator[str]:
    name = f"e_{uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {name}".encode())
    yield with_database(postgres_server.dsn, name)
    with psycopg.connect(postgres_server.dsn, autocommit=True) as conn:
        conn.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "0001_one.sql").write_text("CREATE TABLE one (n int);\nINSERT INTO one VALUES (1);\n")
    (tmp_path / "0002_two.sql").write_text("INSERT INTO one VALUES (2);\n")
    return tmp_path


def rows(dsn: str) -> list[int]:
    with psycopg.connect(dsn) as conn:
        return [row[0] for row in conn.execute("SELECT n FROM one ORDER BY n")]


def test_the_products_own_apply_to_an_empty_database_once(empty: str) -> None:
    names = [migration.name for migration in migrations()]
    assert migrate(empty) == names
    assert names
    assert migrate(empty) == []


def test_applied_in_order_and_once(empty: str, folder: Path) -> None:
    assert migrate(empty, folder) == ["0001_one.sql", "0002_two.sql"]
    (folder / "0003_three.sql").write_text("INSERT INTO one VALUES (3);")
    assert migrate(empty, folder) == ["0003_three.sql"]
    assert rows(empty) == [1, 2, 3]


def test_at_once_from_several_sides(empty: str, folder: Path) -> None:
    with ThreadPoolExecutor(6) as pool:
        applied = list(pool.map(lambda _: migrate(empty, folder), range(6)))
    assert max(applied) == ["0001_one.sql", "0002_two.sql"]
    assert sum(map(len, applied)) == 2
    assert rows(empty) == [1, 2]


def test_a_changed_file_is_an_error(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0002_two.sql").write_text("INSERT INTO one VALUES (22);\n")
    with pytest.raises(ConfigurationError, match=r"0002_two\.sql was changed"):
        migrate(empty, folder)


def test_line_ends_do_not_count_as_a_change(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0002_two.sql").write_bytes(b"INSERT INTO one VALUES (2);\r\n")
    assert migrate(empty, folder) == []


def test_a_database_of_a_newer_version_is_left_alone(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0002_two.sql").unlink()
    with pytest.raises(ConfigurationError, match=r"0002_two\.sql, which this version does not know"):
        migrate(empty, folder)


def test_a_file_that_comes_too_late_is_an_error(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0001_half.sql").write_text("INSERT INTO one VALUES (15);")
    with pytest.raises(ConfigurationError, match=r"0001_half\.sql sorts before 0002_two\.sql"):
        migrate(empty, folder)


def test_a_file_that_fails_changes_nothing(empty: str, folder: Path) -> None:
    (folder / "0002_two.sql").write_text("CREATE TABLE half (n int);\nINSERT INTO nowhere VALUES (2);\n")
    with pytest.raises(ConfigurationError, match=r"0002_two\.sql failed and nothing was changed.*nowhere"):
        migrate(empty, folder)
    with psycopg.connect(empty) as conn:
        assert conn.execute("SELECT to_regclass('one'), to_regclass('half')").fetchone() == (None, None)


def test_readers_do_not_wait_for_a_migration_that_waits_for_a_backup(empty: str, folder: Path) -> None:
    """A dump keeps its tables locked against changes, and readers queue up behind a change that waits."""
    migrate(empty, folder)
    (folder / "0003_three.sql").write_text("ALTER TABLE one ADD COLUMN more int;\n")
    with psycopg.connect(empty) as dump, ThreadPoolExecutor(1) as pool:
        dump.execute("SELECT n FROM one")
        applied = pool.submit(migrate, empty, folder)
        with psycopg.connect(empty, autocommit=True) as reader:
            while not reader.execute(
                "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'one'::regclass"
            ).fetchone():
                assert not applied.done()
            reader.execute("SET statement_timeout = '60s'")
            assert len(reader.execute("SELECT n FROM one").fetchall()) == 2
        assert not applied.done()
        dump.rollback()
        assert applied.result() == ["0003_three.sql"]


def test_a_table_that_stays_in_use_is_reported(empty: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    migrate(empty, folder)
    monkeypatch.setattr("resources.stores.migrate.LOCK_SECONDS", 1)
    (folder / "0003_three.sql").write_text("ALTER TABLE one ADD COLUMN more int;\n")
    with psycopg.connect(empty) as dump:
        dump.execute("SELECT n FROM one")
        with pytest.raises(ServiceUnavailableError, match="using one of its tables"):
            migrate(empty, folder)


def test_a_deadlock_is_tried_again(empty: str, folder: Path) -> None:
    migrate(empty, folder)
    (folder / "0003_three.sql").write_text("UPDATE one SET n = n WHERE n = 1;\nUPDATE one SET n = n WHERE n = 2;\n")
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(empty) as other,
        psycopg.connect(empty, autocommit=True) as observer,
    ):
        other.execute("UPDATE one SET n = n WHERE n = 2")
        migrating = pool.submit(migrate, empty, folder)
        until(lambda: observer.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchone(), "the migration waiting")
        with suppress(
            psycopg.errors.DeadlockDetected
        ):  # the one that has waited for a second ends, which is the migration if this is fast
            other.execute("UPDATE one SET n = n WHERE n = 1")
        other.rollback()
        assert migrating.result(60) == ["0003_three.sql"]


def test_a_migration_takes_longer_than_statements_may(empty: str, folder: Path) -> None:
    (folder / "0002_two.sql").write_text("SELECT pg_sleep(0.2);\n")
    with psycopg.connect(empty, autocommit=True) as conn:
        conn.execute(f"ALTER DATABASE {conn.info.dbname} SET statement_timeout = '100ms'".encode())
    assert migrate(empty, folder) == ["0001_one.sql", "0002_two.sql"]


def test_a_missing_database_is_reported(empty: str) -> None:
    with pytest.raises(ServiceUnavailableError, match="Postgres does not answer"):
        migrate(with_database(empty, "x").replace("/x?", "/nowhere?").replace("127.0.0.1:", "127.0.0.1:1"))


def test_texts_of_earlier_versions_leave_dagster(empty: str, tmp_path: Path) -> None:
    last = "0041_old_dagster_texts.sql"
    for migration in migrations():
        if migration.name < last:
            (tmp_path / migration.name).write_text(migration.text)
    migrate(empty, tmp_path)
    kinds = [
        None,
        "STEP_FAILURE",
        "PIPELINE_FAILURE",
        "LOGS_CAPTURED",
        "STEP_OUTPUT",
        "ASSET_MATERIALIZATION",
        "STEP_START",
    ]
    with psycopg.connect(empty) as conn:
        conn.execute("CREATE TABLE dagster.event_logs (id bigserial, event text, dagster_event_type text)")
        conn.execute("CREATE TABLE dagster.job_ticks (id bigserial, status text)")
        for kind in kinds:
            conn.execute(
                "INSERT INTO dagster.event_logs (event, dagster_event_type) VALUES ('secret.pdf', %s)", (kind,)
            )
        conn.execute("INSERT INTO dagster.job_ticks (status) VALUES ('FAILURE'), ('SUCCESS')")
    assert migrate(empty)[0] == last
    with psycopg.connect(empty) as conn:
        left = [row[0] for row in conn.execute("SELECT dagster_event_type FROM dagster.event_logs ORDER BY id")]
        ticks = [row[0] for row in conn.execute("SELECT status FROM dagster.job_ticks")]
    assert (left, ticks) == (["ASSET_MATERIALIZATION", "STEP_START"], ["SUCCESS"])


def test_what_was_made_for_another_spelling_of_an_address_ends_with_the_account(empty: str, tmp_path: Path) -> None:
    last, email = "0083_claims_and_addresses.sql", "j\u00f6rg@acme.com"
    for migration in migrations():
        if migration.name < last:
            (tmp_path / migration.name).write_text(migration.text)
    migrate(empty, tmp_path)
    with psycopg.connect(empty) as conn:
        typed = unicodedata.normalize("NFD", email)
        conn.execute("INSERT INTO api_keys (key_id, key_hash, email) VALUES ('k', '', %s)", (typed,))
        conn.execute(
            "INSERT INTO answers (answer_id, query_id, email, principals, question, answer, found, mode, sources, sentences, latency_ms,"
            " model_ms, shared_at) VALUES (gen_random_uuid(), gen_random_uuid(), %s, '{}', '', '', TRUE, 'none', '[]', '[]', 1, 1, now())",
            (typed,),
        )
    migrate(empty)
    with psycopg.connect(empty) as conn:
        offboard(conn, {email: "left"}, by="scim")
        ended = conn.execute(
            "SELECT revoked_at IS NOT NULL FROM api_keys UNION ALL SELECT shared_at IS NULL FROM answers"
        )
        assert ended.fetchall() == [(True,), (True,)]


def test_commands_and_doctor_say_that_the_database_is_of_an_earlier_version(
    empty: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program has been updated, and the services have not been started again."""
    for migration in migrations():
        if migration.name < "0052":
            (tmp_path / migration.name).write_text(migration.text)
    migrate(empty, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", empty)
    for words in ("status", "key list", "source list", "reindex"):
        assert command(words.split()) != 0
        said = capsys.readouterr().err
        assert "The database lacks something that this version needs" in said, words
        assert "concordance restart" in said, words
        assert "Please report" not in said, words
    (fault,) = [one for one in store_checks.postgres(load(), running=True) if not one.ok]
    assert "of an earlier version" in fault.detail
    assert "concordance restart" in fault.remedy


def test_a_restore_ends_the_sessions_of_a_version_without_agents(installation: Installation) -> None:
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO sessions (session_id, secret_hash, email, provider, subject, browser, groups, groups_at, refreshed_at,"
            " created_at, seen_at, expires_at) SELECT gen_random_uuid(), 'x', 'ada@acme.example', 'p', 'ada', 'b', '{}',"
            " now(), now(), now(), now(), now() + interval '1 hour'"
        )
        connection.execute("DROP TABLE agents CASCADE")
        connection.execute("ALTER TABLE sign_ins DROP COLUMN claim CASCADE")
    end_sign_ins(installation.settings)
    assert installation.rows("SELECT * FROM sessions") == []
