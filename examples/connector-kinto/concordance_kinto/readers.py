"""Who may read a record, in Concordance's principals. What is not understood gives access to no one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from resources.core import permissions
from resources.core.errors import InvalidRequestError

Permissions = Mapping[str, Collection[str]]


def readers(levels: Collection[Permissions], members: Callable[[str], Collection[str]]) -> tuple[str, ...]:
    """Return the readers by the permissions of a bucket, a collection and a record: those of any level may read the record.

    Who may write may read. `members` returns the members of a group.
    Source: https://docs.kinto-storage.org/en/stable/api/1.x/permissions.html
    """
    granted = {one for level in levels for name in ("read", "write") for one in level.get(name, ())}
    people = {one for group in granted if group.startswith("/buckets/") for one in members(group)} | granted
    return permissions.normalize(filter(None, map(_principal, people)))


def _principal(kinto: str) -> str | None:
    """Return the principal of an account whose name is an email, or of everyone; None for any other."""
    if kinto == "system.Everyone":
        return permissions.PUBLIC
    kind, _, name = kinto.partition(":")
    try:
        return permissions.email(name) if kind == "account" else None
    except InvalidRequestError:
        return None


def permissions_of(body: Any) -> Permissions:
    """Return the permissions of an object as Kinto sent it; none if it shows none."""
    return body.get("permissions") or {}
