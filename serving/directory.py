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
from serving.access.roles import Holders, with_roles
from serving.database import Database, RegistryDownError
from serving.errors import UnauthorizedError, token_revoked
from sql.web import WebReads

MEMBERSHIPS = ("slack:", "group:")
"""Principals that a directory may add. Emails and domains come from the token only."""

log = logger("serving")


class Directory:
    """Reads memberships, and with them the version of the index, so that a search needs no statement of its own for it."""

    def __init__(self, database: Database, roles: Holders | None = None) -> None:
        """`roles` are those of `CONCORDANCE_ROLES`."""
        self._reads = WebReads(database)
        self._roles = roles or {}
        self.index_version: int | None = None
        """The newest version read so far, which is at least the one at the sign-in of each request; None before the first."""

    async def complete(self, access: Access, fresh_since: datetime, token_id: str | None = None) -> Access:
        """Return the access with the memberships of its email that sources have reported since `fresh_since`, and the roles of all.

        `token_id` identifies the token of ours that the caller sent, if any. Raises `UnauthorizedError` for a revoked token, and for a
        user whom a directory reports as inactive.
        """
        email = permissions.email(access.email)
        try:
            row = await self._reads.directory(email=email, fresh_since=fresh_since, token_id=token_id)
        except RegistryDownError:
            return with_roles(access, self._roles)
        if row.revoked:
            raise token_revoked()
        if row.blocked:
            raise UnauthorizedError("account-inactive", "This account is deactivated. Ask your administrator.")
        self.index_version = max(row.index_version, self.index_version or 0)
        memberships = {member for one in row.principals if (member := _membership(one)) is not None}
        return with_roles(msgspec.structs.replace(access, principals=access.principals | memberships), self._roles)


def _membership(text: str) -> str | None:
    try:
        principal = permissions.principal(text)
    except InvalidRequestError:
        log.warning("directory_entry_invalid")
        return None
    return principal if principal.startswith(MEMBERSHIPS) else None
