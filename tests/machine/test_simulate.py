"""`concordance simulate`: a process that serves what its settings lead to, and ends cleanly when asked."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from orchestration.cli import run
from resources.settings import Settings, load

STOP_SECONDS = 30
Server = tuple[subprocess.Popen[str], dict[str, str]]


@contextmanager
def simulator(*arguments: str) -> Iterator[Server]:
    """Start one on a free port and yield it with the settings that it printed."""
    command = [sys.executable, "-m", "orchestration.cli", "simulate", *arguments, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().strip() for _ in range(2)]
        yield process, dict(line.split("=", 1) for line in lines)
    finally:
        process.kill()
        process.wait()


def settings(printed: dict[str, str], monkeypatch: pytest.MonkeyPatch, home: Path) -> Settings:
    for name, value in printed.items():
        monkeypatch.setenv(name, value)
    return load(home=home)


def ask_drive(found: Settings) -> list[dict[str, Any]]:
    assert found.drive_token is not None
    headers = {"Authorization": f"Bearer {found.drive_token.get_secret_value()}"}
    answer = httpx.get(f"{found.drive_api_url}/drive/v3/files", headers=headers, params={"pageSize": 1000})
    return answer.raise_for_status().json()["files"]


def ask_slack(found: Settings, method: str = "conversations.list") -> httpx.Response:
    assert found.slack_bot_token is not None
    headers = {"Authorization": f"Bearer {found.slack_bot_token.get_secret_value()}"}
    return httpx.post(f"{found.slack_api_url}/{method}", headers=headers)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drive_with_the_sample_company_and_a_clean_end(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with simulator("drive") as (process, printed):
        found = settings(printed, monkeypatch, tmp_path)
        names = {file["name"] for file in ask_drive(found)}
        assert {"Tool library", "Our stand in Delft"} <= names
        page = httpx.get(found.drive_api_url)
        assert page.status_code == 200
        assert "simulator" in page.text
        process.send_signal(number)
        assert process.wait(STOP_SECONDS) == 0


def test_a_slack_with_the_sample_company(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with simulator("slack", "--sample") as (_, printed):
        channels = ask_slack(settings(printed, monkeypatch, tmp_path)).json()["channels"]
        assert {"general", "office-move"} <= {channel["name"] for channel in channels}


@pytest.mark.parametrize(
    ("service", "empty"),
    [
        ("drive", lambda found: ask_drive(found) == []),
        ("slack", lambda found: ask_slack(found).json()["channels"] == []),
    ],
)
def test_an_empty_one(
    service: str, empty: Callable[[Settings], bool], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with simulator(service, "--empty") as (_, printed):
        assert empty(settings(printed, monkeypatch, tmp_path))


def test_slacks_rates_are_enforced_when_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with simulator("slack", "--throttle") as (_, printed):
        found = settings(printed, monkeypatch, tmp_path)
        answers = [ask_slack(found) for _ in range(21)]  # tier 2: twenty a minute
        assert answers[-1].status_code == 429
        assert int(answers[-1].headers["retry-after"]) > 0


def test_a_port_that_is_taken_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    with simulator("slack", "--empty") as (_, printed):
        port = printed["CONCORDANCE_SLACK_API_URL"].removesuffix("/api").rpartition(":")[2]
        assert run(["simulate", "slack", "--empty", "--port", port]) == 1
        assert f"Port {port} cannot be used" in capfd.readouterr().err


def test_wrong_usage(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "disk"]) == 2
    assert run(["simulate", "drive", "--throttle"]) == 2  # Drive publishes no rates to enforce
    assert "--throttle" in capfd.readouterr().err
