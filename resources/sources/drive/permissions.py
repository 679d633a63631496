"""Conversion of Drive's permissions to principals and a sharing status. Pure.

Search is narrower than access: a file shared only by link can be opened by anyone with the link but found by no one. So a
domain or everyone counts only if Drive itself would let them find the file (`allowFileDiscovery`), or if a setting lets links
count for the organization (`readers.Links`).
Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/permissions
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from resources.core import moments
from resources.core import permissions as principals
from resources.core.errors import InvalidRequestError
from resources.core.json import is_object

LINK_ID = "anyoneWithLink"
"""Id of the permission of anyone with the link, the same on every file."""
NOBODY = ""
"""Stored for an id that lets no one find the file."""
_STATUSES = ("private", "shared", "domain", "anyone-with-link", "public")


class FileGrant(NamedTuple):
    """Readers of a file, its sharing status, and when the first of its permissions expires."""

    principals: frozenset[str]
    sharing: str
    expires: datetime | None = None
    linked: bool = False
    """True if the file is shared by link alone with a domain or with anyone, besides others."""
    temporary: bool = False
    """True if one of its permissions expires, or has expired and is still listed: then permission ids grant too much."""

    @property
    def digest(self) -> str:
        """Return a value that changes whenever the grant does."""
        return " ".join([self.sharing, *sorted(self.principals)])


def read(permissions: Iterable[Any], now: datetime, organisation: str | None = None) -> FileGrant:
    """Return what a list of Drive's permissions grants now; unknown kinds grant nothing.

    Links to the `organisation`, or to anyone, grant that domain if it is given.
    """
    found: set[str] = set()
    widest = "private"
    ends: list[datetime] = []
    linked = temporary = False
    for permission in permissions:
        if not is_object(permission):
            continue
        temporary = temporary or permission.get("expirationTime") is not None
        if not _counts(permission, now):
            continue
        principal = _principal(permission)
        if principal:
            found.add(principal)
        if _is_link(permission):
            linked = True
            if organisation is not None and _covers(permission, organisation):
                found.add(principals.principal(f"domain:{organisation}"))
        widest = max(widest, _status(permission), key=_STATUSES.index)
        expires = moment(permission.get("expirationTime"))
        if expires is not None:
            ends.append(expires)
    return FileGrant(frozenset(found), _sharing(widest, found), min(ends, default=None), linked, temporary)


def learn(permissions: Iterable[Any], now: datetime) -> dict[str, str]:
    """Return the principals behind permission ids that determine them: those of users and groups, permanently.

    The id of a domain does not say whether the domain may find the file, and a permission that expires is temporary.
    """
    return {
        str(permission["id"]): principal
        for permission in permissions
        if is_object(permission)
        and permission.get("type") in {"user", "group"}
        and permission.get("id")
        and permission.get("expirationTime") is None
        and _counts(permission, now)
        and (principal := _principal(permission))
    }


def by_ids(
    ids: Iterable[str], known: Mapping[str, str], organisation: str | None = None
) -> tuple[FileGrant, list[str]]:
    """Return what permission ids grant according to `known`, and the unknown ids."""
    found: set[str] = set()
    unknown: list[str] = []
    widest = "private"
    for one in ids:
        if one == LINK_ID:
            widest = "anyone-with-link"
            if organisation is not None:
                found.add(principals.principal(f"domain:{organisation}"))
        elif one in known:
            found.add(known[one])
        else:
            unknown.append(one)
    return FileGrant(frozenset(found), _sharing(widest, found), linked=widest != "private"), unknown


def with_owner(grant: FileGrant, owner: str | None) -> FileGrant:
    if owner is None or owner in grant.principals:
        return grant
    principals = grant.principals | {owner}
    return grant._replace(principals=principals, sharing=_sharing(grant.sharing, principals))


def email(text: Any) -> str | None:
    """Return an email in normal form, or None if it is invalid."""
    try:
        return principals.email(text) if isinstance(text, str) else None
    except InvalidRequestError:
        return None


def _sharing(widest: str, found: Iterable[str]) -> str:
    return "shared" if widest == "private" and len(set(found)) > 1 else widest


def _counts(permission: Mapping[str, Any], now: datetime) -> bool:
    """Return True if a permission is in force: its account exists, it has not expired, and it is not a metadata-only one."""
    if permission.get("deleted") is True or permission.get("view"):
        return False
    expires = permission.get("expirationTime")
    if expires is None:
        return True
    end = moment(expires)
    return end is not None and end > now


def _principal(permission: Mapping[str, Any]) -> str:
    kind = permission.get("type")
    try:
        if kind == "user":
            return principals.email(str(permission.get("emailAddress") or ""))
        if kind == "group":
            return principals.principal(f"group:{permission.get('emailAddress') or ''}")
        if kind == "domain" and permission.get("allowFileDiscovery") is True:
            return principals.principal(f"domain:{permission.get('domain') or ''}")
    except InvalidRequestError:
        return NOBODY
    return principals.PUBLIC if kind == "anyone" and permission.get("allowFileDiscovery") is True else NOBODY


def _is_link(permission: Mapping[str, Any]) -> bool:
    return permission.get("type") in {"domain", "anyone"} and permission.get("allowFileDiscovery") is not True


def _covers(permission: Mapping[str, Any], organisation: str) -> bool:
    """Return True if a link permission includes the people of a domain."""
    return permission.get("type") == "anyone" or str(permission.get("domain") or "").lower() == organisation


def _status(permission: Mapping[str, Any]) -> str:
    kind = permission.get("type")
    if kind == "anyone":
        return "public" if permission.get("allowFileDiscovery") is True else "anyone-with-link"
    return {"domain": "domain", "group": "shared"}.get(str(kind), "private")


def moment(text: Any) -> datetime | None:
    """Return a time of Drive's (RFC 3339) in UTC, None if it cannot be stored."""
    return moments.parsed(text) if isinstance(text, str) else None
