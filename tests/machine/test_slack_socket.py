"""Slack's events over Socket Mode: the receiver process against a workspace that redelivers events until they are acknowledged."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from orchestration.cli import run
from orchestration.supervision.environment import child_environment
from orchestration.supervision.services import SLACK_EVENTS, services
from orchestration.supervision.supervisor import Supervisor
from resources import slack_socket
from resources.settings import Settings
from resources.slack_socket import SocketState
from resources.sources.slack.checks import checks
from simulators.slack import events
from tests.fixtures.slack_desk import SlackDesk, receiver
from tests.fixtures.waiting import until


def connected(settings: Settings) -> bool:
    state = slack_socket.ask(settings)
    return state is not None and state.connected


@pytest.fixture
def desk(slack_desk: SlackDesk) -> SlackDesk:
    token = SecretStr(slack_desk.slack.app_token)
    slack_desk.installation.settings = slack_desk.installation.settings.model_copy(update={"slack_app_token": token})
    slack_desk.site.app.sockets.patience = 1.0
    slack_desk.site.app.sockets.clear()
    return slack_desk


@pytest.fixture
def settings(desk: SlackDesk) -> Settings:
    return desk.installation.settings


@contextmanager
def locked(desk: SlackDesk) -> Iterator[None]:
    """Keep events from being stored."""
    with psycopg.connect(desk.installation.settings.postgres_dsn) as connection:
        connection.execute("LOCK TABLE source_events IN ACCESS EXCLUSIVE MODE")
        yield


def stored(desk: SlackDesk) -> list[dict[str, Any]]:
    return desk.installation.rows("SELECT event_id, kind FROM source_events ORDER BY received_at")


def test_old_messages_and_files_are_hidden_as_they_are_deleted_and_edited(desk: SlackDesk, settings: Settings) -> None:
    file = desk.slack.upload(desk.ada, "plan.txt", b"The plan is qzfileq.\n", "text/plain")
    desk.slack.post(desk.channel, desk.ada, "See the file.", files=[file])
    desk.sync()
    assert desk.finds("qz3q")
    assert desk.finds("qzfileq")
    with receiver(settings):
        desk.slack.delete(desk.channel, desk.said["w3"])
        desk.slack.edit(desk.channel, desk.said["w5"], "The password is gone: qznewq.")
        desk.slack.delete(desk.channel, desk.reply)
        desk.slack.delete_file(file)
        until(lambda: desk.site.app.sockets.waiting == 0, "all events acknowledged")
        assert [word for word in ("qz3q", "qz5q", "qzreplyq", "qzfileq") if desk.finds(word)] == []
        assert desk.finds("qz4q")
        state = slack_socket.ask(settings)
        assert state is not None
        assert (state.connected, state.app_id, state.failed) == (True, desk.slack.app_id, 0)
    desk.sync()
    found = {word: desk.finds(word) for word in ("qz3q", "qz5q", "qzreplyq", "qzfileq", "qznewq", "qz4q")}
    assert found == dict.fromkeys(("qz3q", "qz5q", "qzreplyq", "qzfileq"), False) | {"qznewq": True, "qz4q": True}


def test_the_receiver_runs_by_itself_with_the_settings_that_it_needs(
    desk: SlackDesk, settings: Settings, tmp_path: Path
) -> None:
    """Where nothing supervises the processes; it keeps nothing in HOME."""
    by_itself = settings.model_copy(update={"home": tmp_path / "own"})
    by_itself.home.mkdir()
    needed = {
        "HOME": str(by_itself.home), "POSTGRES_URL": settings.postgres_dsn, "QDRANT_URL": settings.qdrant_address,
        "SLACK_APP_TOKEN": desk.slack.app_token, "SLACK_API_URL": settings.slack_api_url,
    }  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CONCORDANCE_")}
    environment |= {f"CONCORDANCE_{name}": value for name, value in needed.items()}
    desk.sync()
    with receiver(settings, environment):
        until(lambda: connected(by_itself), "the connection")
        desk.slack.delete(desk.channel, desk.said["w3"])
        until(lambda: desk.site.app.sockets.waiting == 0, "all events acknowledged")
        assert not desk.finds("qz3q")
        assert {entry.name for entry in by_itself.home.iterdir()} <= {"run"}


def test_an_event_is_not_lost_with_a_receiver_that_is_killed_before_it_stored_it(
    desk: SlackDesk, settings: Settings
) -> None:
    sockets = desk.site.app.sockets
    with receiver(settings) as process:
        until(lambda: connected(settings), "the connection")
        with locked(desk):
            desk.slack.delete(desk.channel, desk.said["w3"])
            waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ILIKE '%source_events%'"
            until(lambda: desk.installation.rows(waiting.replace("%", "%%")), "the statement that waits")
            os.kill(process.pid, signal.SIGKILL)
            process.wait(30)
        assert sockets.acknowledged == []
    with receiver(settings):
        until(lambda: len(sockets.acknowledged) >= 1, "the acknowledgement")
        assert not desk.finds("qz3q")
    assert len(stored(desk)) == 1


def test_an_event_whose_acknowledgement_got_lost_counts_once(desk: SlackDesk, settings: Settings) -> None:
    sockets = desk.site.app.sockets
    sockets.deaf = 1
    with receiver(settings):
        desk.slack.delete(desk.channel, desk.said["w3"])
        until(lambda: len(sockets.acknowledged) >= 1, "the acknowledgement")
        assert sockets.sent >= 2
    assert len(stored(desk)) == 1
    assert len(desk.installation.rows("SELECT 1 FROM hidden_documents")) == 1


@pytest.mark.parametrize("reason", ["warning", "refresh_requested"])
def test_a_connection_that_slack_ends_is_replaced_and_no_event_lost(
    desk: SlackDesk, settings: Settings, reason: str
) -> None:
    sockets = desk.site.app.sockets
    with receiver(settings):
        for number in range(3):
            until(lambda: connected(settings) and sockets.connected == 1, "the one connection")
            desk.slack.delete(desk.channel, desk.said[f"w{2 * number}"])
            sockets.disconnect(reason)
            desk.slack.delete(desk.channel, desk.said[f"w{2 * number + 1}"])
            until(lambda: sockets.waiting == 0, "all events acknowledged")
        assert desk.calls["apps.connections.open"] >= 3
    assert [number for number in range(7) if desk.finds(f"qz{number}q")] == [6]


def test_events_of_another_workspace_are_acknowledged_and_do_nothing(desk: SlackDesk, settings: Settings) -> None:
    sockets = desk.site.app.sockets
    message = {"type": "message", "subtype": "message_deleted", "channel": desk.channel, "channel_type": "channel"}
    foreign = events.envelope(desk.slack, message | {"deleted_ts": desk.said["w3"]})
    sockets.deliver(
        foreign | {"team_id": "T0OTHER", "context_team_id": "T0OTHER", "authorizations": [{"team_id": "T0OTHER"}]}
    )
    sockets.deliver({"event_id": "Ev1", "nonsense": ["type", "is", "missing"]})
    with receiver(settings):
        until(lambda: len(sockets.acknowledged) >= 2, "both acknowledgements")
        assert desk.finds("qz3q")
    assert stored(desk) == []


def test_doctor_says_when_the_two_tokens_are_of_different_apps(desk: SlackDesk, settings: Settings) -> None:
    with receiver(settings):
        until(lambda: connected(settings), "the connection")
        assert [check.ok for check in checks(settings)] == [True]
        desk.installation.rows("UPDATE source_states SET app_id = 'A0OTHER' RETURNING 1")
        (check,) = checks(settings)
        assert not check.ok
        assert "A0OTHER" in check.detail
        desk.slack.delete(desk.channel, desk.said["w3"])
        until(lambda: desk.site.app.sockets.waiting == 0, "all events acknowledged")
        assert desk.finds("qz3q")


def test_a_token_that_is_refused_is_told_and_tried_again(desk: SlackDesk, settings: Settings) -> None:
    right, desk.slack.app_token = desk.slack.app_token, "xapp-another"

    def told() -> SocketState | None:
        state = slack_socket.ask(settings)
        return state if state is not None and "invalid_auth" in state.reason else None

    with receiver(settings):
        until(told, "the reason")
        state = told()
        assert state is not None
        assert not state.connected
        assert "CONCORDANCE_SLACK_APP_TOKEN" in state.reason
        seen = "SELECT severity FROM alerts WHERE (rule, subject) = ('DependencyDown', 'slack-events')"
        until(lambda: desk.installation.rows(seen) == [{"severity": "critical"}], "the condition of an alert")
        desk.slack.app_token = right
        until(lambda: connected(settings), "the connection")
    assert slack_socket.ask(settings) is None


def test_status_and_doctor_say_whether_it_is_connected_and_a_killed_receiver_is_back(
    desk: SlackDesk, settings: Settings, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def told(*command: str) -> dict[str, Any]:
        capfd.readouterr()
        run([*command, "--json"])
        return json.loads(capfd.readouterr().out.splitlines()[-1])

    def status() -> dict[str, Any]:
        return told("status")["services"][SLACK_EVENTS]

    def finding() -> dict[str, Any]:
        return next(check for check in told("doctor")["checks"] if check["name"] == "slack events")

    for name, value in child_environment(settings).items():
        monkeypatch.setenv(name, value)
    stages = services(settings, "tests.fixtures.small_definitions")
    (service,) = [service for stage in stages for service in stage if service.name == SLACK_EVENTS]
    supervisor = Supervisor(settings, [[service]])
    supervisor.start()
    try:
        until(lambda: connected(settings), "the connection")
        assert status()["slack"]["app_id"] == desk.slack.app_id
        assert finding()["ok"]
        desk.slack.app_token = "xapp-another"
        os.kill(status()["pid"], signal.SIGKILL)
        until(lambda: (slack_socket.ask(settings) or SocketState(since=0)).reason.count("invalid_auth"), "the reason")
        assert not status()["slack"]["connected"]
        found = finding()
        assert not found["ok"]
        assert "CONCORDANCE_SLACK_APP_TOKEN" in found["detail"]
    finally:
        supervisor.stop()
