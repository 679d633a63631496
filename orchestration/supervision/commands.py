"""The commands of our processes, which `concordance up` starts and which run without it: see `orchestration/standalone.py`."""

import sys
from collections.abc import Sequence
from pathlib import Path

from resources.syncs.launch import LOCATION

DEFINITIONS = "orchestration.definitions"


def serving(*options: str) -> list[str]:
    return [sys.executable, "-m", "serving", *options]


def webserver(*options: str) -> list[str]:
    return [sys.executable, "-m", "orchestration.supervision.webserver", *options]


def daemon(workspace: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "dagster._daemon", "run", "-w", str(workspace), *options]


def code(*place: str, definitions: str = DEFINITIONS) -> list[str]:
    """`place` is where the code server listens, as options of Dagster."""
    return [
        sys.executable, "-m", "dagster", "api", "grpc", "-m", definitions, *place,
        "--location-name", LOCATION, "--use-python-environment-entry-point",
    ]  # fmt: skip


def run(arguments: Sequence[str]) -> list[str]:
    """`arguments` are Dagster's description of the run."""
    return [sys.executable, "-m", "dagster", "api", *arguments]


def workers() -> list[str]:
    return [sys.executable, "-m", "orchestration.supervision.workers"]
