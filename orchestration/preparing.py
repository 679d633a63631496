"""The job of a source that prepares documents for a large sync of it; the sync requests its runs."""

import dagster as dg

from assets import catalog
from orchestration import dagster_api
from resources import priority
from resources.core.domain import SourceName
from resources.logging import configure
from resources.settings import load
from resources.sources import label
from resources.syncs.launch import NAME_TAG, PREPARES_TAG, SOURCE_TAG, preparing_job
from resources.syncs.syncing import reason_of


def preparation_job(source: SourceName) -> dg.JobDefinition:
    """Return the job that parses, chunks and embeds what a sync of the source offers, in the source's concurrency pool."""
    name = preparing_job(source)

    @dg.op(name=f"{name}_waves", pool=source.value, description="Parse, chunk and embed documents that a sync offers.")
    def body(context: dg.OpExecutionContext) -> None:
        # polars, Arrow and parsers: needed by the process that runs it, not by the code server
        from assets.preparing import prepare

        settings, tags = load(), context.run.tags
        configure(settings.log_level, "dagster")
        if PREPARES_TAG not in tags:
            raise dg.Failure("A sync requests this run. Start a sync of the source instead.", allow_retries=False)
        priority.lower()
        try:
            done = prepare(settings, source, tags[PREPARES_TAG], tags[NAME_TAG])
        except Exception as error:  # noqa: BLE001 # at the edge to Dagster, which stores it: errors may quote documents
            sentence = reason_of(error)
        else:
            context.add_output_metadata(done)
            return
        raise dg.Failure(sentence, allow_retries=False)

    return dagster_api.to_job(
        dg.GraphDefinition(name=name, node_defs=[body]),
        description=f"Share the work of a large sync of {label(source)}. The sync requests these runs, and does what they leave.",
        executor_def=dg.in_process_executor,
        tags={SOURCE_TAG: source.value, **catalog.purpose("sync")},
        owners=catalog.OWNERS,
    )
