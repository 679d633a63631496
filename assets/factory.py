"""Define the five Dagster assets of a source: claim the sync, run the stage and report what changed.

A scheduled run has the partition key `*` and records an event only for partitions that changed (an event costs 20-30 ms). A
backfill names its partitions and processes everything in them.
"""

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from resources.bindings import Syncs, chosen_partitions
from resources.core.domain import STAGES, SourceName
from resources.sources import label

if TYPE_CHECKING:
    from resources.syncing import SyncJob

SAMPLE_FAULTS = 20

DESCRIPTIONS = {
    "raw": "Change rows of the source in the lake and bytes in the blob store; one row per change.",
    "parsed": "Normalised text with headings, pages and offsets; one row per content and parser version.",
    "chunked": "Passages that fit the embedding model's window; one row per chunk.",
    "embedded": "Vectors, one per distinct text and model, shared between documents with the same text.",
    "indexed": "Documents and chunks in Postgres and in Qdrant, with permissions; one point per chunk.",
}


def partitions_of(source: SourceName) -> dg.DynamicPartitionsDefinition:
    """Return the partitions definition of a source. A partition is a root, channel or upload day, never a document."""
    return dg.DynamicPartitionsDefinition(name=source.value)


def source_assets(source: SourceName) -> list[dg.AssetsDefinition]:
    """Return the source's assets raw → parsed → chunked → embedded → indexed."""
    return [_stage_asset(source, number) for number in range(len(STAGES))]


def _stage_asset(source: SourceName, number: int) -> dg.AssetsDefinition:
    stage = STAGES[number]
    upstream = [dg.AssetKey([source.value, STAGES[number - 1]])] if number else []

    @dg.asset(
        key=dg.AssetKey([source.value, stage]),
        deps=upstream,
        partitions_def=partitions_of(source),
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name=source.value,
        description=f"{label(source)}: {DESCRIPTIONS[stage]}",
        kinds={"deltalake"} if stage != "indexed" else {"qdrant", "postgres"},
    )
    def body(context: dg.AssetExecutionContext, syncs: Syncs) -> dg.MaterializeResult[Any]:
        from assets import (
            pipeline,  # polars, Arrow and parsers: needed by the process that runs stages, not by the code server
        )

        job = syncs.of(source, context)
        backfill = chosen_partitions(context) is not None
        result = job.run(stage, partial(pipeline.WORK[stage], job, everything=backfill))
        metadata = _metadata(job, result.counts)
        if not backfill and job.touched:
            _report_partitions(context, source, job, metadata)
        for key in job.retired if stage == STAGES[-1] else ():
            context.instance.delete_dynamic_partition(source.value, key)
        if stage == STAGES[-1] and job.error:
            # The rest of the sync is complete; the run is still marked as failed, and an alert is sent.
            raise dg.Failure(job.error, metadata=metadata, allow_retries=False)
        return dg.MaterializeResult(metadata=metadata)

    return body


def _report_partitions(
    context: dg.AssetExecutionContext, source: SourceName, job: "SyncJob", metadata: Mapping[str, Any]
) -> None:
    keys = sorted(job.touched)
    context.instance.add_dynamic_partitions(source.value, keys)
    for key in keys:
        context.log_event(dg.AssetMaterialization(context.asset_key, partition=key, metadata=metadata))


def _metadata(job: "SyncJob", counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return counts, the job, tokens and a table of skipped and failed documents."""
    metadata: dict[str, Any] = {
        **counts,
        "job_id": job.job_id,
        "tokens": job.counts.tokens,
        "cost_usd": job.counts.cost_usd,
    }
    faults = job.faults()[:SAMPLE_FAULTS]
    if faults:
        records = [
            dg.TableRecord({name: str(getattr(fault, name)) for name in ("source_id", "stage", "outcome", "reason")})
            for fault in faults
        ]
        metadata["skipped_and_failed"] = dg.TableMetadataValue(
            records=records, schema=dg.TableSchema([dg.TableColumn(name) for name in records[0].data])
        )
    return metadata
