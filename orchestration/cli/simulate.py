"""`simulate`: a Drive or a Slack of one's own on this machine, to try the connectors without an account."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from orchestration.cli.output import note, say

if TYPE_CHECKING:
    from resources.simulators import App


def simulate(
    service: Literal["drive", "slack"],
    /,
    *,
    port: Annotated[int | None, Parameter(help="Port on this machine; 8091 for drive, 8092 for slack.")] = None,
    sample: Annotated[
        bool, Parameter(negative="--empty", help="Begin with the sample company's files or messages, or with nothing.")
    ] = True,
    throttle: Annotated[
        bool, Parameter(negative="", help="Slack: refuse calls beyond the published rates, as Slack does.")
    ] = False,
) -> int:
    """Serve a simulated Google Drive or Slack until Ctrl-C, and print the settings that lead to it.

    Parameters
    ----------
    service
        drive or slack.
    """
    from orchestration.simulated import DRIVE, SLACK
    from resources.errors import ConfigurationError, InvalidRequestError
    from resources.simulators import run_forever

    if throttle and service != "slack":
        raise InvalidRequestError("--throttle is for slack: Drive publishes no rates that a simulator could enforce.")
    simulator = DRIVE if service == "drive" else SLACK
    app = _drive(sample) if service == "drive" else _slack(sample, throttle)
    number = simulator.port if port is None else port

    def tell(base: str) -> None:
        for name, value in simulator.settings(base).items():
            say(f"CONCORDANCE_{name.upper()}={value}")
        note(f"A simulated {service} answers at {base}; open that to see what it can be asked. Ctrl-C stops it.")

    try:
        run_forever(app, port=number, on_start=tell)
    except OSError as error:
        raise ConfigurationError(
            f"Port {number} cannot be used ({os.strerror(error.errno or 0)}): give a free one with --port."
        ) from error
    note("Stopped.")
    return 0


def _drive(sample: bool) -> App:
    from orchestration.sample_sources import make_drive
    from resources.simulators.drive import Drive, DriveApp

    return DriveApp(make_drive() if sample else Drive())


def _slack(sample: bool, throttle: bool) -> App:
    from orchestration.sample_sources import make_workspace
    from resources.simulators.slack import SlackApp, Workspace

    workspace = make_workspace() if sample else Workspace()
    workspace.throttle = throttle
    return SlackApp(workspace)
