"""Our processes without `concordance up`: each replaces the command that starts it, in a container, a pod or under systemd.

They read everything from the environment and from files, write no keys if all are given, log to standard output, and end on SIGTERM.
Only `audit` in HOME and the temporary folder must be writable.
"""

import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from orchestration.supervision import commands, dagster_folder
from orchestration.supervision.environment import process_environment
from resources.core.errors import InvalidRequestError, ServiceUnavailableError
from resources.schema import prepare
from resources.settings import Settings
from resources.stores.dagster_tables import check_place, forget_future
from resources.stores.migrate import pending

RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DESCRIBED = ("execute_run", "resume_run")
"""Dagster's commands that execute a run which their argument describes."""
JSON_LOGS = ("--log-format", "json")
LOOK_SECONDS = 1.0


def serving(settings: Settings, drain: float) -> NoReturn:
    _become(commands.serving("--drain", str(drain)), process_environment(settings, "serving"))


def webserver(settings: Settings, host: str) -> NoReturn:
    environment = dagster_environment(settings, "dagster-webserver")
    _become(commands.webserver("--host", host), environment)


def daemon(settings: Settings) -> NoReturn:
    environment = dagster_environment(settings, "dagster-daemon")
    workspace = Path(environment["DAGSTER_HOME"]) / dagster_folder.WORKSPACE
    forget_future(settings.dagster_dsn, time.time())
    _become(commands.daemon(workspace, *JSON_LOGS), environment)


def code(settings: Settings, host: str, port: int) -> NoReturn:
    environment = dagster_environment(settings, "dagster-code")
    _become(commands.code("--host", host, "--port", str(port), *JSON_LOGS), environment)


def workers(settings: Settings) -> NoReturn:
    """Keep warm processes for runs, which the webserver and the daemon with the same HOME hand over."""
    _become(commands.workers(), dagster_environment(settings, "run-workers"))


def run(settings: Settings, what: Sequence[str]) -> NoReturn:
    """Execute a run, named by its ID or described as Dagster's run launchers do: `… api execute_run JSON`."""
    environment = dagster_environment(settings, "run-workers")
    if len(what) == 1 and RUN_ID.fullmatch(what[0]):
        os.environ.update(environment)
        _become(commands.run(_described(what[0])), environment)
    if len(what) < 3 or what[-3] != "api" or what[-2] not in DESCRIBED:
        raise InvalidRequestError(
            "Give the ID of a run, or the command that Dagster's run launcher passes to a container."
        )
    _become(commands.run(what[-2:]), environment)


def migrate(settings: Settings) -> list[str]:
    """Bring the database to the schema of this version, and create Dagster's tables. Returns the applied migrations. Idempotent."""
    applied = prepare(settings.postgres_dsn)
    check_place(settings.dagster_dsn)
    os.environ.update(dagster_environment(settings, "dagster-code"))
    from dagster import DagsterInstance

    with DagsterInstance.get():
        return applied


def await_migration(settings: Settings, seconds: float) -> None:
    """Wait until another process has migrated the database to this version. Raises `ServiceUnavailableError` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            missing = pending(settings.postgres_dsn)
        except ServiceUnavailableError as error:
            missing = [str(error)]
        if not missing:
            return
        if time.monotonic() >= deadline:
            raise ServiceUnavailableError(f"The database is not migrated to this version: {missing[0]}")
        time.sleep(LOOK_SECONDS)


def dagster_environment(settings: Settings, name: str) -> dict[str, str]:
    """Return the environment of a process of Dagster, whose folder is prepared."""
    return process_environment(settings, name) | {"DAGSTER_HOME": str(dagster_folder.remote(settings))}


def _described(run_id: str) -> Sequence[str]:
    from dagster import DagsterInstance

    from orchestration.dagster_api import execute_run_arguments

    with DagsterInstance.get() as instance:
        found = instance.get_run_by_id(run_id)
        if found is None:
            raise InvalidRequestError(f"Dagster has no run {run_id}.")
        return execute_run_arguments(instance, found)


def _become(command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    # `&` in a script has it ignored, and Dagster gives SIGTERM the handler of SIGINT
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execve(command[0], list(command), environment)  # noqa: S606 # replacing this process is the purpose
