"""Flatten nested groups to the members of each. Pure.

A group that could not be read counts with what was stored of it, and everyone who is a member by way of it is only as recently known.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime

import msgspec

FRESH = datetime.max.replace(tzinfo=UTC)
"""Read in this sync."""
EVERYONE = "everyone"
"""Stands for all accounts of a Workspace among a group's member groups."""


class DirectMembers(msgspec.Struct, frozen=True):
    """The direct members of a group, and when they were read."""

    people: Collection[str]
    groups: Collection[str] = ()
    """Member groups; `EVERYONE` may be one."""
    read_at: datetime = FRESH


class Membership(msgspec.Struct, frozen=True, array_like=True):
    """A person's membership in a group, in the form in which it is stored."""

    email: str
    principal: str
    through: str | None
    """The member group that leads to the person; None for a direct member."""
    read_at: datetime | None
    """When the oldest group on the way was read; None: in this sync."""


def flatten(groups: Mapping[str, DirectMembers], everyone: Collection[str] = ()) -> list[Membership]:
    """Return the members of each group, nested ones included, sorted. Cycles end; unknown member groups have no members.

    If several ways lead to a person, the one known most recently counts.
    """
    known = {**groups, EVERYONE: DirectMembers(everyone)}
    found = [member for group in groups for member in _members(group, known)]
    return sorted(found, key=lambda one: (one.principal, one.email))


def _members(group: str, known: Mapping[str, DirectMembers]) -> Iterable[Membership]:
    """Yield a group's members. Groups are visited most recently read first, direct members before nested ones."""
    reached: dict[str, Membership] = {}
    visited: set[str] = set()
    queue: list[tuple[float, int, str, str | None]] = [(-known[group].read_at.timestamp(), 0, group, None)]
    while queue:
        age, depth, current, through = heapq.heappop(queue)
        if current in visited:
            continue
        visited.add(current)
        members = known[current]
        read_at = None if -age >= FRESH.timestamp() else datetime.fromtimestamp(-age, UTC)
        for email in members.people:
            reached.setdefault(email, Membership(email, f"group:{group}", through, read_at))
        for child in members.groups:
            if child in known and child not in visited:
                oldest = max(age, -known[child].read_at.timestamp())
                heapq.heappush(queue, (oldest, depth + 1, child, through or child))
    return reached.values()
