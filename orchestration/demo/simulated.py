"""Run simulators for the sources that the user has not set up, and point the settings to them.

Each simulator runs as a service on a free port. Sources that are set up stay as they are.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from resources.core.domain import SourceName

if TYPE_CHECKING:
    from orchestration.supervision.service import Service
    from resources.settings import Settings


class Simulator(NamedTuple):
    """A simulator: its name for `concordance simulate`, and the settings that make the connector use it."""

    source: SourceName
    name: str
    token: str
    url_setting: str
    token_setting: str
    path: str = ""
    """Path of the API below its URL."""
    switch: str | None = None
    """A setting to turn on, which the sample company needs."""

    @property
    def service(self) -> str:
        return f"{self.name}-simulator"

    def settings(self, base: str) -> dict[str, str]:
        """Return the settings that point to it at the URL `base`."""
        found = {self.url_setting: f"{base}{self.path}", self.token_setting: self.token}
        return found if self.switch is None else {**found, self.switch: "true"}


DRIVE = Simulator(
    SourceName.GOOGLE_DRIVE, "drive", "drive-simulator", "drive_api_url", "drive_token", switch="drive_follow_shortcuts"
)
SLACK = Simulator(SourceName.SLACK, "slack", "xoxb-simulator", "slack_api_url", "slack_bot_token", "/api")
SIMULATORS = (DRIVE, SLACK)


def with_simulators(settings: Settings) -> tuple[Settings, list[Service]]:
    """Return settings that point to a simulator for each source that is not set up, and the services to start."""
    from orchestration.supervision.environment import bare_environment
    from resources.servers.processes import free_port
    from resources.sources import configured

    ports = {simulator: free_port() for simulator in SIMULATORS if not configured(settings, simulator.source)}
    for simulator, port in ports.items():
        settings = _point_to(settings, simulator, _address(port))
    environment = bare_environment(settings)
    return settings, [_service(settings, simulator, port, environment) for simulator, port in ports.items()]


def with_running_simulators(settings: Settings) -> Settings:
    """Return settings that point to the simulators that run in this HOME, if any."""
    from orchestration.supervision.run_state import read

    services = read(settings).services
    for simulator in SIMULATORS:
        state = services.get(simulator.service)
        if state is not None and state.url is not None:
            settings = _point_to(settings, simulator, state.url)
    return settings


def simulated(settings: Settings) -> list[SourceName]:
    """Return the sources for which these settings point to a simulator."""
    given = {one.source: getattr(settings, one.token_setting) for one in SIMULATORS}
    return [one.source for one in SIMULATORS if given[one.source] and given[one.source].get_secret_value() == one.token]


def _point_to(settings: Settings, simulator: Simulator, base: str) -> Settings:
    from pydantic import SecretStr

    given: dict[str, Any] = simulator.settings(base)
    given[simulator.token_setting] = SecretStr(simulator.token)
    if simulator.switch is not None:
        given[simulator.switch] = True
    return settings.model_copy(update=given)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _check_unconnected(settings: Settings, source: SourceName) -> None:
    """Raise `ConfigurationError` if the source was connected in the browser: the simulator would take its place."""
    from resources.core.errors import ConfigurationError
    from resources.sources import label
    from resources.stores.postgres import session
    from sql.source_settings import StoredSettings

    with session(settings.postgres_dsn) as connection:
        stored = {row.source for row in StoredSettings(connection).stored_settings()}
    if source.value in stored:
        raise ConfigurationError(
            f"{label(source)} is connected in {settings.home}, as saved on its page, and a simulator would take its place. Give the "
            "sample company a home of its own: CONCORDANCE_HOME=.concordance-sample"
        )


def _service(settings: Settings, simulator: Simulator, port: int, environment: dict[str, str]) -> Service:
    from orchestration.supervision.liveness import answers
    from orchestration.supervision.service import Service

    return Service(
        name=simulator.service,
        command=lambda: [
            sys.executable, "-m", "orchestration.cli", "simulate", simulator.name, "--sample", "--port", str(port),
        ],
        ready=lambda: answers(_address(port)),
        prepare=lambda: _check_unconnected(settings, simulator.source),
        url=_address(port),
        environment=environment,
    )  # fmt: skip
