"""Statements about what searches without Postgres must know."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import Family, Json


class Standing(msgspec.Struct, frozen=True):
    """Who may read a document now, and whether points of it may say otherwise."""

    doc_id: str
    source: str
    readers: list[str]
    behind: bool


class PartitionCheck(msgspec.Struct, frozen=True):
    """A partition, and when the permissions were checked that the index has."""

    source: str
    partition: str
    checked_at: datetime


class LostPartition(msgspec.Struct, frozen=True):
    """A partition that can no longer be read."""

    source: str
    partition: str


class HeldDocument(msgspec.Struct, frozen=True):
    """A document whose deletion waits for approval, and since when."""

    doc_id: str
    source: str
    held_at: datetime


class Reported(msgspec.Struct, frozen=True):
    """What a source reports of a person."""

    email: str
    active: bool


class GivenAddress(msgspec.Struct, frozen=True):
    """An address that was given to another account, and when that was seen."""

    email: str
    since: datetime


class RevokedToken(msgspec.Struct, frozen=True):
    """A token on the deny-list."""

    token_id: str
    expires_at: datetime


class NotedChange(msgspec.Struct, frozen=True):
    """An entry that the index has yet to be told."""

    kind: str
    key: str
    noted_at: datetime


class WithheldStatements(Family, path="registry/withheld.sql"):
    """What searches without Postgres must know."""

    def lock(self, *, doc_ids: list[str]) -> list[str]: ...
    def lock_free(self, *, doc_ids: list[str]) -> list[str]: ...
    def standing(self, *, doc_ids: list[str]) -> list[Standing]: ...
    def unknown(self, *, doc_ids: list[str]) -> list[str]: ...
    def erased(self, *, doc_ids: list[str]) -> list[str]: ...
    def narrowing(self, *, source: str, rows: Json) -> list[Standing]: ...
    def behind(self) -> list[str]: ...
    def checks(self) -> list[PartitionCheck]: ...
    def lost(self) -> list[LostPartition]: ...
    def held(self, *, source: str | None) -> list[HeldDocument]: ...
    def inactive(self) -> list[str]: ...
    def ended(self) -> list[str]: ...
    def given(self, *, now: bool) -> list[GivenAddress]: ...
    def read(self) -> list[str]: ...
    def reported(self, *, emails: list[str]) -> list[Reported]: ...
    def revoked(self, *, now: datetime) -> list[RevokedToken]: ...
    def note(self, *, kind: str, keys: list[str]) -> int: ...
    def just_noted(self) -> bool: ...
    def noted(self) -> list[NotedChange]: ...
    def distrust(self) -> int: ...
    def told(self, *, rows: Json) -> int: ...
