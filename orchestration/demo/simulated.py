"""The simulators beside a sample company's set: they stand in for the sources that the person has not set up.

Enter: settings. Leave: settings that lead to the simulators, and the services that run them, each on a free port. What a person
has set up stays as it is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from resources.core.domain import SourceName

if TYPE_CHECKING:
    from orchestration.supervision.service import Service
    from resources.settings import Settings


class Simulator(NamedTuple):
    """One of them: its name for `concordance simulate`, and what makes the connector use it."""

    source: SourceName
    name: str
    token: str
    url_setting: str
    token_setting: str
    path: str = ""
    """Where below its address the interface begins."""
    switch: str | None = None
    """A setting to turn on, for what the sample company shows."""

    @property
    def service(self) -> str:
        """Name among the services of a set."""
        return f"{self.name}-simulator"

    def settings(self, base: str) -> dict[str, str]:
        """Return the settings that lead to it, when it is served at `base`."""
        found = {self.url_setting: f"{base}{self.path}", self.token_setting: self.token}
        return found if self.switch is None else {**found, self.switch: "true"}


DRIVE = Simulator(
    SourceName.GOOGLE_DRIVE, "drive", "drive-simulator", "drive_api_url", "drive_token", switch="drive_follow_shortcuts"
)
SLACK = Simulator(SourceName.SLACK, "slack", "xoxb-simulator", "slack_api_url", "slack_bot_token", "/api")
SIMULATORS = (DRIVE, SLACK)


def with_simulators(settings: Settings) -> tuple[Settings, list[Service]]:
    """Return settings that lead to a simulator of each source that is not set up, and the services to start."""
    from orchestration.supervision.environment import bare_environment
    from resources.servers.processes import free_port
    from resources.sources import configured

    ports = {simulator: free_port() for simulator in SIMULATORS if not configured(settings, simulator.source)}
    for simulator, port in ports.items():
        settings = _pointed(settings, simulator, _address(port))
    environment = bare_environment(settings)
    return settings, [_service(simulator, port, environment) for simulator, port in ports.items()]


def with_running_simulators(settings: Settings) -> Settings:
    """Return settings that lead to the simulators which the running set of this HOME was started with, if it was."""
    from orchestration.supervision.run_state import read

    services = read(settings).services
    for simulator in SIMULATORS:
        state = services.get(simulator.service)
        if state is not None and state.url is not None:
            settings = _pointed(settings, simulator, state.url)
    return settings


def simulated(settings: Settings) -> list[SourceName]:
    """Return the sources of which these settings lead to a simulator of the sample company."""
    given = {one.source: getattr(settings, one.token_setting) for one in SIMULATORS}
    return [one.source for one in SIMULATORS if given[one.source] and given[one.source].get_secret_value() == one.token]


def _pointed(settings: Settings, simulator: Simulator, base: str) -> Settings:
    from pydantic import SecretStr

    given: dict[str, Any] = simulator.settings(base)
    given[simulator.token_setting] = SecretStr(simulator.token)
    if simulator.switch is not None:
        given[simulator.switch] = True
    return settings.model_copy(update=given)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _service(simulator: Simulator, port: int, environment: dict[str, str]) -> Service:
    from orchestration.supervision.service import Service
    from orchestration.supervision.services import answers

    return Service(
        name=simulator.service,
        command=lambda: [
            sys.executable, "-m", "orchestration.cli", "simulate", simulator.name, "--sample", "--port", str(port),
        ],
        ready=lambda: answers(_address(port)),
        url=_address(port),
        environment=environment,
    )  # fmt: skip
