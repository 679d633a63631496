"""Who may find a file: what Drive says of its sharing enters, principals and the sharing status leave. Pure.

Search is narrower than access: what is shared by link alone can be opened by whoever has the link, and found by nobody. So a
domain or everybody counts only where Drive itself would let them find the file (`allowFileDiscovery`).
Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/permissions
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from resources import permissions as principals
from resources.errors import InvalidRequestError

LINK_ID = "anyoneWithLink"
"""Id of the permission of whoever has the link, the same on every file."""
NOBODY = ""
"""What an id stands for that gives nobody search."""
_STATUSES = ("private", "shared", "domain", "anyone-with-link", "public")


class Grant(NamedTuple):
    """Who may find a file, what kind of sharing that is, and when the first of its rights ends by itself."""

    principals: frozenset[str]
    sharing: str
    expires: datetime | None = None

    @property
    def digest(self) -> str:
        """Return what changes whenever the grant does."""
        return " ".join([self.sharing, *sorted(self.principals)])


def read(permissions: Iterable[Any], now: datetime) -> Grant:
    """Return what a list of Drive's permissions grants now; what is not understood grants nothing."""
    found: set[str] = set()
    widest = "private"
    ends: list[datetime] = []
    for permission in permissions:
        if not isinstance(permission, dict) or not _counts(permission, now):
            continue
        principal = _principal(permission)
        if principal:
            found.add(principal)
        widest = max(widest, _status(permission), key=_STATUSES.index)
        expires = _time(permission.get("expirationTime"))
        if expires is not None:
            ends.append(expires)
    return Grant(frozenset(found), _sharing(widest, found), min(ends, default=None))


def learn(permissions: Iterable[Any], now: datetime) -> dict[str, str]:
    """Return what the ids of these permissions stand for, as far as an id alone says it: users and groups for good.

    An id of a domain does not tell whether the domain may find the file, and a right that ends is no lasting fact.
    """
    return {
        str(permission["id"]): principal
        for permission in permissions
        if isinstance(permission, dict)
        and permission.get("type") in {"user", "group"}
        and permission.get("id")
        and permission.get("expirationTime") is None
        and _counts(permission, now)
        and (principal := _principal(permission))
    }


def by_ids(ids: Iterable[str], known: Mapping[str, str]) -> tuple[Grant, list[str]]:
    """Return what permission ids grant by what is known of them, and the ids that nothing is known of."""
    found: set[str] = set()
    unknown: list[str] = []
    widest = "private"
    for one in ids:
        if one == LINK_ID:
            widest = "anyone-with-link"
        elif one in known:
            found.add(known[one])
        else:
            unknown.append(one)
    return Grant(frozenset(found), _sharing(widest, found)), unknown


def with_owner(grant: Grant, owner: str | None) -> Grant:
    """Return the grant with the file's owner in it, where there is one."""
    if owner is None or owner in grant.principals:
        return grant
    everybody = grant.principals | {owner}
    return grant._replace(principals=everybody, sharing=_sharing(grant.sharing, everybody))


def email(text: Any) -> str | None:
    """Return an address in its normal form, None when it is none."""
    try:
        return principals.email(text) if isinstance(text, str) else None
    except InvalidRequestError:
        return None


def _sharing(widest: str, found: Iterable[str]) -> str:
    return "shared" if widest == "private" and len(set(found)) > 1 else widest


def _counts(permission: Mapping[str, Any], now: datetime) -> bool:
    """Tell whether a permission is in force: not of a deleted account, not over, and not one that shows the name alone."""
    if permission.get("deleted") is True or permission.get("view"):
        return False
    expires = permission.get("expirationTime")
    if expires is None:
        return True
    end = _time(expires)
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


def _status(permission: Mapping[str, Any]) -> str:
    kind = permission.get("type")
    if kind == "anyone":
        return "public" if permission.get("allowFileDiscovery") is True else "anyone-with-link"
    return {"domain": "domain", "group": "shared"}.get(str(kind), "private")


def _time(text: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None
