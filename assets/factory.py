"""Define the five Dagster assets of a source: claim the sync, run the stage and report what changed.

A run over the whole source records an event of the asset itself, and one for each partition that changed (an event costs 20-30 ms).
A backfill names its partitions and processes everything in them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import catalog
from assets.partitions import align, partitions_of
from resources.bindings import Syncs, chosen_partitions
from resources.core.domain import STAGES, SourceName
from resources.launch import BACKFILL_TAG
from resources.sources.spec import SourceSpec

if TYPE_CHECKING:
    from resources.syncing import StageResult, SyncJob

DESCRIPTIONS = {
    "raw": "Change rows of the source in the lake and bytes in the blob store; one row per change.",
    "parsed": "Normalised text with headings, pages and offsets; one row per content and parser version.",
    "chunked": "Passages that fit the embedding model's window; one row per chunk.",
    "embedded": "Vectors, one per distinct text and model, shared between documents with the same text.",
    "indexed": "Documents and chunks in Postgres and in Qdrant, with permissions; one point per chunk.",
}


def source_assets(spec: SourceSpec, minutes: int, *, set_up: bool) -> list[dg.AssetsDefinition | dg.AssetSpec]:
    """Return the source itself, as an external asset, and its assets raw → parsed → chunked → embedded → indexed."""
    outside = dg.AssetSpec(
        key=outside_key(spec.name),
        group_name=spec.name.value,
        description=_described(spec, f"{spec.label}, as the connector reads it.", set_up=set_up),
        owners=catalog.OWNERS,
        tags=catalog.source_tags(spec.name.value, set_up=set_up),
        kinds={spec.name.value.replace("_", "")},
    )
    return [outside, *(_stage_asset(spec, number, minutes, set_up=set_up) for number in range(len(STAGES)))]


def outside_key(source: SourceName) -> dg.AssetKey:
    return dg.AssetKey([source.value, "source"])


def _described(spec: SourceSpec, text: str, *, set_up: bool) -> str:
    return text if set_up else f"**Not set up.** {spec.help}\n\n{text}"


def _stage_asset(spec: SourceSpec, number: int, minutes: int, *, set_up: bool) -> dg.AssetsDefinition:
    source, stage = spec.name, STAGES[number]

    @dg.asset(
        key=dg.AssetKey([source.value, stage]),
        deps=[dg.AssetKey([source.value, STAGES[number - 1]]) if number else outside_key(source)],
        partitions_def=partitions_of(source),
        backfill_policy=dg.BackfillPolicy.single_run(),
        group_name=source.value,
        description=_described(spec, f"{spec.label}: {DESCRIPTIONS[stage]}", set_up=set_up),
        owners=catalog.OWNERS,
        tags={**catalog.source_tags(source.value, set_up=set_up), catalog.STAGE_TAG: stage},
        kinds=catalog.KINDS[stage],
        freshness_policy=catalog.freshness(minutes) if set_up else None,
    )
    def body(context: dg.AssetExecutionContext, syncs: Syncs) -> Iterator[dg.MaterializeResult[Any]]:
        # polars, Arrow and parsers: needed by the process that runs stages, not by the code server
        from assets import pipeline
        from assets.report import Report
        from resources.syncing import StageResult

        job = syncs.of(source, context)
        chosen = chosen_partitions(context)
        result = StageResult()
        if stage in job.planned:
            result = _run(job, stage, partial(pipeline.WORK[stage], job, everything=chosen is not None))
        report = Report(job, stage, result)
        align(context.instance, source, list(report.states))
        if chosen is None:
            for key in sorted(job.touched.intersection(report.states)):
                _record(context, report.partition(key), key)
        if stage == STAGES[-1] and job.error:
            # The rest of the sync is complete; the run is still marked as failed, and an alert is sent.
            raise dg.Failure(job.error, metadata=report.run(), allow_retries=False)
        if chosen is None:
            yield dg.MaterializeResult(metadata=report.asset())
        else:
            for key in chosen:
                context.add_asset_metadata(report.partition(key), partition_key=key)
            yield dg.MaterializeResult()
            if BACKFILL_TAG not in context.run.tags:  # a backfill fails if its runs record more than its partitions
                _record(
                    context, report.asset()
                )  # last, because Dagster shows the latest event as the state of the asset

    return body


def _run(job: "SyncJob", stage: str, work: "Callable[[], StageResult]") -> "StageResult":
    """Run a stage. Raises `dg.Failure` with the sentence of the job row instead of its error, whose text and causes may quote documents."""
    try:
        return job.run(stage, work)
    except Exception as error:  # noqa: BLE001 # at the edge to Dagster, which stores it; the log has all of it
        sentence = job.error or type(error).__name__
    raise dg.Failure(sentence, allow_retries=False)


def _record(context: dg.AssetExecutionContext, metadata: dict[str, Any], key: str | None = None) -> None:
    """Record an event of a partition, or of the asset as a whole."""
    context.log_event(dg.AssetMaterialization(context.asset_key, partition=key, metadata=metadata))
