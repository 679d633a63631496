"""Dagster's webserver behind our own sign-in, on loopback: `python -m orchestration.supervision.webserver`.

Dagster's webserver has no sign-in of its own. Here its requests first pass `resources/core/guard.py` (host names, origins, JSON) and
`orchestration/supervision/dagster_gate.py` (secret, roles).
"""

import signal
import sys
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from dagster import DagsterInstance
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from starlette.requests import HTTPConnection

from orchestration.dagster_api import WorkspaceFileTarget, WorkspaceProcessContext, WorkspaceRequestContext
from orchestration.supervision.dagster_gate import ROLE, Gate
from orchestration.supervision.dagster_roles import RoleCache, role_reader
from orchestration.supervision.services import serving_address
from resources import dagster_access
from resources.core.errors import ConcordanceError
from resources.core.guard import App, Guard, rules_for
from resources.logging import configure
from resources.settings import Settings, load

HOST = "127.0.0.1"
STOP_SECONDS = 5
STATEMENT_MILLISECONDS = 15_000
POOL_RECYCLE_SECONDS = 3600
POOL_OVERFLOW = 20
LIVE_DATA_MILLISECONDS = 2000
"""Source of these four: the defaults of `dagster-webserver`."""


class Webserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    """Dagster's webserver, with read-only pages for viewers."""

    def _make_request_context(self, conn: HTTPConnection) -> WorkspaceRequestContext:
        process = self._process_context
        return WorkspaceRequestContext(
            instance=process.instance,
            current_workspace=process.get_current_workspace(),
            process_context=process,
            version=process.version,
            source=conn,
            read_only=conn.scope[ROLE] != "admin",
        )


def application(settings: Settings, dagster: App) -> App:
    """Return Dagster's application wrapped in the checks."""
    public = urlsplit(settings.dagster_public_url or "")
    names = [name.lower() for name in (*settings.allowed_hosts, public.hostname or "") if name]
    rules = rules_for(HOST, hosts=names, origins=[f"https://{name}" for name in names])
    gate = Gate(
        dagster,
        dagster_access.secrets_of(settings),
        RoleCache(role_reader(serving_address(settings))),
        sign_in=f"{settings.base_url}/dagster",
        https_host=public.hostname if public.scheme == "https" else None,
    )
    return Guard(gate, rules)


def main() -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status."""
    # A background job of a script inherits an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        settings = load()
        configure(settings.log_level, "dagster-webserver")
        dagster_access.secrets_of(settings)
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    workspace = WorkspaceFileTarget([str(settings.home / "dagster" / "workspace.yaml")])
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(STATEMENT_MILLISECONDS, POOL_RECYCLE_SECONDS, POOL_OVERFLOW)
        with WorkspaceProcessContext(instance, workspace, version=__version__) as process:
            server = Webserver(process, live_data_poll_rate=LIVE_DATA_MILLISECONDS)
            uvicorn.run(
                application(settings, cast("Any", server).create_asgi_app()),  # its type is unknown
                host=HOST,
                port=settings.dagster_port,
                log_level="warning",
                access_log=False,  # it would contain the tokens of links
                server_header=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
