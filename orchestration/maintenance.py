"""Weekly maintenance: drop indexes replaced long ago, vacuum and analyse Postgres, remove abandoned blobs, compact lake tables."""

import dagster as dg

from orchestration.jobs import scheduled
from resources.bindings import as_failure
from resources.settings import Settings, load
from resources.stores.postgres import session
from sql.sync import Collections

CRON = "30 3 * * 0"
"""Sunday night: vacuuming does not block searches, but reads everything."""


def maintain(settings: Settings) -> dict[str, int]:
    """Run the maintenance and return the counts. Idempotent. Indexes are dropped even if compaction fails."""
    from assets.cutover import drop_expired
    from assets.raw import raw_table
    from resources.core.tables import embedded_table
    from resources.stores.blobs import Blobs
    from resources.stores.compaction import compact
    from resources.stores.lake import Lake
    from resources.stores.leases import WAIT_SECONDS
    from resources.syncs.jobs import stored_sources

    with session(settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("VACUUM (ANALYZE)")
        sources = stored_sources(connection)
        collections = Collections(connection).collections()
    lake = Lake(settings.lake_address)
    tables = ["parsed", "chunked"]
    tables += [raw_table(source) for source in sources]
    tables += [embedded_table(collection.model, collection.dimensions) for collection in collections]
    done = {"abandoned_files": Blobs(settings.lake_address).sweep()}
    try:
        done["tables_compacted"] = compact(settings.postgres_dsn, lake, tables, past=1, seconds=WAIT_SECONDS)
    finally:
        done["indexes_dropped"] = len(drop_expired(settings))  # last: it is refused while a reindex runs
    return done


@dg.op(
    description="Drop indexes that were replaced two weeks ago, vacuum Postgres, remove abandoned files, compact the lake."
)
def upkeep(context: dg.OpExecutionContext) -> None:
    with as_failure():
        done = maintain(load())
    context.add_output_metadata(done)


weekly_upkeep, weekly_upkeep_schedule = scheduled(
    upkeep, "weekly_upkeep", CRON, "Maintenance of Postgres and the lake."
)
