"""The commands `sync directory` and `whoami`, and what `token` says of groups that no longer count."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Json
from orchestration.cli.installed import database
from orchestration.cli.output import note, say, say_json
from resources.core import permissions
from resources.core.durations import age_of, duration
from resources.core.errors import InvalidRequestError, NotRunningError
from resources.people import groups_are_managed, sources_of_groups, to_sync
from resources.settings import Settings, load
from sql.people import PeopleState, PeopleStates
from sql.serving import WebSession

NOT_SET_UP = (
    "No source of people and groups is set up: set CONCORDANCE_GROUPS_FILE, CONCORDANCE_GOOGLE_DIRECTORY_API_URL, or a service account "
    "with CONCORDANCE_GOOGLE_SUBJECT (docs/groups.md)."
)


def sync_directory(settings: Settings, *, approve: bool, json: bool) -> int:
    """Sync people and groups here, not through Dagster, and report. Returns the exit status."""
    from resources.people.sync import sync_people

    if not to_sync(settings):
        raise InvalidRequestError(NOT_SET_UP)
    with database(settings):
        pass  # says that Concordance is not running
    reports = sync_people(settings, approve=approve)
    if json:
        say_json({"sources": msgspec.to_builtins(reports)})
    for name, report in reports.items():
        if not json and report.error is None:
            say(
                f"{name}: {report.people} people, {report.groups} groups, {report.members} memberships; {report.inactive} inactive;"
                f" {report.calls} calls."
            )
        if report.note is not None:
            note(f"{name}: {report.note}")
    return 1 if any(report.error for report in reports.values()) else 0


def whoami(
    email: Annotated[str, Parameter(help="The person.")],
    /,
    *,
    json: Json = False,
) -> int:
    from serving.identity.principals import identity_of

    settings = load()
    address = permissions.email(email)
    with database(settings) as connection:
        said = WebSession(connection).identity(email=address)
        read = read_sources(PeopleStates(connection).states())
    now = datetime.now(UTC)
    found = identity_of(
        address, said, now=now, max_age=duration(settings.acl_max_age), managed=groups_are_managed(settings, read)
    )
    if json:
        say_json(msgspec.to_builtins(found))
        return 0
    say(f"{found.email}: {'active' if found.active else 'INACTIVE, refused everywhere'}")
    for one in found.principals:
        through = f", through {one.through}" if one.through else ""
        age = f", read {age_of(one.read_at, now)} ago" if one.read_at else ""
        say(f"  {one.principal:<40} {one.origin}{through}{age}{'' if one.counts else '  TOO OLD: grants nothing'}")
    if found.groups_are_managed:
        note("Groups in tokens and keys made here do not count: " + ", ".join(sources_of_groups(settings, read)))
    return 0


def read_sources(states: list[PeopleState]) -> list[str]:
    return [one.source for one in states if one.directory_at is not None]


def warn_of_groups(settings: Settings, groups: list[str] | None) -> None:
    """Say that groups of tokens and keys no longer count, if that is so. Does not need the database."""
    if not groups:
        return
    try:
        with database(settings) as connection:
            read = read_sources(PeopleStates(connection).states())
    except NotRunningError:
        read = list[str]()
    if groups_are_managed(settings, read):
        names = ", ".join(sources_of_groups(settings, read))
        note(
            f"Warning: the groups given with --group are ignored, because groups are read from {names}"
            " (docs/groups.md)."
        )
