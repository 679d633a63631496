"""Statements of settings of sources that administrators stored."""

from __future__ import annotations

import msgspec

from sql.family import AsyncFamily, Family


class StoredSetting(msgspec.Struct, frozen=True):
    """A setting: its value, or if it is secret, the encrypted one."""

    source: str
    name: str
    value: str | None
    secret: bytes | None


class StoredSettings(Family, path="credentials/source_settings.sql"):
    """Settings of sources that administrators stored; secrets are encrypted already."""

    def put_setting(
        self, *, source: str, name: str, value: str | None, secret: bytes | None, updated_by: str
    ) -> int: ...
    def stored_settings(self) -> list[StoredSetting]: ...
    def rotate_setting(self, *, source: str, name: str, old: bytes, secret: bytes) -> int: ...
    def remove_settings(self, *, source: str, names: list[str]) -> int: ...


class StoredSettingReads(AsyncFamily, path="credentials/source_settings.sql"):
    """The stored settings, for the HTTP service."""

    async def stored_settings(self) -> list[StoredSetting]: ...
