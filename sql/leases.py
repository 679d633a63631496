"""Statements about leases of partitions."""

from __future__ import annotations

from sql.family import Family


class Leases(Family, path="registry/leases.sql"):
    """Leases: who may write to a partition, until when."""

    def claim(
        self, *, source: str, partitions: list[str], owner: str, held: int | None, seconds: float
    ) -> int | None: ...
    def renew(self, *, source: str, owner: str, fence: int, seconds: float) -> int: ...
    def release(self, *, source: str, owner: str, fence: int) -> int: ...
    def keep(self, *, source: str, owner: str, fence: int) -> int: ...
    def taken(self, *, source: str, partitions: list[str]) -> bool: ...
