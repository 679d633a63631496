"""`concordance prune`: held deletions are listed, approved ones are carried out by the next sync, rejected ones are dropped."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structlog.testing import capture_logs

from orchestration.cli import run
from resources.core.domain import SourceName
from resources.core.errors import OverloadedError
from resources.stores.postgres import session
from tests.fixtures.installation import Installation
from tests.fixtures.shelf import Shelf
from tests.fixtures.upkeep import as_environment

SLACK = SourceName.SLACK


@pytest.fixture
def shelf(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """Create two partitions that lost most of their documents at the source."""
    shelf = Shelf()
    for partition in ("lake", "pond"):
        for number in range(12):
            shelf.put(f"{partition}{number:02}", partition)
    installation.sync(SLACK, port=shelf)
    for partition in ("lake", "pond"):
        for number in range(10):
            del shelf.items[partition][f"{partition}{number:02}"]
    installation.sync(SLACK, port=shelf, full=True)
    monkeypatch.setenv("CONCORDANCE_SLACK_BOT_TOKEN", "xoxb-1")
    as_environment(installation, monkeypatch)
    return shelf


def live(installation: Installation) -> int:
    return len(installation.rows("SELECT 1 FROM documents WHERE state = 'live'"))


def prune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    capsys.readouterr()
    status = run(["prune", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out.splitlines()[-1])


def test_what_waits_is_listed(installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    status, rows = prune(capsys, "list")
    assert status == 0
    assert [(row["source"], row["partition"], row["documents"], row["of_documents"]) for row in rows] == [
        ("slack", "lake", 10, 12),
        ("slack", "pond", 10, 12),
    ]
    assert rows[0]["approved_at"] is None
    assert rows[0]["examples"] == [f"lake{number:02}" for number in range(5)]
    assert run(["prune", "list"]) == 0
    shown = capsys.readouterr()
    assert "lake  10 of 12 documents" in shown.out
    assert live(installation) == 24


def test_approved_deletions_go_at_the_next_sync(
    installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = prune(capsys, "approve", "slack", "pond")
    assert (status, answer["partitions"], answer["job_id"]) == (0, [{"partition": "pond", "documents": 10}], None)
    assert prune(capsys, "approve", "slack", "pond")[0] == 1, "no matching deletions are pending any more"
    (row,) = [row for row in prune(capsys, "list")[1] if row["approved_at"]]
    assert row["partition"] == "pond"
    assert row["approved_by"]
    recorded = installation.rows("SELECT email, detail FROM audit_log WHERE action = 'held_deletions_decided'")
    decided = {"source": "slack", "decision": "approve", "documents": {"pond": 10}}
    assert recorded == [{"email": row["approved_by"], "detail": decided}]
    assert live(installation) == 24
    installation.sync(SLACK, port=shelf)
    assert live(installation) == 14
    assert installation.agrees()
    assert [row["partition"] for row in prune(capsys, "list")[1]] == ["lake"]
    assert run(["prune", "approve", "slack"]) == 0
    assert "next sync removes them" in capsys.readouterr().out
    installation.sync(SLACK, port=shelf)
    assert live(installation) == 4
    assert prune(capsys, "list") == (0, [])


def test_only_deletions_that_were_listed_are_approved(
    installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does the time zone of Postgres change which these are."""
    with session(installation.settings.postgres_dsn) as connection:
        connection.execute(f"ALTER DATABASE {connection.info.dbname} SET timezone = 'America/New_York'".encode())
    assert run(["prune", "list"]) == 0
    [command] = [one for one in capsys.readouterr().err.splitlines() if "prune approve slack pond" in one]
    with session(installation.settings.postgres_dsn) as connection:
        connection.execute("UPDATE held_deletions SET held_at = now() WHERE source_id = 'pond03'")
    assert run(command.split("concordance ")[1].split()) == 0
    assert "Approved 9 deletions of slack. 1 more" in capsys.readouterr().out
    rows = [row for row in prune(capsys, "list")[1] if row["partition"] == "pond"]
    assert [(row["documents"], bool(row["approved_at"]), len(row["examples"])) for row in rows] == [
        (9, True, 5),
        (1, False, 1),
    ]
    assert run(["prune", "approve", "slack", "pond", "--until", "yesterday"]) == 2


def test_rejected_deletions_are_forgotten_until_the_source_says_so_again(
    installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str]
) -> None:
    status, answer = prune(capsys, "reject", "slack", "pond")
    assert (status, answer["partitions"]) == (0, [{"partition": "pond", "documents": 10}])
    assert run(["prune", "reject", "slack"]) == 0
    assert "Kept 10 documents" in capsys.readouterr().out
    assert prune(capsys, "reject", "slack")[0] == 1
    installation.sync(SLACK, port=shelf)
    assert live(installation) == 24
    assert prune(capsys, "list") == (0, [])
    with capture_logs() as logs:
        installation.sync(SLACK, port=shelf, full=True)
    said = [one["text"] for one in logs if one["event"] == "alert"]
    assert {one.split(". ")[0] for one in said} == {"10 of 12 documents of one part of Slack are gone at the source"}
    assert all(one.endswith("run: concordance prune list") for one in said)
    assert live(installation) == 24
    assert len(prune(capsys, "list")[1]) == 2


def test_a_running_sync_is_named(installation: Installation, shelf: Shelf, capsys: pytest.CaptureFixture[str]) -> None:
    with session(installation.settings.postgres_dsn) as connection:
        connection.execute("INSERT INTO sync_jobs (source, status) VALUES ('slack', 'running')")
    assert run(["prune", "approve", "slack"]) == 0
    assert "A sync is running" in capsys.readouterr().out


def test_what_is_approved_while_no_sync_can_start_is_approved(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def overloaded(*_args: object, **_options: object) -> None:
        raise OverloadedError("Postgres is busy.")

    monkeypatch.setattr("resources.syncs.launch.start_sync", overloaded)
    status, answer = prune(capsys, "approve", "slack", "pond")
    assert (status, answer["job_id"], len(answer["partitions"])) == (0, None, 1)
