"""Records of a Slack workspace: users, channels, messages, files, groups; and Slack's timestamps.

A message's time is its id within the channel. It is stored as a whole number of microseconds since 1970 (UTC), so that it sorts
and compares exactly; in the API it is Slack's string of seconds with six decimals. Local time zones are never used.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

SLACKBOT = "USLACKBOT"
DELETED_TEXT = "This message was deleted."
"""Source: https://docs.slack.dev/messaging/ (a deleted parent with replies is shown with this text, by USLACKBOT)."""
EVENTS = frozenset({"channel_join", "channel_leave", "channel_name", "channel_archive", "channel_unarchive"})
"""Subtypes that Slack posts itself; they can't be threaded. Source: https://docs.slack.dev/reference/events/message"""

_TIMESTAMP = re.compile(r"(\d{1,12})(?:\.(\d{1,6})\d*)?")
_MILLION = 1_000_000


def to_micros(ts: str | float | datetime) -> int:
    """Return microseconds for Slack's `ts`, UNIX seconds or an aware time; raises `ValueError` for anything else."""
    if isinstance(ts, datetime):
        if ts.tzinfo is None:
            raise ValueError(f"{ts} has no time zone: say which one, e.g. datetime(..., tzinfo=UTC)")
        return round(ts.timestamp() * _MILLION)
    if not isinstance(ts, str):
        return round(ts * _MILLION)
    found = _TIMESTAMP.fullmatch(ts)
    if found is None:
        raise ValueError(
            f"{ts!r} is not a message timestamp: seconds since 1970 with six decimals, e.g. 1731234567.000100"
        )
    return int(found[1]) * _MILLION + int((found[2] or "").ljust(6, "0"))


def to_ts(micros: int) -> str:
    return f"{micros // _MILLION}.{micros % _MILLION:06d}"


@dataclass(slots=True)
class SimulatedUser:
    """An account: a member, a guest, a user of a connected workspace, or a bot."""

    id: str
    name: str
    email: str | None
    team: str
    created: int
    guest: bool = False
    external: bool = False
    listed: bool = True
    """False: `users.list` leaves the user out, as most users of connected workspaces."""
    deactivated: bool = False
    bot_id: str | None = None
    tz: str = "Europe/London"
    updated: int = 0

    @property
    def bot(self) -> bool:
        return self.bot_id is not None

    @property
    def reads(self) -> bool:
        """True if this user may be named as a reader: active, of this workspace, human and with an email."""
        return not (self.external or self.deactivated or self.bot) and self.email is not None


@dataclass(slots=True)
class UserGroup:
    """Users who can be mentioned together."""

    id: str
    handle: str
    created: int
    users: list[str] = field(default_factory=list[str])
    deleted: int = 0
    """When it was disabled; 0: it is not."""


@dataclass(slots=True)
class SimulatedMessage:
    """One message, reply or event. `parent` is the time of the parent message."""

    micros: int
    user: str
    text: str
    subtype: str | None = None
    parent: int | None = None
    files: tuple[str, ...] = ()
    blocks: list[Any] | None = None
    attachments: list[Any] | None = None
    edited: tuple[str, int] | None = None
    bot_id: str | None = None
    replies: list[int] = field(default_factory=list[int])
    threaded: bool = False
    """True if it ever had a reply: Slack then keeps showing `thread_ts`, with a count of 0."""

    @property
    def written(self) -> bool:
        """True if a user wrote this and it still exists."""
        return self.subtype != "tombstone" and self.subtype not in EVENTS


@dataclass(slots=True)
class SlackFile:
    """An uploaded file; a `deleted` one remains as an id."""

    id: str
    user: str
    name: str
    mimetype: str
    content: bytes
    created: int
    deleted: bool = False
    mode: str = "hosted"
    """`quip` for a canvas, which is sent as a page of another size, `list` for a list, which is not sent."""
    denied: bool = False
    """True if a connected workspace keeps it from the app."""


class Truth(msgspec.Struct, frozen=True):
    """An expected message, for comparison with the index."""

    ts: str
    thread_ts: str | None
    """The parent's ts for a reply, its own for a parent with replies, otherwise None."""
    user: str
    text: str
    files: tuple[str, ...]
    """Ids of the files that still exist."""
