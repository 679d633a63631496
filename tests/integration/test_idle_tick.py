"""A sync without changes reads as much of the registry with many documents as with few."""

from __future__ import annotations

from assets import pipeline
from assets.report import Report
from resources.core.domain import STAGES, SourceName
from resources.sources.push import place_of
from resources.stores.blobs import Blobs
from resources.stores.postgres import connect
from resources.stores.uploads import NewUpload, record
from resources.syncs.syncing import open_sync
from sql.upkeep import Checks
from tests.fixtures.installation import Installation
from tests.fixtures.waiting import until

FEW, MANY = 12, 120
READ = """SELECT sum(seq_tup_read + idx_tup_fetch) AS rows FROM pg_stat_user_tables
WHERE relname IN ('documents', 'index_entries', 'uploads', 'chunks')"""
OTHERS = """SELECT count(*) AS sessions FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()"""
INDEX_READ = """SELECT sum(idx_tup_read) AS rows FROM pg_stat_user_indexes
WHERE relname IN ('documents', 'index_entries', 'uploads', 'chunks')"""


def push(installation: Installation, numbers: range) -> None:
    blobs = Blobs(installation.settings.lake_address)
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        for number in numbers:
            data = f"Note {number}: the otter of river {number} sleeps until noon.".encode()
            name = f"note-{number}.txt"
            record(
                connection,
                NewUpload(
                    owner="ada@acme.example",
                    content_hash=blobs.put([data]).content_hash,
                    size=len(data),
                    file_name=name,
                    title=None,
                    description=None,
                    mime_type="text/plain",
                    permissions=("domain:acme.example",),
                    tags={},
                    place=place_of("ada@acme.example", "wiki", name, None, None),
                ),
            )


def tick(installation: Installation) -> int:
    """Sync as Dagster does, with reports and checks, and return how many documents were indexed."""
    with open_sync(installation.settings, SourceName.PUSH, requested_by="test") as job:
        done = pipeline.sync(job)
        for stage in STAGES:
            Report(job, stage, job.results[stage]).asset()
        job.stores.index.ledger(partitions=job.partitions)
        Checks(job.stores.connection, "push").completeness()
    return int(done["indexed"]["documents"])


def rows_read(installation: Installation) -> int:
    """Return the rows that a tick without changes reads of tables with a row for each document."""

    def read() -> int:
        # sessions report what they read when they end
        until(lambda: installation.rows(OTHERS)[0]["sessions"] == 0, "the end of all other sessions")
        return sum(int(installation.rows(query)[0]["rows"]) for query in (READ, INDEX_READ))

    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        connection.execute("ANALYZE")
    before = read()
    assert tick(installation) == 0
    return read() - before


def test_a_tick_without_changes_reads_no_more_of_a_larger_registry(installation: Installation) -> None:
    # small tables are read as a whole, whatever the statement
    (name,) = installation.rows("SELECT current_database() AS name")
    with connect(installation.settings.postgres_dsn, autocommit=True) as connection:
        for plan in ("seqscan", "bitmapscan", "hashjoin", "mergejoin"):
            connection.execute(f"ALTER DATABASE {name['name']} SET enable_{plan} = off".encode())
    installation.disconnect()
    push(installation, range(FEW))
    assert tick(installation) == FEW
    tick(installation)
    few = rows_read(installation)
    push(installation, range(FEW, MANY))
    assert tick(installation) == MANY - FEW
    tick(installation)
    assert rows_read(installation) <= few + FEW
