"""The commands `token`, `sign-in`, `session` and `key`, which need the keys of the installation on this machine."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated
from uuid import UUID

import psycopg
from cyclopts import App, Parameter

from orchestration.cli.arguments import Duration, Groups, Json, operator
from orchestration.cli.catalogue import epilogue
from orchestration.cli.installed import database
from orchestration.cli.output import note, say, say_json
from orchestration.cli.people import warn_of_groups
from resources.core import permissions
from resources.core.durations import duration
from resources.core.errors import InvalidRequestError, NotRunningError, ServiceUnavailableError
from resources.settings import Settings, load
from resources.stores.postgres import Connection, undeadlocked
from serving.identity.sign_in.events import passkey_removed, session_ended, token_created
from sql.cli import Commands
from sql.passkeys import RemovedPasskeys
from sql.serving import WebSession
from sql.sign_in import SignInSession

RECORD_SECONDS = 5.0
"""Longest time for the record of a token in the audit log."""
Admin = Annotated[
    bool,
    Parameter(
        name="--admin",
        negative="",
        help="Give the role administrator: everything but other people's documents (docs/security.md#callers).",
    ),
]


token = App(name="token", help_epilogue=epilogue("token"), result_action="return_value")


@token.default
def token_print(
    email: Annotated[str, Parameter(help="The person, whose permissions apply.")],
    /,
    *,
    group: Groups = None,
    admin: Admin = False,
    expires: Annotated[Duration, Parameter(help="How long it is valid: 30m, 12h, 7d.")] = timedelta(hours=12),
) -> None:
    from serving.identity.tokens import mint

    settings = load()
    warn_of_groups(settings, group)
    made = mint(settings, email, group or (), admin=admin, expires=expires)
    if admin:
        _record_token(settings, made)
    say(made)


def _record_token(settings: Settings, made: str) -> None:
    """Record a token with the role administrator. It is made without the database, too, and while that is of an earlier version."""
    from resources.keys import secret_key
    from serving.identity.tokens import verified

    found = verified(made, [secret_key(settings)])
    event = token_created(found.access.email, found.token_id, found.expires, by=operator())
    try:
        with database(settings, seconds=RECORD_SECONDS) as connection:
            WebSession(connection).audit_insert(**event.row())
    except (NotRunningError, ServiceUnavailableError, psycopg.Error) as error:
        reason = str(error).partition("\n")[0]
        note(f"The audit log does not have this token. {reason}")


@token.command(name="revoke", help="Revoke a token immediately.")
def token_revoke(
    revoked: Annotated[str, Parameter(help="The token, or the `jti` in it.")],
    /,
) -> None:
    from serving.identity.revocation import identify, record, withhold

    settings = load()
    found = identify(settings, revoked)
    with suppress(ServiceUnavailableError):  # the index is told later, and answers nothing alone until then
        withhold(settings, found)
    with database(settings) as connection:
        record(settings, connection, found, by=operator())
    note(f"The token {found.token_id} is refused from now on.")


def sign_in(
    email: Annotated[str, Parameter(help="The person, who finds what they may read.")],
    /,
    *,
    administrator: Annotated[
        bool,
        Parameter(
            negative="",
            help="The session also has the role administrator: pages of operators, syncs, keys. Documents stay limited to the person's.",
        ),
    ] = False,
) -> None:
    from orchestration.supervision.liveness import answers
    from orchestration.supervision.run_state import remedy
    from orchestration.supervision.serving import serving_address
    from serving.identity.sign_in import links

    settings = load()
    address = permissions.email(email)
    if not answers(f"{serving_address(settings)}/healthz"):
        raise NotRunningError(f"{serving_address(settings)} is not responding. {remedy(settings)}")
    with database(settings) as connection:
        now = datetime.now(UTC)
        link = links.make(settings, connection, address, administrator=administrator, by=operator(), now=now)
    say(link)
    note(f"Open it within ten minutes. It signs {address} in{' as administrator' if administrator else ''}, once.")


def session_list(
    email: Annotated[str | None, Parameter(help="Only the sessions of this person.")] = None, /, *, json: Json = False
) -> None:
    settings = load()
    with database(settings) as connection:
        now = datetime.now(UTC)
        rows = SignInSession(connection).sessions_all(
            email=email and permissions.email(email), now=now, idle_since=now - duration(settings.session_idle)
        )
    if json:
        say_json(rows)
        return
    for row in rows:
        role = ", as administrator" if row.administrator else ""
        say(
            f"{row.session_id}  {row.email}  {row.provider}{role}  since {row.created_at:%Y-%m-%d %H:%M}  "
            f"last used {row.seen_at:%Y-%m-%d %H:%M} UTC"
        )
    if not rows:
        note("No one is signed in with a browser.")


def session_end(
    session_id: Annotated[str | None, Parameter(help="The id that `session list` shows.")] = None,
    /,
    *,
    email: Annotated[str | None, Parameter(help="End all sessions of this person, and remove their passkeys.")] = None,
) -> int:
    if (session_id is None) == (email is None):
        raise InvalidRequestError("Give the id of a session, or --email EMAIL for all sessions of a person.")
    with database(load()) as connection:
        if email is not None:
            address = permissions.email(email)
            # a sign-in with a passkey, and its removal, lock the passkey before sessions
            ended, removed = undeadlocked(lambda: _end_all(connection, address))
        else:
            row = SignInSession(connection).session_end(session_id=_uuid(session_id or ""), email=None)
            ended, removed = [(row.email, session_id or "")] if row is not None else [], []
            _record_ended(connection, ended)
    also = f" Removed {len(removed)} passkey{'' if len(removed) == 1 else 's'}." if removed else ""
    note(f"Ended {len(ended)} session{'' if len(ended) == 1 else 's'}.{also}")
    return 0 if ended or email is not None else 1


def _end_all(connection: Connection, address: str) -> tuple[list[tuple[str, str]], list[str]]:
    """End a person's sessions, each with its email, and remove their passkeys, in a transaction. Return both."""
    with connection.transaction():
        statements, writes = SignInSession(connection), WebSession(connection)
        sessions = statements.sessions_end_of(email=address)
        passkeys = RemovedPasskeys(connection).remove_passkeys_of(
            emails=[address]
        )  # with those that a session was adding
        removed = [one.id for one in passkeys]
        sessions += statements.sessions_end_of(email=address)  # those that a passkey was beginning
        for passkey_id in removed:
            event = passkey_removed(address, passkey_id, by=operator(), reason="ended by an operator")
            writes.audit_insert(**event.row())
        ended = [(address, one) for one in sessions]
        _record_ended(connection, ended)
    return ended, removed


