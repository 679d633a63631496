"""Calls to Slack and Google keep to one pace over all processes that use one database."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from pydantic import SecretStr

from resources.core.errors import RateLimitedError
from resources.core.retrying import Tally
from resources.rates import Rate, bucket, pace
from resources.rates.pace import SharedPace
from resources.settings import Settings
from resources.sources.drive.auth import Authority
from resources.sources.drive.client import DriveClient
from resources.sources.drive.quota import CallQuota
from resources.sources.slack.client import SlackClient
from resources.sources.slack.paces import BURST
from simulators.drive import SimulatedDrive
from tests.fixtures.drive import DriveSite
from tests.fixtures.slack import SlackSite

PROCESSES = 4


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for Postgres however long it takes to answer: after a second, each process keeps a pace of its own."""
    monkeypatch.setattr(pace, "DEADLINE_SECONDS", 60)


def seconds_of(most: int, make: Callable[[], Callable[[], object]]) -> float:
    """Let clients that share nothing but the database make `most` calls each; return how long it took, in seconds."""
    calls = [make() for _ in range(PROCESSES)]
    start = threading.Barrier(PROCESSES + 1)

    def run(call: Callable[[], object]) -> None:
        start.wait(30)
        for _ in range(most):
            call()

    with ThreadPoolExecutor(PROCESSES) as pool:
        running = [pool.submit(run, call) for call in calls]
        began = time.monotonic()
        start.wait(30)
        for one in running:
            one.result(60)
    return time.monotonic() - began


def test_four_clients_of_slack_never_pass_the_rate_of_a_method(slack_site: SlackSite, database: str) -> None:
    def calling() -> Callable[[], object]:
        shared, rates = SharedPace(database), {"auth.test": 240}
        slack = SlackClient(slack_site.workspace.token, slack_site.url, Tally(), pace=shared, per_minute=rates)
        return lambda: slack.call("auth.test")

    seconds = seconds_of(5, calling)
    assert PROCESSES * 5 == slack_site.workspace.calls["auth.test"] <= BURST + seconds * 4 + 1


def test_a_request_of_slack_to_wait_holds_for_all_clients(slack_site: SlackSite, database: str) -> None:
    slept: list[float] = []

    def refuse(seconds: float) -> None:
        slept.append(seconds)
        raise TimeoutError

    def client(method: str) -> SlackClient:
        return SlackClient(
            slack_site.workspace.token,
            slack_site.url,
            Tally(),
            waits=(),
            sleep=refuse,
            pace=SharedPace(database),
            per_minute={method: 60},
        )

    slack_site.faults.add("rate_limit", match="auth.test", seconds=30)
    with pytest.raises((TimeoutError, RateLimitedError)):
        client("auth.test").call("auth.test")
    with pytest.raises(TimeoutError):
        client("auth.test").call("auth.test")
    assert slept[-1] == pytest.approx(30, abs=2)
    assert client("users.list").call("users.list")["ok"]


def test_four_clients_of_google_never_pass_the_quota_of_a_project(drive_site: DriveSite, database: str) -> None:
    settings = Settings(  # type: ignore[call-arg]
        _env_file=None, drive_api_url=drive_site.url, drive_token=SecretStr(SimulatedDrive.token)
    )

    def calling() -> Callable[[], object]:
        quota = CallQuota(SharedPace(database), "drive", 300)
        client = DriveClient(settings, Authority(settings, Tally()), Tally(), quota=quota)
        return lambda: client.call("changes.getStartPageToken")

    seconds = seconds_of(15, calling)
    burst, a_second = 50, 250 / 60
    made = drive_site.drive.calls["changes.getStartPageToken"]
    assert PROCESSES * 15 == made <= burst + seconds * a_second + 1


def test_without_postgres_calls_are_not_held_up() -> None:
    alone = SharedPace("postgresql://nobody@127.0.0.1:1/none")
    assert [alone.take(bucket("k", "a"), Rate(1, 1)) for _ in range(3)] == [0, 0, 0]
