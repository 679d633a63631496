"""The partitions of a source in Dagster: its roots, drives, channels or upload days, but no documents.

The list follows the registry. A partition is in it once it was synced, and leaves it when it is gone at the source or no longer
configured, whatever earlier runs have recorded of it; but not while runs and backfills of chosen partitions are unfinished: they fail
without it.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from resources.core.domain import SourceName
from resources.syncs.launch import PARTITION_TAG, RANGE_START_TAG, WHOLE
from sql.sync import Partitions

_STATUS = dg.DagsterRunStatus
UNFINISHED_RUNS = [_STATUS.QUEUED, _STATUS.STARTING, _STATUS.STARTED, _STATUS.CANCELING]
UNFINISHED_BACKFILLS = ("REQUESTED", "CANCELING", "FAILING")
LATEST_BACKFILLS = 100
"""Of how many it is asked whether they are unfinished; Dagster keeps all that there ever were."""


class SourcePartitions(dg.DynamicPartitionsDefinition):
    """The partitions of one source. A run over the whole source covers none of them in particular: its event is the asset's own."""

    def get_partition_keys_in_range(self, partition_key_range: dg.PartitionKeyRange) -> Sequence[str]:
        """Return the partitions from the first to the last of a range, in the order in which they were added."""
        if partition_key_range.start == WHOLE:
            return []
        return super().get_partition_keys_in_range(partition_key_range)


def partitions_of(source: SourceName) -> SourcePartitions:
    return SourcePartitions(name=source.value)


def align(instance: dg.DagsterInstance, source: SourceName, partitions: Partitions) -> None:
    """Make Dagster's list of a source's partitions that of the registry, to which other runs add a partition first."""
    listed = set(instance.get_dynamic_partitions(source.value))
    current = partitions.current_names()
    if added := [key for key in current if key not in listed]:
        instance.add_dynamic_partitions(source.value, added)
    gone = sorted(listed.difference(current))
    if gone and not _chosen(instance):
        for key in gone:
            instance.delete_dynamic_partition(source.value, key)


def _chosen(instance: dg.DagsterInstance) -> bool:
    """Return True if a run or backfill of chosen partitions, of whichever source, is unfinished."""
    tags = [run.tags for run in instance.get_runs(dg.RunsFilter(statuses=UNFINISHED_RUNS))]
    backfills = [one.status.value for one in instance.get_backfills(limit=LATEST_BACKFILLS)]
    return any(RANGE_START_TAG in one or one.get(PARTITION_TAG, WHOLE) != WHOLE for one in tags) or any(
        one in UNFINISHED_BACKFILLS for one in backfills
    )
