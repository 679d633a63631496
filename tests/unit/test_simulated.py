"""Which sources of a sample company's set are simulated, and how its settings lead there."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr

from orchestration.demo.simulated import DRIVE, SLACK, simulated, with_running_simulators, with_simulators
from orchestration.supervision import run_state
from orchestration.supervision.run_state import RunState, ServiceStatus
from resources.core.domain import SourceName
from resources.settings import Settings
from resources.sources import configured
from simulators.drive import SimulatedDrive
from simulators.slack import Workspace


def settings(home: Path, **more: object) -> Settings:
    return Settings(_env_file=None, home=home, **more)  # type: ignore[arg-type,call-arg]


@pytest.fixture(autouse=True)
def nothing_set_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CONCORDANCE_")]:
        monkeypatch.delenv(name)


def test_the_simulators_have_the_tokens_that_are_handed_out() -> None:
    assert SimulatedDrive().token == DRIVE.token
    assert Workspace().token == SLACK.token


def test_both_are_simulated_when_neither_is_set_up(tmp_path: Path) -> None:
    plain = settings(tmp_path)
    made, services = with_simulators(plain)
    assert simulated(plain) == []
    assert simulated(made) == [SourceName.GOOGLE_DRIVE, SourceName.SLACK]
    assert all(configured(made, source) for source in simulated(made))
    assert [service.name for service in services] == ["drive-simulator", "slack-simulator"]
    assert (made.drive_api_url, made.slack_api_url) == (services[0].url, f"{services[1].url}/api")
    for service in services:
        assert {name for name in service.environment if name.startswith("CONCORDANCE_")} == {"CONCORDANCE_HOME"}


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"slack_bot_token": SecretStr("xoxb-own")}, [SourceName.GOOGLE_DRIVE]),
        ({"google_client_id": "own"}, [SourceName.SLACK]),
        ({"drive_token": SecretStr("own"), "slack_bot_token": SecretStr("xoxb-own")}, []),
    ],
)
def test_what_a_person_has_set_up_stays(tmp_path: Path, given: dict[str, object], left: list[SourceName]) -> None:
    own = settings(tmp_path, **given)
    made, services = with_simulators(own)
    assert simulated(made) == left
    assert len(services) == len(left)
    assert {name: getattr(made, name) for name in given} == given
    if not left:
        assert made == own


def test_another_command_finds_the_simulators_of_the_running_set(tmp_path: Path) -> None:
    plain = settings(tmp_path)
    assert with_running_simulators(plain) == plain
    state = RunState(services={SLACK.service: ServiceStatus(state="ready", url="http://127.0.0.1:4711")})
    run_state.write(plain, state)
    assert msgspec.json.decode(run_state.state_file(plain).read_bytes(), type=RunState).services == state.services
    found = with_running_simulators(plain)
    assert simulated(found) == [SourceName.SLACK]
    assert found.slack_api_url == "http://127.0.0.1:4711/api"
