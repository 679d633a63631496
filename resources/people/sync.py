"""Sync people and groups: read each source as a whole, then replace what is stored of it in one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from resources.alerts import alert
from resources.core.domain import SourceName
from resources.core.errors import AuthorizationError, ConcordanceError
from resources.people import GOOGLE, PEOPLE, google_groups, groups_file, to_sync
from resources.people.google_groups import GoogleListing
from resources.people.membership import DirectMembers, flatten
from resources.settings import Settings
from resources.sources.drive import notes
from resources.sources.drive.directory import GoogleDirectory, GoogleUser
from resources.stores import leases
from resources.stores.fenced import fenced_session
from resources.stores.offboarding import offboard
from sql.people import KnownPerson, People, PeopleStates, StoredMembership
from sql.sources import Events
from sql.sync import Documents, Partitions

if TYPE_CHECKING:
    from resources.stores.postgres import Connection

WORK = "directory"
"""Name of its lease: one process at a time reads people and groups."""
MINIMUM = 5
"""As many people may vanish at once without approval."""
SHARE = 0.5
"""Most people who may vanish at once without approval, as a share of the active ones."""
SHOWN = 5


class PeopleReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Result of a sync of people from one source."""

    people: int = 0
    groups: int = 0
    members: int = 0
    """Memberships, nested ones included."""
    inactive: int = 0
    """People whom the source reports as inactive, or no longer reports."""
    held: int = 0
    """People who vanished and stay active until that is approved."""
    calls: int = 0
    note: str | None = None
    error: str | None = None
    alerted: bool = False
    """True if an alert was sent: the note is new."""


def sync_people(
    settings: Settings, *, approve: bool = False, sleep: Callable[[float], None] = time.sleep
) -> dict[str, PeopleReport]:
    """Sync every source that is set up and return a report for each. A source that fails keeps what is stored, and ages.

    With `approve`, people are deactivated however many vanished. Idempotent. Raises `BusyError` if another sync is running.
    """
    reports: dict[str, PeopleReport] = {}
    with (
        leases.alone(settings.postgres_dsn, WORK, "A sync of the directory is already running.") as lease,
        fenced_session(settings.postgres_dsn, lease) as connection,
    ):
        states = {one.source: one for one in PeopleStates(connection).states()}
        for source in to_sync(settings):
            people = People(connection, source)
            earlier = states.get(source)
            try:
                if source == GOOGLE:
                    report = _google(settings, connection, people, approve=approve, sleep=sleep)
                else:
                    report = _file(settings, connection, people)
            except ConcordanceError as error:
                if _not_delegated(settings, error, read=earlier is not None and earlier.directory_at is not None):
                    reports[source] = PeopleReport(note=f"Google's directory is not read: {error}")
                    continue
                report = PeopleReport(error=str(error), note=str(error))
            before = earlier.note if earlier is not None else None
            people.note(note=report.note)
            if report.note is not None and report.note != before:
                alert(settings, f"{source}: {report.note}")
                report.alerted = True
            reports[source] = report
    return reports


def _moved(known: Mapping[str, KnownPerson], users: Iterable[GoogleUser]) -> list[str]:
    """Return the addresses that have just been taken from their accounts: these have others, or another account has the address."""
    address, holder = {user.id: user.email for user in users}, {user.email: user.id for user in users}
    return sorted(
        email
        for email, one in known.items()
        if one.external_id is not None
        and (
            ((one.active or one.moved_at is None) and address.get(one.external_id, email) != email)
            or holder.get(email, one.external_id) != one.external_id
        )
    )


def _readdress(connection: Connection, emails: list[str]) -> list[str]:
    """Take Drive's documents from addresses that no longer are those of the same people, until the next sync lists their roots again.

    A sync that is running saves documents before, or finds the addresses among those that have moved. Return the documents.
    """
    if not emails:
        return []
    Events(connection).lock_files()
    People(connection, PEOPLE).move(emails=emails)
    documents = Documents(connection, SourceName.GOOGLE_DRIVE)
    partitions = Partitions(connection, SourceName.GOOGLE_DRIVE)
    lost = documents.readdress(emails=emails)
    named = partitions.with_value(low=notes.PERSON, high=notes.AFTER_PERSON, texts=emails)
    for partition in sorted({one.partition for one in lost} | set(named)):
        partitions.remember(partition=partition, entries={notes.RENAMED: True})
    if lost:
        documents.raise_version()
    return [one.doc_id for one in lost]


