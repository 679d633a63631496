"""The services that `concordance up` runs, in stages; the services of one stage start at the same time.

Postgres and the vector server are not started if POSTGRES_URL or QDRANT_URL names an external one.
"""

import http.client
import shutil
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from orchestration.supervision import commands, dagster_folder
from orchestration.supervision.commands import DEFINITIONS
from orchestration.supervision.environment import bare_environment, service_environment
from orchestration.supervision.liveness import answers, grpc_replies, http_replies, postgres_replies
from orchestration.supervision.service import Service
from orchestration.supervision.serving import Serving
from orchestration.supervision.workers import address, replies
from resources import dagster_access, keys, slack_socket
from resources.core.errors import ServiceUnavailableError
from resources.schema import prepare
from resources.servers.listening import check_port
from resources.servers.sockets import socket_path
from resources.settings import Settings
from resources.settings.urls import without_password
from resources.stores.dagster_tables import check_place, forget_future
from resources.stores.postgres import said

DAEMON_SILENCE_SECONDS = 120.0
"""Dagster's daemon writes a heartbeat every 30 seconds."""
SET_BACK_SECONDS = 60.0
"""The daemon is restarted if the clock was set back by more."""
SLACK_EVENTS = "slack-events"


def services(settings: Settings, definitions: str = DEFINITIONS, more: Sequence[Service] = ()) -> list[list[Service]]:
    """Return the services in stages; those in `more` are ready before the first sync can begin.

    `definitions` is the module that Dagster loads (tests pass a small one).
    """
    stages: list[list[Service]] = []
    if settings.embedded_postgres:
        stages.append([_postgres(settings)])
    else:
        _prepare(settings)
    parallel = [_code_server(settings, definitions)]
    if settings.embedded_qdrant:
        parallel.insert(0, _qdrant(settings))
    parallel += [_webserver(settings), *Serving(settings).services(), *more]
    if settings.slack_app_token is not None:
        parallel.append(_slack_events(settings))
    stages.append(parallel)
    # Last, once the webserver has created Dagster's tables: two processes that create them at once interfere with each other.
    stages.append([_daemon(settings), *([_workers(settings)] if definitions == DEFINITIONS else [])])
    return stages


def check_fresh(settings: Settings) -> None:
    """Raise `ConfigurationError` if a port cannot be used and HOME does not exist yet, before anything is written."""
    if (settings.home / "run").exists():
        return
    needed = [("serving", "CONCORDANCE_HTTP_PORT", settings.http_host, settings.http_port)]
    needed.append(("dagster-webserver", "CONCORDANCE_DAGSTER_PORT", "127.0.0.1", settings.dagster_port))
    if settings.embedded_postgres:
        needed.append(("postgres", "CONCORDANCE_POSTGRES_PORT", "127.0.0.1", settings.postgres_port))
    if settings.embedded_qdrant:
        needed.append(("qdrant", "CONCORDANCE_QDRANT_PORT", "127.0.0.1", settings.qdrant_port))
    for name, setting, host, number in needed:
        check_port(name, setting, host, number)


def external(settings: Settings) -> dict[str, str]:
    """Return the external services and their URLs without credentials."""
    found: dict[str, str] = {}
    if settings.postgres_url is not None:
        found["postgres"] = without_password(settings.postgres_url.get_secret_value())
    if settings.qdrant_url is not None:
        found["qdrant"] = without_password(settings.qdrant_url)
    return found


