"""Damaged stores are reported by `doctor`, by the error of a sync, by reconciliation and by HTTP problems."""

from __future__ import annotations

import errno
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import deltalake
import polars as pl
import pytest

from assets import pipeline
from assets.upkeep.integrity import expected, expected_tables, lost_contents
from assets.upkeep.reconcile import reconcile
from orchestration.diagnosis import store_checks
from orchestration.maintenance import maintain
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError
from resources.stores import qdrant
from resources.stores.blobs import Blobs
from resources.stores.damage import damaged_tables, explained
from resources.stores.lake import Lake
from resources.stores.postgres import session
from resources.syncs.syncing import open_sync
from tests.fixtures.desk import ADA, Desk
from tests.fixtures.installation import Installation


@pytest.fixture
def filled(installation: Installation) -> Installation:
    installation.write("otter.txt", "The otter of the river sleeps until noon.\n")
    installation.sync()
    return installation


VECTORS = "embedded_sentence_transformers_all_minilm_l6_v2_384"


def tables(installation: Installation) -> Path:
    return installation.settings.home / "lake" / "tables"


def damaged(installation: Installation) -> dict[str, str]:
    with session(installation.settings.postgres_dsn) as connection:
        return damaged_tables(Lake(installation.settings.lake_address), expected_tables(connection))


def lost(installation: Installation) -> list[tuple[str, str]]:
    found = lost_contents(expected(installation.settings), Blobs(installation.settings.lake_address))
    return [(one.source_id, one.reason) for one in found]


