"""`concordance daemon --check`, by which a platform decides whether to restart Dagster's daemon."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from orchestration.cli import run
from resources.servers.processes import free_port

SENT = "INSERT INTO dagster.daemon_heartbeats SELECT now() AT TIME ZONE 'UTC' - make_interval(secs => %s)"


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))


def test_a_daemon_that_is_silent_is_restarted(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", database)
    assert run(["daemon", "--check"]) == 1  # Dagster has no tables
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE dagster.daemon_heartbeats (timestamp timestamp)")
        assert run(["daemon", "--check"]) == 1
        connection.execute(SENT, [300])
        assert run(["daemon", "--check"]) == 1
        connection.execute(SENT, [0])
        assert run(["daemon", "--check"]) == 0


def test_a_daemon_is_not_restarted_because_postgres_is_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", f"postgresql://me:secret@127.0.0.1:{free_port()}/none")
    assert run(["daemon", "--check"]) == 0
    assert "Postgres does not answer" in capsys.readouterr().err
