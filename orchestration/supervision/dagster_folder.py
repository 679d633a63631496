"""DAGSTER_HOME: Dagster's instance file, which may be the operator's own, and the workspace file with the address of the code server."""

import json
import os
import shutil
import tempfile
from pathlib import Path

from orchestration.supervision.environment import ROOT
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from resources.syncs.launch import LOCATION

INSTANCE, WORKSPACE = "dagster.yaml", "workspace.yaml"
POOL_LIMIT = "default_limit: 1"
OURS = "# Dagster instance configuration. "
"""How our instance file begins. One that begins otherwise is the operator's own."""


def write(folder: Path, server: str, sync_runs: int) -> None:
    """Write the files for a code server, `socket: …` or `host: …` and `port: …`; an instance file of the operator's own is kept.

    `sync_runs` is the limit of each source's concurrency pool.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _is_own(folder / INSTANCE):
        packaged = _packaged().read_text(encoding="utf-8")
        (folder / INSTANCE).write_text(packaged.replace(POOL_LIMIT, f"default_limit: {sync_runs}"), encoding="utf-8")
    (folder / WORKSPACE).write_text(
        f"load_from:\n  - grpc_server:\n      {server}\n      location_name: {LOCATION}\n", encoding="utf-8"
    )


def remote(settings: Settings) -> Path:
    """Return DAGSTER_HOME of a process whose code server listens on `settings.dagster_code_address`, with its files.

    It is the variable DAGSTER_HOME if that is set, otherwise `dagster` in HOME. If it cannot be written to, a temporary folder gets
    the files, with a copy of the operator's own instance file.
    """
    folder = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster")
    host, _, port = settings.dagster_code_address.rpartition(":")
    server = f"host: {json.dumps(host.strip('[]'))}\n      port: {int(port)}"
    try:
        write(folder, server, settings.sync_runs)
    except OSError:
        made = Path(tempfile.mkdtemp(prefix="concordance-dagster-"))
        if _is_own(folder / INSTANCE):
            shutil.copyfile(folder / INSTANCE, made / INSTANCE)
        write(made, server, settings.sync_runs)
        return made
    return folder


def own_file(settings: Settings) -> Path | None:
    """Return the instance file of a process of Dagster if it is the operator's own."""
    file = Path(os.environ.get("DAGSTER_HOME") or settings.home / "dagster") / INSTANCE
    return file if _is_own(file) else None


def socket_server(path: Path) -> str:
    """Return the workspace's line for a code server on a Unix socket."""
    return f"socket: {json.dumps(str(path))}"


def _is_own(file: Path) -> bool:
    return file.is_file() and not file.read_text(encoding="utf-8").startswith(OURS)


def _packaged() -> Path:
    """Return our instance file: at the root of a checkout, or next to this package in an installed wheel."""
    for folder in (ROOT, Path(__file__).parents[1]):
        if (folder / INSTANCE).is_file():
            return folder / INSTANCE
    raise ServiceUnavailableError("The file dagster.yaml is missing from this installation. Install Concordance again.")
