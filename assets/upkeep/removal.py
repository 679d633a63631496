"""Remove all documents of roots, drives or channels that are no longer wanted: from the lake, Postgres and the index.

This is a sync job of its own, without the source, which may no longer be set up. It can be killed and repeated: what is done is done.
"""

from __future__ import annotations

from collections.abc import Sequence

from assets.chunked import batches
from assets.index.targets import active_target
from assets.index.work import marked
from assets.indexed import remove_gone
from assets.raw import COUNTED, remove_partition
from assets.steps import SETTLED_DOCUMENTS
from resources.core.domain import SourceName
from resources.settings import Settings
from resources.syncs.counts import StageResult
from resources.syncs.syncing import open_sync


def remove(settings: Settings, source: SourceName, partitions: Sequence[str]) -> int:
    """Remove the documents of these partitions and return their number. Waits for a running sync of the source."""
    with open_sync(settings, source, partitions=partitions, requested_by="source remove") as job:
        result = StageResult(dict.fromkeys(COUNTED, 0))
        for partition in partitions:
            job.stores.partitions.reset_partition(partition=partition)
            job.stores.partitions.forget(partition=partition)
            remove_partition(job, partition, result)
        active = active_target(job.stores)
        for part in batches(marked(job, active), SETTLED_DOCUMENTS):
            remove_gone(job, active.collection, part)
        for partition in partitions:
            job.stores.partitions.drop_partition(partition=partition)
        if not job.stores.partitions.partition_names():
            # what the source said about people no longer counts
            job.stores.partitions.save_directory(rows=[], keep_groups=False)
    return int(result.counts["deleted"])
