"""Memberships in Slack workspaces and groups that sources report for a caller.

Syncs write the table `directory`. It is queried for every request and never cached, so a user who left a workspace loses access with
the sync that sees it. While Postgres is down, and for a source whose directory was not read recently, no one is a member; the index
then says whose token or account is refused.
"""

from collections.abc import Collection
from datetime import datetime
from functools import lru_cache

import msgspec

from resources.core import permissions
from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.logging import logger
from resources.people import SOURCES_OF_GROUPS, groups_are_managed
from resources.settings import Settings
from serving.http.database import Database, RegistryDownError
from serving.http.errors import account_inactive, token_revoked
from serving.http.roles import with_roles
from serving.identity.index_versions import IndexVersions
from serving.identity.tokens import Verified
from serving.identity.withheld import WithheldReads
from sql.serving import WebReads

MEMBERSHIPS = ("slack:", "group:")
"""Principals that a directory may add. Emails and domains come from the token only."""

KEPT = 64
"""Callers whose principals are kept with what they were made of: reading 5,000 takes as long as a search."""

log = logger("serving")


class Directory:
    """Reads memberships, and with them the versions of the index, so that a search needs no statement of its own for it."""

    def __init__(self, settings: Settings, database: Database, withheld: WithheldReads) -> None:
        self._settings = settings
        self._withheld = withheld
        self._reads = WebReads(database)
        self._read_sources: Collection[str] = SOURCES_OF_GROUPS
        """Sources that were ever read; before the first statement all, so that no group counts that should not."""
        self.versions = IndexVersions()
        """At least those at the sign-in of each request."""

    @property
    def groups_are_managed(self) -> bool:
        """True if groups of tokens and keys made here are ignored."""
        return groups_are_managed(self._settings, self._read_sources)

    async def complete(
        self, access: Access, fresh_since: datetime, token: Verified | None = None, *, own: bool = True
    ) -> Access:
        """Return the access with the memberships of its email that sources have reported since `fresh_since`, and the roles of all.

        `token` is the token of ours that the caller sent, if any. `own`: the credential was made here, so that its groups count only
        while no source of groups is set up. Raises `UnauthorizedError` for a revoked token, for one of a former holder of the address,
        and for a user whom a directory reports as inactive, and `ServiceUnavailableError` if neither Postgres nor the index says so.
        """
        email = permissions.email(access.email)
        try:
            row = await self._reads.directory(
                email=email,
                fresh_since=fresh_since,
                token_id=token.token_id if token else None,
                issued=token.issued if token else None,
            )
        except RegistryDownError:
            self._read_sources = {*self._read_sources, *await self._withheld.admit(email, token)}
            access = self._without_groups(access) if own else access
            return with_roles(msgspec.structs.replace(access, directory_unread=True), self._settings.roles)
        self._read_sources = row.read_sources
        if row.revoked:
            raise token_revoked()
        if row.blocked:
            raise account_inactive()
        self.versions.read(row.index_version, row.source_versions)
        if own:
            access = self._without_groups(access)
        principals = _with_memberships(access.principals, tuple(row.principals))
        return with_roles(msgspec.structs.replace(access, principals=principals), self._settings.roles)

    def _without_groups(self, access: Access) -> Access:
        """Return the access without the groups of its credential if groups come from elsewhere."""
        if not self.groups_are_managed:
            return access
        kept = frozenset(name for name in access.principals if not name.startswith("group:"))
        return msgspec.structs.replace(access, principals=kept)

    async def read_index_version(self, fresh_since: datetime) -> None:
        """Read the version of the index for a request without a sign-in, which finds nothing cached from before it."""
        try:
            row = await self._reads.directory(email="", fresh_since=fresh_since, token_id=None, issued=None)
        except RegistryDownError:
            return
        self.versions.read(row.index_version, row.source_versions)

    async def require_active(self, email: str, fresh_since: datetime) -> None:
        """Raise `UnauthorizedError` for a user whom a directory reports as inactive. Raises `RegistryDownError`."""
        row = await self._reads.directory(email=email, fresh_since=fresh_since, token_id=None, issued=None)
        if row.blocked:
            raise account_inactive()


@lru_cache(KEPT)
def _with_memberships(principals: frozenset[str], listed: tuple[str, ...]) -> frozenset[str]:
    """Return principals with those that directories list. The same object each time, so that whatever is kept for it is found at once."""
    return principals | {member for one in listed if (member := _membership(one)) is not None}


def _membership(text: str) -> str | None:
    try:
        principal = permissions.principal(text)
    except InvalidRequestError:
        log.warning("directory_entry_invalid")
        return None
    return principal if principal.startswith(MEMBERSHIPS) else None
