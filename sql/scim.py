"""Statements about people and groups that identity providers provision, and about the end of an account."""

from __future__ import annotations

from datetime import datetime

import msgspec

from sql.family import Family, Json
from sql.passkeys import Ended


class ProvisionedUser(msgspec.Struct, frozen=True):
    """A user as SCIM keeps it."""

    id: str
    emails: list[str]
    active: bool
    resource: Json
    created_at: datetime
    modified_at: datetime


class ProvisionedGroup(msgspec.Struct, frozen=True):
    """A group without its members."""

    id: str
    display_name: str
    external_id: str | None
    principal: str
    created_at: datetime
    modified_at: datetime


class GroupMember(msgspec.Struct, frozen=True):
    """A direct member of a group: a user, or a group within it."""

    group_id: str
    id: str
    subgroup: bool


class KnownMember(msgspec.Struct, frozen=True):
    """The id of a user or group."""

    id: str
    subgroup: bool


class Scim(Family, path="scim/scim.sql"):
    """Users, groups and members, and what is derived of them."""

    def lock(self) -> None: ...
    def heard(self) -> int: ...
    def users(
        self,
        *,
        ids: list[str] | None,
        user_names: list[str] | None,
        external_ids: list[str] | None,
        emails: list[str] | None,
        active: bool | None,
        skip: int,
        most: int,
    ) -> list[ProvisionedUser]: ...
    def count_users(
        self,
        *,
        ids: list[str] | None,
        user_names: list[str] | None,
        external_ids: list[str] | None,
        emails: list[str] | None,
        active: bool | None,
    ) -> int: ...
    def taken(self, *, user_id: str | None, user_name: str, emails: list[str]) -> str | None: ...
    def insert_user(
        self, *, user_name: str, external_id: str | None, emails: list[str], active: bool, resource: Json
    ) -> str: ...
    def update_user(
        self, *, user_id: str, user_name: str, external_id: str | None, emails: list[str], active: bool, resource: Json
    ) -> int: ...
    def delete_user(self, *, user_id: str) -> int: ...
    def put_people(self, *, emails: list[str], external_id: str, name: str | None, active: bool) -> int: ...
    def end_people(self, *, emails: list[str]) -> int: ...
    def groups(
        self,
        *,
        ids: list[str] | None,
        names: list[str] | None,
        external_ids: list[str] | None,
        members: list[str] | None,
        skip: int,
        most: int,
    ) -> list[ProvisionedGroup]: ...
    def count_groups(
        self,
        *,
        ids: list[str] | None,
        names: list[str] | None,
        external_ids: list[str] | None,
        members: list[str] | None,
    ) -> int: ...
    def members(self, *, group_ids: list[str]) -> list[GroupMember]: ...
    def members_among(self, *, group_id: str, ids: list[str]) -> list[str]: ...
    def principal_taken(self, *, group_id: str | None, principal: str) -> str | None: ...
    def insert_group(self, *, display_name: str, external_id: str | None, principal: str) -> str: ...
    def update_group(self, *, group_id: str, display_name: str, external_id: str | None, principal: str) -> int: ...
    def delete_group(self, *, group_id: str) -> int: ...
    def known(self, *, ids: list[str]) -> list[KnownMember]: ...
    def add_members(self, *, group_id: str, user_ids: list[str], subgroup_ids: list[str]) -> int: ...
    def remove_members(self, *, group_id: str, ids: list[str]) -> int: ...
    def users_within(self, *, group_ids: list[str]) -> list[str]: ...
    def refresh(self, *, user_ids: list[str], emails: list[str]) -> int: ...


class AccountTurns(Family, path="accounts"):
    """What orders the changes of accounts."""

    def account_lock(self, *, emails: list[str]) -> None: ...


class Offboarding(Family, path="scim/offboarding.sql"):
    """Keys, sessions, agents and shared answers that end with people's accounts."""

    def revoke_keys(self, *, emails: list[str]) -> list[Ended]: ...
    def end_sessions(self, *, emails: list[str]) -> list[Ended]: ...
    def unshare_answers(self, *, emails: list[str]) -> list[Ended]: ...
    def end_agents(self, *, emails: list[str]) -> list[Ended]: ...
    def record(self, *, email: str, action: str, detail: Json) -> int: ...
    def record_each(self, *, email: str, action: str, details: Json) -> int: ...
