"""What a sync and each of its stages have done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class SyncCounts:
    """Documents that a sync updated, skipped, deleted or failed on, and the chunks it embedded."""

    synced: int = 0
    skipped: int = 0
    deleted: int = 0
    failed: int = 0
    embedded: int = 0
    tokens: int = 0
    cost_usd: float = 0.0
    documents: int = 0
    """Documents found to process so far; overlapping stages only, like the next two."""
    done: int = 0
    passages: int = 0
    """Passages that have a vector."""
    expected: int = 0
    """Passages of all documents found to process so far, an estimate; 0: unknown."""


@dataclass
class StageResult:
    counts: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the stage did in this sync."""
    partitions: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """What of that it did in each partition; tokens and costs belong to none."""
    touched: set[str] = field(default_factory=set[str])
    """Partitions in which anything changed."""
    deferred: set[str] = field(default_factory=set[str])
    """Content keys left to the next sync to parse."""
    seconds: float = 0.0
    """Time in which it was busy. Stages overlap, so a sync may take less than their sum."""

    def count(self, partition: str, **more: int) -> None:
        """Add to the counts, and to those of the partition to which this work belongs."""
        self.counts |= _sums(self.counts, more)
        own = self.partitions.setdefault(partition, {})
        own |= _sums(own, more)

    def add(self, other: StageResult) -> None:
        self.counts |= _sums(self.counts, other.counts)
        for partition, counts in other.partitions.items():
            own = self.partitions.setdefault(partition, {})
            own |= _sums(own, counts)
        self.touched |= other.touched
        self.deferred |= other.deferred
        self.seconds += other.seconds


def _sums(counts: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: count + counts.get(name, 0) if isinstance(count, int | float) else count for name, count in more.items()
    }
