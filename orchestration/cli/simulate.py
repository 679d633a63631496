"""The commands `simulate drive` and `simulate slack`, to try the connectors without an account."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orchestration.cli.output import note, say
from orchestration.demo.simulated import DRIVE, SLACK, Simulator
from resources.core.errors import ConfigurationError

if TYPE_CHECKING:
    from simulators import App

Port = Annotated[int, Parameter(help="Port on this machine.")]
Sample = Annotated[bool, Parameter(negative="--empty", help="Start with the sample company's content, or empty.")]


def simulate_drive(*, port: Port = 8091, sample: Sample = True) -> int:
    from orchestration.demo.sample_sources import make_drive
    from simulators.drive import DriveApp, SimulatedDrive

    return _serve(DRIVE, DriveApp(make_drive() if sample else SimulatedDrive()), port)


def simulate_slack(
    *,
    port: Port = 8092,
    sample: Sample = True,
    throttle: Annotated[bool, Parameter(negative="", help="Enforce Slack's published rate limits.")] = False,
) -> int:
    from orchestration.demo.sample_sources import make_workspace
    from simulators.slack import SlackApp, Workspace

    workspace = make_workspace() if sample else Workspace()
    workspace.throttle = throttle
    return _serve(SLACK, SlackApp(workspace), port)


def _serve(simulator: Simulator, app: App, port: int) -> int:
    from resources.settings import variables
    from simulators import run_forever

    def show(base: str) -> None:
        for name, value in simulator.settings(base).items():
            say(variables.assignment(name, value))
        note(f"The simulator runs at {base}; open this URL to see what it can do. Stop it with Ctrl-C.")

    try:
        run_forever(app, port, show)
    except OSError as error:
        raise ConfigurationError(
            f"Port {port} cannot be used ({os.strerror(error.errno or 0)}). Choose a free one with --port."
        ) from error
    note("Stopped.")
    return 0