def listens(path: Path) -> bool:
    """Return True if a process accepts connections on this Unix socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(2)
        return client.connect_ex(str(path)) == 0


def _prepare(settings: Settings) -> None:
    """Migrate the database and check where Dagster will create its tables. Raises `ConfigurationError`."""
    prepare(settings.postgres_dsn)
    check_place(settings.dagster_dsn)


def _postgres(settings: Settings) -> Service:
    from resources.servers.postgres import RECOVERY_SECONDS, STOP_SECONDS, EmbeddedPostgres, environment

    server = EmbeddedPostgres(settings)

    def after() -> None:
        _prepare(settings)

    return Service(
        name="postgres",
        command=server.command,
        ready=server.ready,
        probe=lambda: postgres_replies(settings.postgres_dsn),
        url=settings.postgres_dsn,  # names the password's file, not the password
        environment=environment(),
        prepare=server.prepare,
        after=after,
        port=("CONCORDANCE_POSTGRES_PORT", "127.0.0.1", settings.postgres_port),
        recovery_seconds=RECOVERY_SECONDS,
        stop_signal=signal.SIGINT,
        stop_seconds=STOP_SECONDS,
        cwd=server.data.anchor,
    )


def _qdrant(settings: Settings) -> Service:
    return Service(
        name="qdrant",
        command=lambda: [
            sys.executable, "-m", "resources.servers.vector", "--path", str(settings.home / "qdrant"),
            "--host", "127.0.0.1", "--port", str(settings.qdrant_port),
        ],
        ready=lambda: answers(f"{settings.qdrant_address}/readyz"),
        probe=lambda: http_replies(f"{settings.qdrant_address}/livez"),
        url=settings.qdrant_address,
        environment=bare_environment(settings, {"CONCORDANCE_QDRANT_API_KEY": keys.qdrant_api_key(settings) or ""}),
        port=("CONCORDANCE_QDRANT_PORT", "127.0.0.1", settings.qdrant_port),
        stop_seconds=30.0,
    )  # fmt: skip


def _code_server(settings: Settings, definitions: str) -> Service:
    folder = settings.home / "dagster"
    place = socket_path(settings, "code.sock")

    def prepare() -> None:
        for captured in (folder / "storage").glob("**/compute_logs"):  # of earlier versions; they name documents
            shutil.rmtree(captured)
        dagster_folder.write(folder, dagster_folder.socket_server(place), settings.sync_runs)

    return Service(
        name="dagster-code",
        command=lambda: commands.code("--socket", str(place), definitions=definitions),
        ready=lambda: listens(place),
        probe=lambda: grpc_replies(f"unix:{place}"),
        environment=service_environment(settings, "dagster-code"),
        prepare=prepare,
    )


def _webserver(settings: Settings) -> Service:
    return Service(
        name="dagster-webserver",
        command=commands.webserver,
        ready=lambda: _location_is_loaded(settings),
        probe=lambda: http_replies(f"{settings.dagster_address}/server_info"),
        url=settings.dagster_address,
        environment=service_environment(settings, "dagster-webserver"),
        port=("CONCORDANCE_DAGSTER_PORT", "127.0.0.1", settings.dagster_port),
    )


def _location_is_loaded(settings: Settings) -> bool:
    """Return True if the webserver has loaded the code location; before that, launching a run would fail."""
    connection = http.client.HTTPConnection("127.0.0.1", settings.dagster_port, timeout=5)
    try:
        query = (
            '{"query": "{workspaceOrError {... on Workspace {locationEntries {locationOrLoadError {__typename}}}}}"}'
        )
        headers = {"Content-Type": "application/json"} | dagster_access.headers(settings)
        connection.request("POST", "/graphql", query, headers)
        response = connection.getresponse()
        return response.status == 200 and b'"RepositoryLocation"' in response.read()
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _daemon(settings: Settings) -> Service:
    started = [(0.0, 0.0)]  # by the clock, and in seconds that nobody sets back

    def prepare() -> None:
        started.append((time.time(), time.monotonic()))
        forget_future(settings.dagster_dsn, started[-1][0])

    def ready() -> bool:
        last = last_heartbeat(settings)
        return last is not None and last > started[-1][0]

    def probe() -> bool | None:
        clock, passed = started[-1]
        if clock + time.monotonic() - passed - time.time() > SET_BACK_SECONDS:
            return False  # it would start nothing until the time that it was
        return daemon_lives(settings)

    return Service(
        name="dagster-daemon",
        command=lambda: commands.daemon(settings.home / "dagster" / dagster_folder.WORKSPACE),
        ready=ready,
        probe=probe,
        environment=service_environment(settings, "dagster-daemon"),
        prepare=prepare,
    )


def last_heartbeat(settings: Settings) -> float | None:
    """Return the time of the latest heartbeat of the daemon's threads; None without one, and while Postgres is unavailable."""
    try:
        return _heartbeat(settings)
    except ServiceUnavailableError:
        return None


def daemon_lives(settings: Settings) -> bool | None:
    """Return False if Dagster's daemon has been silent for too long; None if that is unknown."""
    last = last_heartbeat(settings)
    return None if last is None else not _silent(last)


def daemon_is_silent(settings: Settings) -> bool:
    """Return True if Dagster's daemon has been silent for too long, or always. Raises `ServiceUnavailableError` if that is unknown."""
    last = _heartbeat(settings)
    return last is None or _silent(last)


def _silent(last: float) -> bool:
    return time.time() - last >= DAEMON_SILENCE_SECONDS


def _heartbeat(settings: Settings) -> float | None:
    import psycopg

    try:
        with psycopg.connect(settings.dagster_dsn, connect_timeout=2) as conn:
            conn.execute("SET LOCAL statement_timeout = '2s'")
            row = conn.execute(
                "SELECT extract(epoch FROM max(timestamp) AT TIME ZONE 'UTC') FROM daemon_heartbeats"
            ).fetchone()
    except psycopg.errors.UndefinedTable:
        return None
    except psycopg.OperationalError as error:
        raise ServiceUnavailableError(f"Postgres does not answer: {said(error)}") from error
    return None if row is None or row[0] is None else float(row[0])


def _workers(settings: Settings) -> Service:
    return Service(
        name="run-workers",
        command=commands.workers,
        ready=lambda: replies(settings) is True,
        probe=lambda: replies(settings),
        environment=service_environment(settings, "run-workers"),
        prepare=lambda: address(settings).unlink(missing_ok=True),
    )


def _slack_events(settings: Settings) -> Service:
    """Return the receiver of Slack events, which needs Postgres, the app-level token and no other secret."""
    return Service(
        name=SLACK_EVENTS,
        command=lambda: [sys.executable, "-m", "serving.sources.slack_socket"],
        ready=lambda: slack_socket.ask(settings) is not None,
        probe=lambda: slack_socket.ask(settings) is not None,
        environment=service_environment(settings, SLACK_EVENTS),
    )
