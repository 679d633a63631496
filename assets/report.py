"""Metadata of materializations: what a stage did in a run, and what there is now, of the asset and of each partition.

The series of the asset, of partitions and of runs have different names, because Dagster plots all values of a name together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import dagster as dg

from assets.columns import schema_of
from assets.holdings import rows_of
from assets.index.targets import active_target
from assets.raw import raw_table
from assets.sample import sample_of
from resources.core.domain import STAGES, document_id
from resources.core.notes import KINDS as NOTES
from resources.core.reasons import kind_of
from resources.core.tables import embedded_table
from resources.settings.urls import without_password
from resources.stores.clients import Stores
from resources.stores.namespace import namespace
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import PartitionCounts

SHOWN_FAULTS = 20
SHOWN_PARTITIONS = 100

RUN_COUNTS: Mapping[str, Mapping[str, str]] = {
    "raw": {
        "seen": "documents_seen",
        "fetched": "contents_fetched",
        "rewritten": "metadata_updated",
        "refused": "documents_refused",
        "failed": "contents_unreadable",
        "deleted": "documents_deleted",
        "held": "deletions_held",
    },
    "parsed": {
        "documents": "documents_checked",
        "parsed": "texts_parsed",
        "reused": "texts_kept",
        "skipped": "texts_skipped",
        "failed": "texts_failed",
        **{f"noted_{kind}": f"notes_{kind}" for kind in NOTES},
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
        "payloads_updated": "metadata_updated",
        "keywords_refreshed": "keyword_vectors_refreshed",
    },
}
"""The names under which the counts of each stage are shown."""
NOT_BY_PARTITION = frozenset({"tokens_embedded", "cost_usd", "keyword_vectors_refreshed"})
ONLY_IF_ANY = frozenset({"tokens_embedded", "cost_usd", *(f"notes_{kind}" for kind in NOTES)})
"""Counts that are left out while they are zero: a local model has no price, most texts have no notes."""
TOTALS: Mapping[str, Sequence[str]] = {
    "raw": ("documents", "documents_skipped", "documents_failed"),
    "parsed": ("documents_skipped", "documents_failed"),
    "indexed": ("documents_indexed",),
}
"""Totals of the source that are shown with a stage, besides the rows of its table."""
STATUS_COMMAND = "concordance status"


class Report:
    """Report of one stage of a sync after its work."""

    def __init__(self, job: SyncJob, stage: str, result: StageResult) -> None:
        self._job = job
        self._stage = stage
        self._result = result
        self.states = {state.partition: state for state in job.stores.partitions.states()}
        """The partitions that are not gone."""
        self._rows = rows_of(stage, list(self.states.values()))

    def asset(self) -> dict[str, Any]:
        """Return the metadata of the asset as a whole."""
        stores = self._job.stores
        place = place_of(stores, self._stage)
        metadata: dict[str, Any] = {
            "dagster/row_count": self._rows.total,
            **self._totals(),
            **self.run(),
            "job_id": self._job.job_id,
            "dagster/uri": place.uri,
            "dagster/column_schema": schema_of(self._stage, place.table),
            "sources": dg.MetadataValue.url(f"{stores.settings.base_url}/api/sources"),
            "sources_command": STATUS_COMMAND,
        }
        tables = {
            "partitions": self._partitions() if self._stage == "raw" else [],
            "sample": sample_of(stores, self._stage, place.table),
            "skipped_and_failed": self._faults(),
        }
        return metadata | {name: _table(rows) for name, rows in tables.items() if rows}

    def run(self) -> dict[str, Any]:
        """Return what the stage did in this run, and the seconds in which it was busy."""
        counts = {name: self._result.counts.get(key, 0) for key, name in RUN_COUNTS[self._stage].items()}
        shown = {f"run/{name}": number for name, number in counts.items() if number or name not in ONLY_IF_ANY}
        return shown | {"run/busy_seconds": round(self._result.seconds, 3)} | self.remaining()

    def remaining(self) -> dict[str, str]:
        """Return what the run has left to the next one, if anything; the sentence is the one of the sync's warnings."""
        if self._stage != STAGES[-1] or self._job.remaining is None:
            return {}
        return {"remaining": self._job.remaining}

    def partition(self, key: str) -> dict[str, Any]:
        """Return the metadata of one partition; of one that is gone, no more than that."""
        state = self.states.get(key)
        if state is None:
            return {"partition/gone": True}
        counts = self._result.partitions.get(key, {})
        named = {name: counts.get(count, 0) for count, name in RUN_COUNTS[self._stage].items()}
        return {
            "partition/name": state.title or key,
            "dagster/partition_row_count": self._rows.partitions.get(key, 0),
            **{f"partition/{name}": number for name, number in _documents(state).items()},
            **{
                f"partition_run/{name}": number
                for name, number in named.items()
                if name not in NOT_BY_PARTITION and (number or name not in ONLY_IF_ANY)
            },
        }

    def _totals(self) -> dict[str, int]:
        documents = [_documents(state) for state in self.states.values()]
        return {f"total/{name}": sum(one[name] for one in documents) for name in TOTALS.get(self._stage, ())}

    def _partitions(self) -> list[dict[str, Any]]:
        return [
            {"partition": state.partition, "name": state.title or "", **_documents(state)}
            for state in list(self.states.values())[:SHOWN_PARTITIONS]
        ]

    def _faults(self) -> list[dict[str, Any]]:
        """Return what the stage skipped and failed on, with the kinds of the reasons, which themselves may quote a document."""
        rows: list[dict[str, Any]] = []
        for fault in self._job.faults(self._stage, SHOWN_FAULTS):
            if not fault.source_id:
                place = {"partition": "", "document": ""}
            elif fault.source_id in self.states:
                place = {"partition": fault.source_id, "document": ""}
            else:
                place = {"partition": "", "document": document_id(self._job.stores.source, fault.source_id)}
            rows.append({**place, "outcome": fault.outcome, "kind": kind_of(fault.reason)})
        return rows


def _documents(state: PartitionCounts) -> dict[str, int]:
    return {
        "documents": state.live + state.skipped + state.failed,
        "documents_skipped": state.skipped,
        "documents_failed": state.failed,
        "documents_indexed": state.indexed,
    }


class StageLocation(NamedTuple):
    """Location of a stage's rows."""

    table: str
    """Name of the table in the lake; empty for the index."""
    uri: str


def place_of(stores: Stores, stage: str) -> StageLocation:
    """Return where the rows of a stage are, without credentials."""
    if stage == "indexed":
        collection = active_target(stores).collection
        address = without_password(stores.settings.qdrant_address)
        return StageLocation("", f"{address}/collections/{namespace(stores.settings).stored(collection.name)}")
    name = stage
    if stage == "raw":
        name = raw_table(stores.source)
    elif stage == "embedded":
        collection = active_target(stores).collection
        name = embedded_table(collection.model, collection.dimensions)
    return StageLocation(name, f"{without_password(stores.settings.lake_address)}/tables/{name}")


def _table(rows: Sequence[Mapping[str, Any]]) -> dg.TableMetadataValue:
    records = [dg.TableRecord(dict(row)) for row in rows]
    columns = [
        dg.TableColumn(name, type="int" if isinstance(value, int) else "string") for name, value in rows[0].items()
    ]
    return dg.TableMetadataValue(records=records, schema=dg.TableSchema(columns))