def _withhold(settings: Settings, connection: Connection, narrowed: list[str]) -> None:
    """Refuse those who have left, documents to former addresses, and groups in tokens made here, also while Postgres is down."""
    from resources.stores import qdrant  # 0.5 s of import
    from resources.stores.uploads import follow_origins
    from resources.stores.withheld import WithheldCollection
    from resources.stores.withholding import withhold_documents, withhold_groups, withhold_people

    index = qdrant.client(settings)
    try:
        withheld = WithheldCollection(index)
        withhold_documents(connection, withheld, narrowed)
        if narrowed:
            follow_origins(connection, withheld, narrowed)
        withhold_people(connection, withheld)
        withhold_groups(connection, withheld, GOOGLE)
    finally:
        index.close()


def _not_delegated(settings: Settings, error: ConcordanceError, *, read: bool) -> bool:
    """Return True if a service account was never allowed to read the directory, and no setting asks for it: not a fault."""
    return isinstance(error, AuthorizationError) and not read and settings.google_directory_api_url is None


def _file(settings: Settings, connection: Connection, people: People) -> PeopleReport:
    path, at = settings.groups_file, datetime.now(UTC)
    assert path is not None  # noqa: S101 - for the type checker: the source is set up
    groups = groups_file.read(path)
    memberships = flatten(groups)
    with connection.transaction():
        people.save_memberships(rows=memberships)
        people.date(read_at=at)
    everyone = {one.email for one in memberships}
    return PeopleReport(people=len(everyone), groups=len(groups), members=len(memberships))


def _google(
    settings: Settings, connection: Connection, people: People, *, approve: bool, sleep: Callable[[float], None]
) -> PeopleReport:
    directory, at = GoogleDirectory(settings, sleep=sleep), datetime.now(UTC)
    listing = google_groups.read(directory)
    groups = google_groups.with_stored(listing, lambda names: _stored(people, names))
    accounts = People(connection, PEOPLE)
    report = PeopleReport(people=len(listing.users), groups=len(listing.groups), calls=directory.tally.calls.total())
    with connection.transaction():
        active = {user.email for user in listing.users if user.active}
        inactive = {user.email for user in listing.users} - active
        known = {one.email: one for one in accounts.known_people()}
        earlier = {email for email, one in known.items() if one.active}
        gone = sorted(earlier - active - inactive)
        memberships = [one for one in flatten(groups, active) if one.email not in inactive]
        people.save_memberships(rows=memberships)
        accounts.save_people(rows=[_row(user) for user in listing.users])
        if approve or len(gone) <= max(MINIMUM, SHARE * len(earlier)):
            accounts.deactivate(emails=gone)
        else:
            report.held = len(gone)
        # Those whom it has never named may have keys and sessions here from before.
        left = sorted(email for email in inactive if email not in known or known[email].active)
        ended = [*([] if report.held else gone), *left]
        ids = {user.email: user.id for user in listing.users}
        given = [
            email
            for email in sorted(known.keys() & ids.keys() - set(left))
            if known[email].external_id not in {None, ids[email]}
        ]
        _withhold(settings, connection, _readdress(connection, _moved(known, listing.users)))
        # last: sign-ins wait from here on
        reasons = dict.fromkeys(ended, "suspended, archived or gone in Google's directory")
        reasons |= dict.fromkeys(given, "the address belongs to another account of Google's directory now")
        offboard(connection, reasons, GOOGLE)
        people.date(read_at=at)
    report.members = len(memberships)
    report.inactive = len(inactive) + len(gone) - report.held
    report.note = _note(listing, report)
    return report


def _stored(people: People, names: Iterable[str]) -> Mapping[str, DirectMembers]:
    """Return what is stored of groups as their direct members, each as old as its oldest part."""
    found: dict[str, list[StoredMembership]] = {}
    for row in people.read_groups(groups=[f"group:{name}" for name in names]):
        found.setdefault(row.principal.removeprefix("group:"), []).append(row)
    return {
        group: DirectMembers(
            [row.email for row in rows if row.through is None],
            sorted({row.through for row in rows if row.through is not None}),
            min(row.read_at for row in rows),
        )
        for group, rows in found.items()
    }


def _row(user: GoogleUser) -> dict[str, object]:
    return {"email": user.email, "id": user.id, "name": user.name, "active": user.active}


def _note(listing: GoogleListing, report: PeopleReport) -> str | None:
    notes: list[str] = []
    if report.held:
        notes.append(
            f"{report.held} of {report.held + report.people} people are gone from Google's directory at once. They stay active until you "
            "approve it: concordance sync directory --approve"
        )
    if listing.unreadable:
        group, reason = next(iter(sorted(listing.unreadable.items())))
        notes.append(f"{len(listing.unreadable)} groups could not be read, such as {group}: {reason}")
    return " ".join(notes) or None
