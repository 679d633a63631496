"""The partitions of a source in Dagster: its roots, drives, channels or upload days, but no documents.

The list follows the registry. A partition is in it once it was synced, and leaves it when it is gone at the source or no longer
configured, whatever earlier runs have recorded of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg

from resources.core.domain import SourceName
from resources.syncs.launch import WHOLE
from sql.sync import Partitions


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
    for key in sorted(listed.difference(current)):
        instance.delete_dynamic_partition(source.value, key)
