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
from sql.web import WebReads

MEMBERSHIPS = ("slack:", "group:")
"""Principals that a directory may add. Emails and domains come from the token only."""

log = logger("serving")


async def with_directory(database: Database, access: Access, fresh_since: datetime) -> Access:
    """Return the access with the memberships of its email that sources have reported since `fresh_since`."""
    email = permissions.email(access.email)
    try:
        principals = await WebReads(database).directory(email=email, fresh_since=fresh_since)
    except RegistryDownError:
        return access
    memberships = {member for one in principals if (member := _membership(one)) is not None}
    return msgspec.structs.replace(access, principals=access.principals | memberships) if memberships else access


def _membership(text: str) -> str | None:
    try:
        principal = permissions.principal(text)
    except InvalidRequestError:
        log.warning("directory_entry_invalid")
        return None
    return principal if principal.startswith(MEMBERSHIPS) else None
