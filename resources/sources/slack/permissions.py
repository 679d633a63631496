"""Principals that may read a channel, from its members and the workspace's users. Pure.

Every full member of the workspace may read a public channel; guests only channels they are in. A private channel is readable by
its members. Users of connected workspaces are not in our directory and are never included.
"""

from collections.abc import Iterable

from resources.core.permissions import normalize
from resources.sources.slack.directory import SlackPeople


def workspace(team: str) -> str:
    """Return the principal of a workspace's full members."""
    return f"slack:{team}"


def needs_members(*, private: bool, people: SlackPeople) -> bool:
    """Return True if the channel's readers depend on its list of members."""
    return private or people.guests


def readers(team: str, *, private: bool, members: Iterable[str], people: SlackPeople) -> tuple[str, ...]:
    """Return the principals of a channel, sorted; `members` are ids of accounts."""
    if private:
        return normalize(people.emails(members))
    return normalize([workspace(team), *people.emails(members, guests_only=True)])
