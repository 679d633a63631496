"""Compaction of the lake while other processes write, compact or erase."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import deltalake
import polars as pl
import pytest
from deltalake.exceptions import CommitFailedError

from assets.reindex import WORK as REINDEX
from assets.reindex import open_reindex
from assets.upkeep.erase import erase
from assets.upkeep.redaction import distinctive
from orchestration.maintenance import maintain
from resources.core.domain import SourceName
from resources.core.errors import BusyError, LostLeaseError
from resources.core.tables import Table, table
from resources.stores import leases
from resources.stores.compaction import compact
from resources.stores.damage import damaged_tables
from resources.stores.delta import packed, unavailable
from resources.stores.lake import COMPACT_PAST, Lake
from resources.stores.lake_erasure import drop_rows, is_scrubbed, scrub
from resources.stores.postgres import Connection
from resources.syncs.syncing import open_sync
from tests.fixtures.installation import Installation
from tests.fixtures.lake import raw
from tests.fixtures.upkeep import do

TABLE = "raw_files"
HOLDERS = "SELECT partition FROM partition_leases WHERE until > clock_timestamp() AND source = ''"


def filled(url: str, rows: int) -> Lake:
    lake = Lake(url)
    for seq in range(rows):
        lake.append(TABLE, raw([{"seq": seq, "doc_id": f"d{seq}"}]))
    return lake


def numbers(lake: Lake) -> list[int]:
    return sorted(lake.scan(TABLE).collect()["seq"])


def test_a_compaction_that_was_paused_during_another_has_no_row_twice(tmp_path: Path) -> None:
    lake = filled(tmp_path.as_uri(), 5)
    paused = lake.open(TABLE)
    assert paused is not None
    assert lake.compact(TABLE, past=1)
    with pytest.raises(CommitFailedError):
        paused.optimize.compact()
    assert numbers(lake) == list(range(5))


def test_a_sync_that_has_indexed_everything_does_not_fail_by_its_compaction(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that cannot be rewritten now, as on a slow line to its object store, would fail each sync that writes to it."""
    tried: list[str] = []

    def fail(_: Lake, name: str, *__: object) -> bool:
        tried.append(name)
        raise unavailable(name, OSError("operation timed out"))

    monkeypatch.setattr(Lake, "fragmented", lambda *_: True)
    monkeypatch.setattr(Lake, "compact", fail)
    installation.write("otter.txt", "The otter sleeps until noon.\n")
    installation.sync()
    assert tried == [TABLE]
    assert installation.rows("SELECT status FROM sync_jobs") == [{"status": "success"}]
    assert installation.agrees()


