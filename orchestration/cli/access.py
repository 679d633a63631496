"""`token` and `key`: how people and programs get in. Both work on the machine that holds the installation's keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from cyclopts import Parameter

from orchestration.cli.arguments import Duration, Groups, Json
from orchestration.cli.output import note, say, say_json

Admin = Annotated[bool, Parameter(name="--admin", negative="", help="Open syncs and error details; never documents.")]


def token(
    email: str, /, *, group: Groups = None, admin: Admin = False, expires: Duration = timedelta(hours=12)
) -> None:
    """Print an access token for a person, and nothing else.

    Parameters
    ----------
    email
        Whom the token stands for; decides which documents it shows.
    expires
        How long it is valid: 30m, 12h, 7d.
    """
    from resources.settings import load
    from serving.access.auth import mint

    say(mint(load(), email, group or (), admin=admin, expires=expires))


def create_key(email: str, /, *, group: Groups = None, admin: Admin = False, expires: Duration | None = None) -> None:
    """Make an API key and print it. It cannot be shown again.

    Parameters
    ----------
    email
        Whom the key stands for; decides which documents it shows.
    expires
        How long it is valid: 30m, 12h, 7d. Without it, until it is revoked.
    """
    from orchestration.cli.installed import database
    from resources.settings import load
    from serving.access import api_keys

    with database(load()) as connection:
        until = datetime.now(UTC) + expires if expires is not None else None
        say(api_keys.create(connection, email, group or (), admin=admin, expires_at=until))


def list_keys(*, json: Json = False) -> None:
    """List API keys: who, since when, until when. The keys themselves are not kept."""
    from orchestration.cli.installed import database
    from resources.settings import load
    from sql import statement

    with database(load()) as connection:
        rows = connection.execute(statement("cli", "api_keys").encode()).fetchall()
    if json:
        say_json(rows)
        return
    for row in rows:
        end = f"revoked {row['revoked_at']:%Y-%m-%d}" if row["revoked_at"] else (
            f"until {row['expires_at']:%Y-%m-%d %H:%M} UTC" if row["expires_at"] else "no end"
        )  # fmt: skip
        rights = ", ".join([*row["groups"], *(["admin"] if row["admin"] else [])])
        say(f"{row['key_id']}  {row['email']}  {rights or '-'}  since {row['created_at']:%Y-%m-%d}  {end}")
    if not rows:
        note("There are no API keys. Make one with: concordance key create EMAIL")


def revoke_key(key_id: str, /) -> int:
    """End an API key at once.

    Parameters
    ----------
    key_id
        The id that `key list` shows: the part between the two underscores.
    """
    from orchestration.cli.installed import database
    from resources.settings import load
    from serving.access import api_keys

    with database(load()) as connection:
        revoked = api_keys.revoke(connection, key_id.removeprefix("ck_").partition("_")[0])
    note(f"Key {key_id} is revoked." if revoked else f"There is no valid key {key_id}. See: concordance key list")
    return 0 if revoked else 1
