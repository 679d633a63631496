"""Dagster's webserver behind our own sign-in: `python -m orchestration.supervision.webserver [--host ADDRESS]`.

Dagster's webserver has no sign-in of its own. Here its requests first pass `resources/core/guard.py` (host names, origins, JSON) and
`orchestration/supervision/dagster_gate.py` (secret, roles). Viewers have an application of their own, with fewer routes and fields.
"""

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import uvicorn
from dagster import DagsterInstance
from dagster_webserver.version import __version__
from dagster_webserver.webserver import DagsterWebserver
from graphene import Schema
from graphql import GraphQLError
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute

from orchestration.dagster_api import WorkspaceFileTarget, WorkspaceProcessContext, WorkspaceRequestContext
from orchestration.supervision.dagster_folder import WORKSPACE
from orchestration.supervision.dagster_gate import MAX_BODY_BYTES, Gate, refusal
from orchestration.supervision.dagster_roles import RoleCache, role_reader
from orchestration.supervision.serving import serving_address
from orchestration.supervision.viewer_schema import NOT_SHOWN, viewer_schema
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
VIEWER_PATHS = ("/server_info", "/graphql", "/{path:path}", "/")
"""Besides the files of Dagster's pages. The last two are the pages."""


class Webserver(DagsterWebserver[WorkspaceProcessContext, WorkspaceRequestContext]):
    """Dagster's webserver."""

    read_only = False

    def _make_request_context(self, conn: HTTPConnection) -> WorkspaceRequestContext:
        process = self._process_context
        return WorkspaceRequestContext(
            instance=process.instance,
            current_workspace=process.get_current_workspace(),
            process_context=process,
            version=process.version,
            source=conn,
            read_only=self.read_only,
        )


class ViewerWebserver(Webserver):
    """Dagster's webserver for viewers: neither changes nor logs, and of GraphQL's fields those that are allowed."""

    read_only = True

    def build_graphql_schema(self) -> Schema:
        return viewer_schema(super().build_graphql_schema())

    def handle_graphql_errors(self, errors: Sequence[GraphQLError]) -> list[dict[str, Any]]:
        """Return errors without stack traces, and those of Dagster's own code without their texts."""
        return [
            {"message": NOT_SHOWN if error.original_error else error.message, "path": error.path} for error in errors
        ]

    def build_routes(self) -> Any:
        """Return the routes that viewers may use. Websockets show logs, and other routes download them or change something."""
        static, routes = cast("list[Any]", self.build_static_routes()), cast("list[Any]", super().build_routes())
        open_paths = {*VIEWER_PATHS, *(one.path for one in static)}
        kept = [one for one in routes if one.path in open_paths and not isinstance(one, WebSocketRoute)]
        return [*(Route(one.path, _not_for_viewers) for one in routes if one.path not in open_paths), *kept]


async def _not_for_viewers(_request: Request) -> Response:
    return refusal(403, NOT_SHOWN)


def application(
    settings: Settings,
    apps: Mapping[dagster_access.Role, App],
    host: str = HOST,
    ready: Callable[[], bool] = lambda: True,
) -> App:
    """Return Dagster's applications, by role, wrapped in the checks. `host` is the address that it listens on."""
    public = urlsplit(settings.dagster_public_url or "")
    names = [name.lower() for name in (*settings.allowed_hosts, public.hostname or "") if name]
    own = urlsplit(settings.dagster_url or "").hostname or ""
    rules = rules_for(host, hosts=[*names, own], origins=[f"https://{name}" for name in names])
    gate = Gate(
        apps,
        dagster_access.secrets_of(settings),
        RoleCache(role_reader(serving_address(settings))),
        sign_in=f"{settings.base_url}/dagster",
        https_host=public.hostname if public.scheme == "https" else None,
        ready=ready,
    )
    return Guard(gate, rules)


def main() -> int:
    """Serve until SIGTERM or SIGINT, and return the exit status."""
    # A background job of a script inherits an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # uvicorn sends itself the signal again at the end
    host = sys.argv[2] if sys.argv[1:2] == ["--host"] else HOST
    try:
        settings = load()
        configure(settings.log_level, "dagster-webserver")
        dagster_access.secrets_of(settings)
    except ConcordanceError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    with suppress(KeyboardInterrupt):
        _serve(settings, host)
    return 0


def _serve(settings: Settings, host: str) -> None:
    workspace = WorkspaceFileTarget([str(Path(os.environ["DAGSTER_HOME"]) / WORKSPACE)])
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(STATEMENT_MILLISECONDS, POOL_RECYCLE_SECONDS, POOL_OVERFLOW)
        with WorkspaceProcessContext(instance, workspace, version=__version__) as process:
            kinds: Mapping[dagster_access.Role, type[Webserver]] = {"admin": Webserver, "viewer": ViewerWebserver}
            apps: Mapping[dagster_access.Role, App] = {
                role: cast("Any", kind(process, live_data_poll_rate=LIVE_DATA_MILLISECONDS)).create_asgi_app()
                for role, kind in kinds.items()
            }
            uvicorn.run(
                application(settings, apps, host, partial(_is_loaded, process)),
                host=host,
                port=settings.dagster_port,
                log_level="warning",
                ws_max_size=MAX_BODY_BYTES,
                access_log=False,  # it would contain the tokens of links
                server_header=False,
                timeout_graceful_shutdown=STOP_SECONDS,
            )


def _is_loaded(process: WorkspaceProcessContext) -> bool:
    """Return True if the code location is loaded, without which no run can be started."""
    entries = process.get_current_workspace().code_location_entries.values()
    return bool(entries) and all(one.code_location is not None for one in entries)


if __name__ == "__main__":
    sys.exit(main())