def test_a_writer_that_was_paused_commits_no_file_that_a_scrub_has_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had written its file before the scrub removed all that no version named, and commits right after."""
    lake = filled(tmp_path.as_uri(), 3)
    paused = lake.open(TABLE)
    assert paused is not None
    vacuum = deltalake.DeltaTable.vacuum
    refused: list[CommitFailedError] = []

    def followed(found: deltalake.DeltaTable, **options: Any) -> list[str]:
        removed = vacuum(found, **options)
        with pytest.raises(CommitFailedError) as error:
            deltalake.write_deltalake(paused, packed(raw([{"seq": 9, "doc_id": "late"}]), table(TABLE)), mode="append")
        refused.append(error.value)
        return removed

    with monkeypatch.context() as patch:
        patch.setattr(deltalake.DeltaTable, "vacuum", followed)
        scrub(lake, TABLE, lambda: None)
    assert len(refused) == 1
    assert numbers(lake) == [0, 1, 2]


def test_the_weekly_upkeep_waits_for_an_erasure_and_a_sync_goes_on(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.write("gone.txt", "The wobbegong of the reef hides under a ledge.\n")
    installation.sync()
    (installation.root / "gone.txt").unlink()
    installation.sync(full=True)
    settings = installation.settings
    upkeep: list[dict[str, int]] = []
    thread = threading.Thread(target=lambda: upkeep.append(maintain(settings)))

    def during(connection: Connection, words: set[str]) -> list[str]:
        with pytest.raises(BusyError, match="compacting the lake"):
            compact(settings.postgres_dsn, Lake(settings.lake_address), [TABLE], past=1)
        thread.start()
        return distinctive(connection, words)

    with monkeypatch.context() as patch:
        patch.setattr("assets.upkeep.erase.distinctive", during)
        erase(settings, after=timedelta())
    thread.join()
    assert [set(one) for one in upkeep] == [{"abandoned_files", "tables_compacted", "indexes_dropped"}]
    assert installation.agrees()


def test_an_erasure_waits_for_a_compaction_and_a_sync_leaves_it_out(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = installation.settings
    lake = Lake(settings.lake_address)
    installation.write("kept.txt", "Otters of the river sleep until noon.\n")
    installation.sync()
    for seq in range(COMPACT_PAST + 1):
        lake.append(TABLE, raw([{"seq": seq, "doc_id": f"d{seq}", "source_id": f"docs/{seq}", "partition": "docs"}]))
    other = leases.claim(settings.postgres_dsn, leases.INSTALLATION, [leases.COMPACTION])
    assert other is not None
    installation.write("kept.txt", "Otters of the river sleep until dusk.\n")
    assert installation.sync().error is None
    before = lake.files(TABLE)
    assert before > COMPACT_PAST
    reached = threading.Event()
    claim = leases.claim

    def watched(dsn: str, source: str, partitions: list[str] | None, **options: Any) -> leases.Lease | None:
        if partitions == [leases.COMPACTION]:
            reached.set()
        return claim(dsn, source, partitions, **options)

    monkeypatch.setattr("resources.syncs.jobs.claim", watched)
    thread = threading.Thread(target=erase, args=(settings,), kwargs={"after": timedelta()})
    thread.start()
    assert reached.wait(60)
    assert lake.files(TABLE) == before
    assert sorted(row["partition"] for row in installation.rows(HOLDERS)) == [leases.COMPACTION, REINDEX]
    other.release()
    thread.join()
    monkeypatch.undo()
    installation.write("kept.txt", "Otters of the river sleep until midnight.\n")
    assert installation.sync().error is None
    assert lake.files(TABLE) < COMPACT_PAST


def test_a_process_that_lost_its_lease_adds_no_rows(installation: Installation) -> None:
    lake = filled(installation.settings.lake_address, 1)
    more = raw([{"seq": 2, "doc_id": "late"}])
    with open_sync(installation.settings, SourceName.FILES) as job:
        do(installation, "DELETE FROM partition_leases WHERE source = 'files'")
        with pytest.raises(LostLeaseError):
            job.stores.lake.append(TABLE, more)
    with open_reindex(installation.settings) as work:
        do(installation, "DELETE FROM partition_leases WHERE partition = 'reindex'")
        with pytest.raises(LostLeaseError):
            work.jobs[0].stores.lake.append(TABLE, more)
    assert numbers(lake) == [0]


def test_a_compaction_that_lost_its_lease_changes_nothing(installation: Installation) -> None:
    lake = filled(installation.settings.lake_address, 3)

    def lost() -> None:
        raise LostLeaseError("lost")

    with pytest.raises(LostLeaseError):
        lake.compact(TABLE, past=1, confirm=lost)
    assert lake.files(TABLE) == 3


def test_a_compaction_leaves_the_mark_of_an_interrupted_erasure(tmp_path: Path) -> None:
    lake = filled(tmp_path.as_uri(), 5)
    assert drop_rows(lake, TABLE, "seq", [2], lambda: None) == 1
    assert lake.compact(TABLE, past=1)
    assert not is_scrubbed(lake, TABLE)
    scrub(lake, TABLE, lambda: None)
    assert is_scrubbed(lake, TABLE)


def test_a_table_whose_files_are_being_rewritten_is_not_called_damaged(tmp_path: Path) -> None:
    other = filled(tmp_path.as_uri(), 3)

    class Interrupted(Lake):
        """A lake from which an erasure removes the files that it has just listed."""

        rewrites = 2

        def _read(self, spec: Table, files: Sequence[str]) -> pl.LazyFrame:
            if self.rewrites:
                self.rewrites -= 1
                other.append(TABLE, raw([{"seq": 10, "doc_id": "more"}]))
                other.compact(TABLE, past=1)
                scrub(other, TABLE, lambda: None)
            return super()._read(spec, files)

    assert damaged_tables(Interrupted(tmp_path.as_uri())) == {}
    for file in (tmp_path / "tables" / TABLE).glob("*.parquet"):
        file.unlink()
    assert set(damaged_tables(Lake(tmp_path.as_uri()))) == {TABLE}
