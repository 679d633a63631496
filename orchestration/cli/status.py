"""The command `status`: services, running syncs, and the documents of each source."""

from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter
from psycopg.errors import ProgrammingError

from orchestration.cli.addresses import addresses, say_addresses
from orchestration.cli.arguments import Json
from orchestration.cli.installed import database
from orchestration.cli.output import note, note_changed, say, say_json
from orchestration.cli.progress import line
from orchestration.supervision import run_state
from orchestration.supervision.run_state import RunState
from orchestration.supervision.services import SLACK_EVENTS, external
from resources.alerts.states import sentence
from resources.core.durations import age_of, duration
from resources.core.errors import NotRunningError
from resources.servers.processes import alive as is_alive
from resources.settings import Settings, load
from resources.slack_socket import ask
from resources.sources import faults
from resources.stores import disk
from resources.stores.damage import of_the_schema
from resources.stores.room import rooms
from sql.alerts import Alerts, AlertState
from sql.cli import Commands, RunningSync, SourceCounts
from sql.growth import Forecast, Growth
from sql.people import PeopleState, PeopleStates


class StoredState(msgspec.Struct, frozen=True, kw_only=True):
    """What the database says."""

    sources: dict[str, SourceCounts] | None = None
    """Counts of each source; None: the database is not responding, or lacks what this version needs."""
    fault: str | None = None
    """Why the sources are unknown."""
    syncs: list[RunningSync] = []
    people: list[PeopleState] = []
    firing: list[AlertState] = []
    notices_waiting: int = 0
    """Notices of alerts that the webhook has not accepted yet."""
    forecasts: list[Forecast] = []


def status(
    *,
    urls: Annotated[
        bool, Parameter(negative="", help="Print complete URLs and headers for tools and browsers, including secrets.")
    ] = False,
    json: Json = False,
) -> int:
    settings = load()
    hung = run_state.hung_supervisor(settings)
    alive = run_state.supervisor(settings) is not None
    state = run_state.read(settings)
    services = _services(settings, state, alive and hung is None)
    stored = _stored(settings)
    disks = [str(fault) for fault in disk.faults(settings)]
    used_up = [str(one) for one in rooms(settings) if one.is_used_up]
    left_out = [str(fault) for fault in faults()]
    if json:
        more = {"urls": addresses(settings)} if urls else {}
        counts = {name: _counts(one) for name, one in (stored.sources or {}).items()}
        say_json(
            {
                "services": services,
                "sources": counts,
                "fault": stored.fault,
                "running": stored.syncs,
                "groups": [msgspec.to_builtins(one) for one in stored.people],
                "alerts": [_alert(one) for one in stored.firing],
                "notices_waiting": stored.notices_waiting,
                "forecasts": [msgspec.to_builtins(one) for one in stored.forecasts],
                "disks": [*disks, *used_up],
                "left_out": left_out,
            }
            | more
        )
    elif urls:
        say_addresses(addresses(settings))
    else:
        _say_status(services, stored)
        _say_people(settings, stored.people)
        _say_alerts(stored.firing, stored.notices_waiting)
        for one in stored.forecasts:
            say(f"capacity           {one}")
        if alive:
            note(f"The services run as the account {run_state.account(settings)}.")
    for fault in [*disks, *used_up, *left_out]:
        note(fault)
    note_changed(settings)
    if run_state.supervised_elsewhere(settings):
        note("The platform that runs the processes knows their state: `concordance up` does not run here.")
        return 1 if stored.sources is None or disks else 0
    if not alive:
        note(f"Concordance is not running in {settings.home}. Start it with: concordance up")
        return 3
    if hung is not None:
        note(
            f"The supervisor (pid {hung.pid}) is hung, so services that fail are not restarted."
            " Replace it and its services with: concordance up"
        )
    return 0 if run_state.running(settings) and stored.sources is not None and not disks else 1


def _services(settings: Settings, state: RunState, alive: bool) -> dict[str, dict[str, Any]]:

    found: dict[str, dict[str, Any]] = {
        name: {"state": "external", "url": url, "pid": None} for name, url in external(settings).items()
    }
    for name, service in state.services.items():
        is_running = service.identity is not None and is_alive(service.identity)
        shown: str = service.state
        if not alive and shown != "external":
            # Services of a hung supervisor keep running, and those of a killed one take a moment to end.
            shown = "unsupervised" if is_running else "stopped"
        found[name] = {"state": shown, "url": service.url, "pid": service.pid if is_running else None}
    if SLACK_EVENTS in found:
        found[SLACK_EVENTS]["slack"] = ask(settings)
    return found


