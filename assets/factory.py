"""Define the Dagster assets of a source: the source itself, and its five stages as one multi-asset.

The stages overlap in a sync (`assets.waves`), so they are one step, of which any part can be selected: a backfill of one stage does just
that stage. Each asset is materialized with what its stage did and how long it was busy. A run over the whole source records an event of
each asset as a whole, and one for each partition that changed (each costs milliseconds). A backfill names its partitions and processes
everything in them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets import catalog
from assets.partitions import align, partitions_of
from resources.bindings import Syncs, as_failure, chosen_partitions
from resources.core.domain import STAGES, SourceName
from resources.core.errors import EndedJobError
from resources.sources.spec import SourceSpec
from resources.syncs.launch import BACKFILL_TAG

if TYPE_CHECKING:
    from assets.report import Report
    from resources.syncs.counts import StageResult
    from resources.syncs.syncing import SyncJob

DESCRIPTIONS = {
    "raw": "Change rows of the source in the lake and bytes in the blob store; one row per change.",
    "parsed": "Normalised text with headings, pages and offsets; one row per content and parser version.",
    "chunked": "Passages that fit the embedding model's window; one row per chunk.",
    "embedded": "Vectors, one per distinct text and model, shared between documents with the same text.",
    "indexed": "Documents and chunks in Postgres and in Qdrant, with permissions; one point per chunk.",
}

StageEvents = Iterator[dg.MaterializeResult[Any]]


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
    return [outside, _stages(spec, minutes, set_up=set_up)]


def outside_key(source: SourceName) -> dg.AssetKey:
    return dg.AssetKey([source.value, "source"])


def stage_key(source: SourceName, stage: str) -> dg.AssetKey:
    return dg.AssetKey([source.value, stage])


def _described(spec: SourceSpec, text: str, *, set_up: bool) -> str:
    return text if set_up else f"**Not set up.** {spec.help}\n\n{text}"


def _stage_spec(spec: SourceSpec, stage: str, upstream: dg.AssetKey, minutes: int, *, set_up: bool) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=stage_key(spec.name, stage),
        deps=[upstream],
        group_name=spec.name.value,
        description=_described(spec, f"{spec.label}: {DESCRIPTIONS[stage]}", set_up=set_up),
        owners=catalog.OWNERS,
        tags={**catalog.source_tags(spec.name.value, set_up=set_up), catalog.STAGE_TAG: stage},
        kinds=catalog.KINDS[stage],
        freshness_policy=catalog.freshness(minutes) if set_up else None,
    )


def _stages(spec: SourceSpec, minutes: int, *, set_up: bool) -> dg.AssetsDefinition:
    source = spec.name
    upstream = [outside_key(source), *(stage_key(source, stage) for stage in STAGES)]

    @dg.multi_asset(
        name=source.value,
        specs=[
            _stage_spec(spec, stage, before, minutes, set_up=set_up)
            for stage, before in zip(STAGES, upstream, strict=False)
        ],
        partitions_def=partitions_of(source),
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=True,
        pool=source.value,
    )
    def body(context: dg.AssetExecutionContext, syncs: Syncs) -> StageEvents:
        stages = [stage for stage in STAGES if stage_key(source, stage) in context.selected_asset_keys]
        with as_failure():
            try:
                job = syncs.of(source, context)
            except EndedJobError as error:
                context.log.info(str(error))
                return
            for stage in stages:
                yield from _materialized(context, job, stage, last=stage == stages[-1])

    return body


def _materialized(context: dg.AssetExecutionContext, job: "SyncJob", stage: str, *, last: bool) -> StageEvents:
    """Run a stage and yield what it did. Raises `dg.Failure` after the last stage of a run in which anything failed."""
    # polars, Arrow and parsers: needed by the process that runs stages, not by the code server
    from assets import pipeline
    from assets.report import Report
    from resources.syncs.syncing import StageResult

    source, chosen = job.stores.source, chosen_partitions(context)
    result = StageResult()
    if stage in job.planned:
        result = _run(job, stage, partial(pipeline.WORK[stage], job, everything=chosen is not None))
    report = Report(job, stage, result)
    align(context.instance, source, job.stores.partitions)
    key = stage_key(source, stage)
    if chosen is None:
        for partition in sorted(job.touched.intersection(report.states)):
            context.log_event(dg.AssetMaterialization(key, partition=partition, metadata=report.partition(partition)))
    if last and job.error:
        # The rest of the run is complete; it is still marked as failed, and an alert is sent.
        raise dg.Failure(job.error, metadata=report.run(), allow_retries=False)
    if chosen is None:
        yield dg.MaterializeResult(asset_key=key, metadata=report.asset())
    else:
        yield from _backfilled(context, report, key, chosen)


def _backfilled(
    context: dg.AssetExecutionContext, report: "Report", key: dg.AssetKey, chosen: list[str]
) -> StageEvents:
    for partition in chosen:
        context.add_asset_metadata(
            report.partition(partition) | report.remaining(), asset_key=key, partition_key=partition
        )
    yield dg.MaterializeResult(asset_key=key)
    if BACKFILL_TAG not in context.run.tags:  # a backfill fails if its runs record more than its partitions
        # last, because Dagster shows the latest event as the state of the asset
        context.log_event(dg.AssetMaterialization(key, metadata=report.asset()))


def _run(job: "SyncJob", stage: str, work: "Callable[[], StageResult]") -> "StageResult":
    """Run a stage. Raises `dg.Failure` with the sentence of the job row instead of its error, whose text and causes may quote documents."""
    try:
        return job.run(stage, work)
    except Exception as error:  # noqa: BLE001 # at the edge to Dagster, which stores it; the log has all of it
        sentence = job.error or type(error).__name__
    raise dg.Failure(sentence, allow_retries=False)
