"""Who may read a channel: the channel, its members and the workspace's people enter, principals leave. Pure.

Everybody of the workspace reads a public channel; guests read only where they were let in. A private channel is read by those
who are in it. People of connected workspaces are not in our directory and never named.
"""

from __future__ import annotations

from collections.abc import Iterable

from resources.permissions import normalize
from resources.sources.slack.directory import People


def workspace(team: str) -> str:
    """Return the principal of a workspace's full members."""
    return f"slack:{team}"


def needs_members(*, private: bool, people: People) -> bool:
    """Whether the list of members decides anything."""
    return private or people.guests


def readers(team: str, *, private: bool, members: Iterable[str], people: People) -> tuple[str, ...]:
    """Return the principals of a channel, sorted; `members` are ids of accounts."""
    if private:
        return normalize(people.emails(members))
    return normalize([workspace(team), *people.emails(members, guests_only=True)])