def _stored(settings: Settings) -> StoredState:
    """Return what the database says, over one connection: a server that hangs is waited for once."""
    from assets.stages.parse import PARSER_VERSION

    try:
        with database(settings) as connection:
            statements, alerts = Commands(connection), Alerts(connection)
            return StoredState(
                sources={row.source: row for row in statements.sources(parser=PARSER_VERSION)},
                syncs=statements.running(),
                people=PeopleStates(connection).states(),
                firing=alerts.current(),
                notices_waiting=alerts.waiting_notices(),
                forecasts=Growth(connection).forecasts(),
            )
    except NotRunningError:
        return StoredState(fault="The database is not responding, so the state of the sources is unknown.")
    except ProgrammingError as error:
        if (fault := of_the_schema(error)) is None:
            raise
        return StoredState(fault=str(fault))


def _say_people(settings: Settings, states: list[PeopleState]) -> None:
    now, max_age = datetime.now(UTC), duration(settings.acl_max_age)
    for one in states:
        age = f"read {age_of(one.directory_at, now)} ago" if one.directory_at is not None else "never read"
        old = "; TOO OLD: grants nothing" if one.directory_at is not None and now - one.directory_at > max_age else ""
        say(f"groups             {one.source}: {one.groups} groups, {one.members} members, {age}{old}")
        if one.note is not None:
            note(f"{one.source}: {one.note}")


def _alert(one: AlertState) -> dict[str, Any]:
    shown = {name: getattr(one, name) for name in ("rule", "subject", "severity", "value", "since")}
    return shown | {"text": sentence(one)}


def _say_alerts(firing: list[AlertState], waiting: int) -> None:
    for one in firing:
        say(f"{one.severity:<18} {one.rule}: {sentence(one)} Since {one.since:%Y-%m-%d %H:%M} UTC.")
    if waiting:
        note(f"{waiting} notices of alerts wait for the webhook, which does not accept them. They are sent again.")


def _counts(source: SourceCounts) -> dict[str, Any]:
    paused = None if source.paused_at is None else {"since": source.paused_at, "reason": source.paused_reason}
    failure = None if source.failed_at is None else {"at": source.failed_at, "reason": source.failed_reason}
    shown = {name: getattr(source, name) for name in ("last_sync_at", "live", "skipped", "failed", "outdated")}
    return shown | {"paused": paused, "failure": failure}


def _slack(service: dict[str, Any]) -> str:
    """Return the connection state of the receiver of Slack events; empty for other services."""
    state = service.get("slack")
    if state is None:
        return ""
    return "connected to Slack" if state.connected else f"not connected to Slack: {state.reason}"


def _say_status(services: dict[str, dict[str, Any]], stored: StoredState) -> None:
    for name, service in services.items():
        pid = f"pid {service['pid']}" if service["pid"] else ""
        say(f"{name:<18} {service['state']:<12} {pid:<12} {service['url'] or _slack(service)}".rstrip())
    if stored.sources is None:
        note(f"{stored.fault}")
        return
    for name, row in stored.sources.items():
        last = f"{row.last_sync_at:%Y-%m-%d %H:%M:%S} UTC" if row.last_sync_at else "never"
        say(f"{name:<18} {row.live} live, {row.skipped} skipped, {row.failed} failed; last synced: {last}")
        if row.paused_at is not None:
            note(f"{name} is paused since {row.paused_at:%Y-%m-%d %H:%M} UTC: {row.paused_reason}")
        elif row.failed_at is not None:
            note(f"{name}: the latest sync failed at {row.failed_at:%Y-%m-%d %H:%M} UTC: {row.failed_reason}")
        if row.outdated:
            note(
                f"{name}: an earlier version parsed {row.outdated} documents. The next sync parses them again from their stored bytes,"
                " without asking the source; meanwhile they are found as they are. Passages that do not change keep their vectors."
            )
    if not stored.sources:
        note("No source has been synced yet. Start one with: concordance sync files")
    for sync in stored.syncs:
        say(f"syncing            {line(sync)}")
