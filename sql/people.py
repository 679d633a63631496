"""Statements about people and their groups: `sql/people`."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import Family, Json, SourceFamily


class PeopleState(msgspec.Struct, frozen=True):
    """A source of memberships: when it was last read, what it notes, and how much it holds."""

    source: str
    directory_at: datetime | None
    note: str | None
    members: int
    groups: int


class StoredMembership(msgspec.Struct, frozen=True):
    """A person's membership in a group, through a group that is a member of it or directly."""

    email: str
    principal: str
    through: str | None
    read_at: datetime


class KnownPerson(msgspec.Struct, frozen=True):
    """A person as a source last reported them."""

    email: str
    external_id: str | None
    active: bool
    moved_at: datetime | None


class MovedAddress(msgspec.Struct, frozen=True):
    """An address that documents were taken from."""

    email: str
    moved_at: datetime


class PeopleStates(Family, path="people/states.sql"):
    """The state of all sources of people."""

    def states(self) -> list[PeopleState]: ...


class People(SourceFamily, path="people/people.sql"):
    """People and groups of one source."""

    def read_groups(self, *, groups: list[str]) -> list[StoredMembership]: ...
    def save_memberships(self, *, rows: Json) -> int: ...
    def note(self, *, note: str | None) -> int: ...
    def date(self, *, read_at: datetime) -> int: ...
    def known_people(self) -> list[KnownPerson]: ...
    def save_people(self, *, rows: Json) -> int: ...
    def move(self, *, emails: list[str]) -> int: ...
    def moved(self) -> list[MovedAddress]: ...
    def deactivate(self, *, emails: list[str]) -> int: ...
