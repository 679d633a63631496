"""`simulate drive` and `simulate slack`: one of one's own on this machine, to try the connectors without an account."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from orchestration.cli.output import note, say

if TYPE_CHECKING:
    from orchestration.demo.simulated import Simulator
    from resources.sources.simulation import App

Port = Annotated[int, Parameter(help="Port on this machine.")]
Sample = Annotated[bool, Parameter(negative="--empty", help="Begin with what the sample company has, or with nothing.")]


def drive(*, port: Port = 8091, sample: Sample = True) -> int:
    """Serve a simulated Google Drive until Ctrl-C, and print the settings that lead to it."""
    from orchestration.demo.sample_sources import make_drive
    from orchestration.demo.simulated import DRIVE
    from resources.sources.drive.simulator import Drive, DriveApp

    return _serve(DRIVE, DriveApp(make_drive() if sample else Drive()), port)


def slack(
    *,
    port: Port = 8092,
    sample: Sample = True,
    throttle: Annotated[
        bool, Parameter(negative="", help="Refuse calls beyond the published rates, as Slack does.")
    ] = False,
) -> int:
    """Serve a simulated Slack workspace until Ctrl-C, and print the settings that lead to it."""
    from orchestration.demo.sample_sources import make_workspace
    from orchestration.demo.simulated import SLACK
    from resources.sources.slack.simulator import SlackApp, Workspace

    workspace = make_workspace() if sample else Workspace()
    workspace.throttle = throttle
    return _serve(SLACK, SlackApp(workspace), port)


def _serve(simulator: Simulator, app: App, port: int) -> int:
    from resources.core.errors import ConfigurationError
    from resources.sources.simulation import run_forever

    def tell(base: str) -> None:
        for name, value in simulator.settings(base).items():
            say(f"CONCORDANCE_{name.upper()}={value}")
        note(f"The simulator answers at {base}; open that to see what it can be asked. Ctrl-C stops it.")

    try:
        run_forever(app, port=port, on_start=tell)
    except OSError as error:
        raise ConfigurationError(
            f"Port {port} cannot be used ({os.strerror(error.errno or 0)}): give a free one with --port."
        ) from error
    note("Stopped.")
    return 0