def test_a_truncated_log_is_named_with_its_reason(filled: Installation) -> None:
    assert damaged(filled) == {}
    log = max((tables(filled) / "raw_files" / "_delta_log").glob("*.json"))
    log.write_bytes(log.read_bytes()[:40])
    assert "damaged" in damaged(filled)["raw_files"]
    filled.write("new.txt", "The heron waits.\n")
    with pytest.raises(AbortSyncError, match="table raw_files of the lake is damaged"):
        filled.sync()
    (job,) = filled.rows("SELECT error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert "table raw_files of the lake is damaged" in job["error_message"]


def test_no_transaction_is_open_while_doctor_looks_for_contents(
    filled: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an object store that takes a request for each; meanwhile, no table could be changed or cleaned up."""
    idle: list[int] = []

    def size(*_: object) -> None:
        (row,) = filled.rows(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
        )
        idle.append(row["n"])

    monkeypatch.setattr(Blobs, "size", size)
    found = list(store_checks.contents(filled.settings))
    assert idle == [0]
    assert [one.detail for one in found if not one.ok] == ["docs/otter.txt: its bytes are missing"]


def test_a_damaged_table_keeps_the_weekly_upkeep_from_nothing_else(filled: Installation) -> None:
    """It would let other tables and indexes that were replaced grow until somebody repairs it."""
    for number in range(2):
        filled.write("otter.txt", f"Otter {number} of the river sleeps until noon.\n")
        filled.sync()
    filled.rows(
        "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, active, replaced_at)"
        " VALUES ('old', 'm', 3, 'c', 1, FALSE, now() - interval '15 days') RETURNING 1"
    )
    parsed = max((tables(filled) / "parsed" / "_delta_log").glob("*.json"))
    parsed.write_bytes(parsed.read_bytes()[:40])
    lake = Lake(filled.settings.lake_address)
    assert lake.fragmented("chunked", 1)
    with pytest.raises(AbortSyncError, match="table parsed of the lake is damaged"):
        maintain(filled.settings)
    assert not lake.fragmented("chunked", 1)
    assert filled.rows("SELECT 1 FROM index_collections WHERE name = 'old'") == []


@pytest.mark.parametrize("name", ["raw_files", "parsed", "chunked", VECTORS])
def test_a_missing_table_is_named(filled: Installation, name: str) -> None:
    shutil.rmtree(tables(filled) / name)
    assert damaged(filled) == {name: "the table is missing"}


def lose_index(installation: Installation) -> None:
    client = qdrant.client(installation.settings)
    client.delete_collection(qdrant.current_collection(client) or "")
    client.close()


def last_error(installation: Installation) -> str:
    (job,) = installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    assert job["status"] == "failed"
    return str(job["error_message"])


@pytest.mark.parametrize("name", ["parsed", "chunked", VECTORS])
def test_a_sync_makes_a_missing_table_again_if_it_needs_it(filled: Installation, name: str) -> None:
    shutil.rmtree(tables(filled) / name)
    lose_index(filled)
    filled.sync()
    assert filled.agrees()
    assert damaged(filled) == {}


@pytest.mark.parametrize("name", ["parsed", "chunked", VECTORS])
def test_a_backfill_of_one_stage_that_needs_a_missing_table_names_it(filled: Installation, name: str) -> None:
    shutil.rmtree(tables(filled) / name)
    with (
        pytest.raises(AbortSyncError, match=f"table {name} of the lake is missing"),
        open_sync(filled.settings, SourceName.FILES, requested_by="test") as job,
    ):
        job.run("indexed", lambda: pipeline.indexed(job, everything=True))


def unlink(file: Path) -> None:
    file.unlink()


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-40])


def overwrite(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(data[:4] + b"\xff" * (len(data) // 3) + data[4 + len(data) // 3 :])


def drop_column(file: Path) -> None:
    table = deltalake.DeltaTable(str(file.parent))
    rows = pl.read_parquet(file)
    deltalake.write_deltalake(table, rows.drop(rows.columns[1]).to_arrow(), mode="overwrite", schema_mode="overwrite")


@pytest.mark.parametrize("name", ["raw_files", "parsed", VECTORS])
@pytest.mark.parametrize("damage", [unlink, cut, overwrite, drop_column])
def test_a_sync_that_meets_a_damaged_table_names_it_and_what_to_do(
    filled: Installation, name: str, damage: Callable[[Path], None]
) -> None:
    damage(next((tables(filled) / name).glob("*.parquet")))
    filled.write("new.txt", "The heron waits.\n")
    with pytest.raises(AbortSyncError, match=f"The table {name} "):
        filled.sync(full=True, compare=True)  # the comparison is what reads all changes
    error = last_error(filled)
    assert name in error
    assert "folder" in error
    shutil.rmtree(tables(filled) / name)  # what the message says
    if name == "raw_files":
        assert reconcile(filled.settings, SourceName.FILES, apply=True).clean()
    else:
        filled.sync(full=True)
        assert filled.agrees()
    assert damaged(filled) == {}


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("DROP TABLE chunks CASCADE", 'relation "chunks"'),
        ("ALTER TABLE documents DROP COLUMN attempts CASCADE", 'column "attempts"'),
    ],
)
def test_a_table_or_column_that_the_database_lacks_is_named(filled: Installation, change: str, named: str) -> None:
    with session(filled.settings.postgres_dsn) as connection:
        connection.execute(change.encode())
    filled.write("new.txt", "The heron waits.\n")
    with pytest.raises(AbortSyncError, match=named):
        filled.sync()
    assert named in last_error(filled)
    assert "backup" in last_error(filled)


def forget(installation: Installation) -> None:
    """Make the next sync rebuild everything from the stored bytes."""
    for name in ("parsed", "chunked"):
        shutil.rmtree(tables(installation) / name)
    with session(installation.settings.postgres_dsn) as connection:
        connection.execute("UPDATE index_entries SET content = ''")


@pytest.mark.parametrize("remote", [False, True])
@pytest.mark.parametrize("damage", ["missing", "cut short", "changed"])
def test_bytes_that_are_lost_or_damaged_are_named_and_never_indexed(
    filled: Installation, damage: str, remote: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if remote:  # an object store has no path of a file, so its bytes are read here and not by the worker
        monkeypatch.setattr(Blobs, "local_path", lambda *_: None)
    (blob,) = (filled.settings.home / "lake" / "blobs").glob("??/??/*")
    whole = blob.read_bytes()
    forget(filled)
    for _ in range(4):  # more often than an unparseable file is tried
        if damage == "missing":
            blob.unlink(missing_ok=True)
        else:
            blob.write_bytes(whole[:10] if damage == "cut short" else b"X" * len(whole))
        filled.sync()
        (document,) = filled.rows("SELECT state, reason FROM documents")
        assert document["state"] == "failed"
        assert f"blob {blob.name[:12]}… " in document["reason"].replace(")", " ")
        assert "concordance reconcile --deep --apply" in document["reason"]
        assert not any("XXX" in point["chunk_text"] for point in filled.points())
    reconcile(filled.settings, SourceName.FILES, apply=True, deep=True)
    assert blob.read_bytes() == whole
    assert filled.rows("SELECT state, reason FROM documents") == [{"state": "live", "reason": None}]


def test_a_missing_file_of_a_table_is_named(filled: Installation) -> None:
    next((tables(filled) / "parsed").glob("*.parquet")).unlink()
    assert set(damaged(filled)) == {"parsed"}


def test_contents_that_are_missing_or_cut_short_are_named(filled: Installation) -> None:
    assert lost(filled) == []
    (blob,) = (filled.settings.home / "lake" / "blobs").glob("??/??/*")
    blob.write_bytes(blob.read_bytes()[:10])
    assert lost(filled) == [("docs/otter.txt", "10 of 42 bytes are stored")]
    blob.unlink()
    assert lost(filled) == [("docs/otter.txt", "its bytes are missing")]


def test_a_deep_reconciliation_finds_and_repairs_changed_bytes(filled: Installation) -> None:
    (blob,) = (filled.settings.home / "lake" / "blobs").glob("??/??/*")
    whole = blob.read_bytes()
    blob.write_bytes(b"X" * len(whole))
    assert reconcile(filled.settings, SourceName.FILES, apply=False).missing.lake == 0
    found = reconcile(filled.settings, SourceName.FILES, apply=False, deep=True)
    assert (found.missing.lake, found.examples["missing.lake"]) == (1, ["docs/otter.txt"])
    assert reconcile(filled.settings, SourceName.FILES, apply=True, deep=True).clean()
    assert blob.read_bytes() == whole


@pytest.fixture
def full(desk: Desk) -> Iterator[Desk]:
    """A desk whose blobs are on a disk of 256 kB."""
    folder = desk.installation.settings.home / "lake" / "blobs" / ".incoming"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a disk of its own needs the right to mount one")
    yield desk
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_lake_of_another_account_is_named(filled: Installation) -> None:
    home = filled.settings.home
    denied = PermissionError(errno.EACCES, "Permission denied", str(home / "lake/blobs/d7/d3"))
    said = str(explained(denied, filled.settings))
    assert said.startswith(f"{home}/lake/blobs/d7/d3 is closed to this process")
    assert said.endswith(f"chown -R --reference={home} {home}")
    denied.filename = str(filled.root / "Layoffs 2027.docx")
    assert explained(denied, filled.settings) is None


def test_a_full_disk_is_said(full: Desk) -> None:
    answer = full.running.request("POST", "/api/upload", ADA, files={"file": ("a.txt", b"words " * 200_000)})
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full")
    assert full.installation.rows("SELECT 1 FROM uploads") == []


@pytest.mark.parametrize(("seconds", "what"), [(-700, "behind"), (700, "ahead of")])
def test_a_clock_that_differs_from_that_of_postgres_is_named(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, seconds: int, what: str
) -> None:
    assert all(one.ok for one in store_checks.postgres(installation.settings, running=True))
    monkeypatch.setattr(store_checks, "time", SimpleNamespace(time=lambda: round(time.time()) + seconds))
    (fault,) = [one for one in store_checks.postgres(installation.settings, running=True) if not one.ok]
    assert re.fullmatch(rf"this machine's clock is (69|70)\d s {what} that of Postgres", fault.detail)
