"""The commands `serve`, `webserver`, `daemon`, `code`, `workers`, `run` and `migrate`: each process by itself, in containers and pods."""

from typing import Annotated

from cyclopts import Parameter

from orchestration.cli.output import note, say
from resources.core.errors import ServiceUnavailableError
from resources.settings import load
from resources.settings.service import Port

LOOPBACK = "127.0.0.1"
Drain = Annotated[
    float,
    Parameter(
        help="Seconds to serve after SIGTERM while /readyz answers 503, so that a load balancer looks elsewhere."
    ),
]


def serve(
    *,
    host: Annotated[str | None, Parameter(help="Address to listen on, instead of CONCORDANCE_HTTP__HOST.")] = None,
    port: Annotated[Port | None, Parameter(help="Port to listen on, instead of CONCORDANCE_HTTP_PORT.")] = None,
    drain: Drain = 0.0,
) -> None:
    from orchestration import standalone

    given = {name: value for name, value in {"http_host": host, "http_port": port}.items() if value is not None}
    standalone.serving(load(**given), drain)


def webserver(
    *,
    host: Annotated[str, Parameter(help="Address to listen on.")] = LOOPBACK,
    port: Annotated[Port | None, Parameter(help="Port to listen on, instead of CONCORDANCE_DAGSTER_PORT.")] = None,
) -> None:
    from orchestration import standalone

    standalone.webserver(load(**({} if port is None else {"dagster_port": port})), host)


def daemon(
    *,
    check: Annotated[
        bool,
        Parameter(
            negative="",
            help="Exit with 1 if the daemon has sent no heartbeat in the last two minutes, else with 0; also while Postgres is away.",
        ),
    ] = False,
) -> int:
    settings = load()
    if check:
        from orchestration.supervision.services import daemon_is_silent

        try:
            return 1 if daemon_is_silent(settings) else 0
        except ServiceUnavailableError as error:  # a restart of the daemon does not help
            note(str(error))
            return 0
    from orchestration import standalone

    return standalone.daemon(settings)


def code(
    *,
    host: Annotated[str, Parameter(help="Address to listen on. Whoever reaches it can start runs.")] = LOOPBACK,
    port: Annotated[
        Port | None, Parameter(help="Port to listen on, instead of that in CONCORDANCE_HTTP__DAGSTER_CODE_ADDRESS.")
    ] = None,
) -> None:
    from orchestration import standalone

    settings = load()
    standalone.code(settings, host, port or int(settings.dagster_code_address.rpartition(":")[2]))


def workers() -> None:
    from orchestration import standalone

    standalone.workers(load())


def run(
    *what: Annotated[
        str,
        Parameter(
            allow_leading_hyphen=True,
            help="The run's ID, or the command that Dagster's run launcher passes to a container.",
        ),
    ],
) -> None:
    from orchestration import standalone

    standalone.run(load(), what)


def migrate(
    *,
    wait: Annotated[
        float | None, Parameter(help="Do not migrate: wait so many seconds until another process has done it.")
    ] = None,
) -> None:
    from orchestration import standalone

    settings = load()
    if wait is not None:
        standalone.await_migration(settings, wait)
        note("The database has the schema of this version.")
        return
    for name in standalone.migrate(settings):
        say(name)
    note("The database has the schema of this version.")
