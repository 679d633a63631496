"""Metadata of materializations: what a stage did in a run, and what there is now, of the asset and of each partition.

The series of the asset, of partitions and of runs have different names, because Dagster plots all values of a name together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets.holdings import rows_of
from resources.syncing import SyncJob
from sql.rows import PartitionState

SHOWN_FAULTS = 20
SHOWN_PARTITIONS = 100

RUN_COUNTS: Mapping[str, Mapping[str, str]] = {
    "raw": {
        "seen": "documents_seen",
        "fetched": "contents_fetched",
        "rewritten": "documents_renamed_or_shared",
        "refused": "documents_not_fetched",
        "failed": "documents_failed",
        "deleted": "documents_deleted",
        "held": "deletions_held",
    },
    "parsed": {
        "documents": "documents_checked",
        "parsed": "texts_parsed",
        "reused": "texts_kept",
        "skipped": "texts_skipped",
        "failed": "texts_failed",
    },
    "chunked": {
        "documents": "texts_checked",
        "chunked": "texts_split",
        "reused": "texts_kept",
        "chunks": "passages_made",
        "tokens": "tokens_in_passages",
    },
    "embedded": {
        "chunks": "passages_checked",
        "embedded": "passages_embedded",
        "reused": "vectors_kept",
        "tokens": "tokens_embedded",
        "cost_usd": "cost_usd",
    },
    "indexed": {
        "documents": "documents_indexed",
        "points": "passages_indexed",
        "removed": "documents_removed",
        "payloads_updated": "documents_renamed_or_shared",
        "keywords_refreshed": "keyword_vectors_refreshed",
    },
}
"""The names under which the counts of each stage are shown."""
NOT_BY_PARTITION = frozenset({"tokens_embedded", "cost_usd", "keyword_vectors_refreshed"})


class Report:
    """What one stage of a sync has to say, once it has run."""

    def __init__(self, job: SyncJob, stage: str) -> None:
        self._job = job
        self._stage = stage
        self._result = job.results[stage]
        self.states = {state.partition: state for state in job.stores.partitions.states()}
        """The partitions that are not gone."""
        self._rows = rows_of(job.stores, stage, list(self.states.values()))

    def asset(self) -> dict[str, Any]:
        """Return the metadata of the asset as a whole."""
        metadata = {"dagster/row_count": self._rows.total, **self.run(), "job_id": self._job.job_id}
        if self._stage == "raw":
            metadata["partitions"] = _table(
                [
                    {"partition": state.partition, "name": state.title or "", **_documents(state)}
                    for state in list(self.states.values())[:SHOWN_PARTITIONS]
                ]
            )
        if faults := self._job.faults()[:SHOWN_FAULTS]:
            metadata["skipped_and_failed"] = _table(
                [
                    {name: getattr(fault, name) for name in ("source_id", "stage", "outcome", "reason")}
                    for fault in faults
                ]
            )
        return metadata

    def run(self) -> dict[str, Any]:
        """Return what the stage did in this run."""
        return {f"run/{name}": self._result.counts.get(key, 0) for key, name in RUN_COUNTS[self._stage].items()}

    def partition(self, key: str) -> dict[str, Any]:
        """Return the metadata of one partition; nothing but its key is known of one that is gone."""
        state = self.states.get(key)
        if state is None:
            return {"partition/name": "", "partition/gone": True}
        counts = self._result.partitions.get(key, {})
        return {
            "partition/name": state.title or key,
            "dagster/partition_row_count": self._rows.partitions.get(key, 0),
            **{f"partition/{name}": number for name, number in _documents(state).items()},
            **{
                f"partition_run/{name}": counts.get(count, 0)
                for count, name in RUN_COUNTS[self._stage].items()
                if name not in NOT_BY_PARTITION
            },
        }


def _documents(state: PartitionState) -> dict[str, int]:
    return {
        "documents": state.live + state.skipped + state.failed,
        "documents_skipped": state.skipped,
        "documents_failed": state.failed,
        "documents_indexed": state.indexed,
    }


def _table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    records = [dg.TableRecord(dict(row)) for row in rows]
    columns = [
        dg.TableColumn(name, type="int" if isinstance(value, int) else "string") for name, value in rows[0].items()
    ]
    return dg.TableMetadataValue(records=records, schema=dg.TableSchema(columns))