def _record_ended(connection: Connection, ended: Iterable[tuple[str, str]]) -> None:
    for address, one in ended:
        event = session_ended(address, one, by=operator(), reason="ended by an operator")
        WebSession(connection).audit_insert(**event.row())


def _uuid(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidRequestError(f"{text!r} is not the id of a session. See: concordance session list") from None


def key_create(
    email: Annotated[str, Parameter(help="The user of the key, whose permissions apply.")],
    /,
    *,
    group: Groups = None,
    admin: Admin = False,
    scim: Annotated[
        bool,
        Parameter(name="--scim", negative="", help="For an identity provider: the key opens SCIM and nothing else."),
    ] = False,
    expires: Annotated[
        Duration | None,
        Parameter(show_default=False, help="How long it is valid: 30m, 12h, 7d. By default, until it is revoked."),
    ] = None,
) -> None:
    from serving.identity import api_keys

    settings = load()
    warn_of_groups(settings, group)
    with database(settings) as connection:
        until = datetime.now(UTC) + expires if expires is not None else None
        say(api_keys.create(connection, email, group or (), admin=admin, scim=scim, expires_at=until, by=operator()))


def key_list(*, json: Json = False) -> None:
    with database(load()) as connection:
        rows = Commands(connection).api_keys()
    if json:
        say_json(rows)
        return
    for row in rows:
        end = f"revoked {row.revoked_at:%Y-%m-%d}" if row.revoked_at else (
            f"until {row.expires_at:%Y-%m-%d %H:%M} UTC" if row.expires_at else "no expiry"
        )  # fmt: skip
        rights = ", ".join(
            [*row.groups, *(["admin"] if row.admin else []), *(["scim"] if row.scim else []), *(row.scopes or ())]
        )
        used = f"used {row.used_at:%Y-%m-%d}" if row.used_at else "never used"
        say(f"{row.key_id}  {row.email}  {rights or '-'}  since {row.created_at:%Y-%m-%d}  {used}  {end}")
    if not rows:
        note("There are no API keys. Create one with: concordance key create EMAIL")


def key_revoke(
    key_id: Annotated[str, Parameter(help="The id that `key list` shows: the part between the two underscores.")], /
) -> int:
    from serving.identity import api_keys

    with database(load()) as connection:
        revoked = api_keys.revoke(connection, key_id.removeprefix("ck_").partition("_")[0], by=operator())
    note(f"Revoked key {key_id}." if revoked else f"There is no valid key {key_id}. See: concordance key list")
    return 0 if revoked else 1
