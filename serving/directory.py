"""What sources know of a caller beside the caller's token: an `Access` enters, the same with Slack workspaces and groups leaves.

Syncs write table `directory`. It is asked at every request and nothing of it is kept, so that who left a workspace has left it
here as soon as the sync says so. While Postgres is down, and for a source whose directory was not read lately, nobody is a member.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from resources.core import permissions
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.logging import logger
from serving.database import Database, RegistryDownError

MEMBERSHIPS = ("slack:", "group:")
"""What a directory may say of a person. Never an email or a domain: those are the token's alone."""

log = logger("serving")


async def with_directory(database: Database, access: Access, fresh_since: datetime) -> Access:
    """Return the access with the memberships that sources tell of its email, as read since `fresh_since`."""
    wanted = {"email": permissions.email(access.email), "fresh_since": fresh_since}
    try:
        rows = await database.fetch("directory", wanted)
    except RegistryDownError:
        return access
    memberships = {found for row in rows if (found := _membership(row["principal"])) is not None}
    return msgspec.structs.replace(access, principals=access.principals | memberships) if memberships else access


def _membership(text: str) -> str | None:
    try:
        found = permissions.principal(text)
    except InvalidRequestError:
        log.warning("directory_entry_not_understood")
        return None
    return found if found.startswith(MEMBERSHIPS) else None
