"""Memberships in Slack workspaces and groups that sources report for a caller.

Syncs write the table `directory`. It is queried for every request and never cached, so a user who left a workspace loses access with
the sync that sees it. While Postgres is down, and for a source whose directory was not read recently, no one is a member.
"""

from datetime import datetime

import msgspec

from resources.core import permissions
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.logging import logger
from serving.database import Database, RegistryDownError

MEMBERSHIPS = ("slack:", "group:")
"""Principals that a directory may add. Emails and domains come from the token only."""

log = logger("serving")


async def with_directory(database: Database, access: Access, fresh_since: datetime) -> Access:
    """Return the access with the memberships of its email that sources have reported since `fresh_since`."""
    parameters = {"email": permissions.email(access.email), "fresh_since": fresh_since}
    try:
        rows = await database.fetch("directory", parameters)
    except RegistryDownError:
        return access
    memberships = {member for row in rows if (member := _membership(row["principal"])) is not None}
    return msgspec.structs.replace(access, principals=access.principals | memberships) if memberships else access


def _membership(text: str) -> str | None:
    try:
        principal = permissions.principal(text)
    except InvalidRequestError:
        log.warning("directory_entry_invalid")
        return None
    return principal if principal.startswith(MEMBERSHIPS) else None
