"""Statements about waves of documents that a large sync offers to other runs."""

from __future__ import annotations

from typing import Any

import msgspec

from sql.family import Family, Json


class OfferedWave(msgspec.Struct, frozen=True):
    """A wave that a run has taken."""

    number: int
    doc_ids: list[str]


class ReturnedWave(msgspec.Struct, frozen=True):
    """A wave that the sync has taken back. `results`: what another run did, by stage; empty: it is not ready."""

    number: int
    results: dict[str, Any]


class Offers(Family, path="registry/offers.sql"):
    """Waves of documents that a large sync offers to other runs."""

    def offer(self, *, job_id: str, doc_ids: list[str]) -> int: ...
    def take(self, *, job_id: str, lease: str) -> OfferedWave | None: ...
    def wanted(self, *, job_id: str, number: int | None, lease: str) -> bool: ...
    def ready(self, *, job_id: str, number: int, lease: str, results: Json) -> int: ...
    def take_back(self, *, job_id: str, rest: float | None) -> list[ReturnedWave]: ...
    def offered(self, *, job_id: str) -> list[int]: ...
    def waiting(self, *, job_id: str) -> int: ...
    def end_offers(self, *, job_id: str) -> int: ...
    def ended_runs(self, *, names: list[str]) -> list[str]: ...
    def working(self, *, source: str, names: list[str]) -> list[str]: ...
