"""Stores that are damaged say so: in doctor's terms, in the reason of a sync, in what reconciliation finds, and in the problem."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assets.integrity import damaged_tables, lost_contents
from assets.reconcile import reconcile
from resources.blobs import Blobs
from resources.domain import SourceName
from resources.errors import AbortSyncError
from resources.lake import Lake
from resources.postgres import session
from tests.fixtures.desk import ADA, Desk
from tests.fixtures.installation import Installation


@pytest.fixture
def filled(installation: Installation) -> Installation:
    installation.write("otter.txt", "The otter of the river sleeps until noon.\n")
    installation.sync()
    return installation


def tables(installation: Installation) -> Path:
    return installation.settings.home / "lake" / "tables"


def damaged(installation: Installation) -> dict[str, str]:
    return damaged_tables(Lake(installation.settings.lake_address), indexed=True)


def lost(installation: Installation) -> list[tuple[str, str]]:
    with session(installation.settings.postgres_dsn) as connection:
        found = lost_contents(connection, Blobs(installation.settings.lake_address))
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


@pytest.mark.parametrize("name", ["parsed", "chunked"])
def test_a_missing_table_is_named(filled: Installation, name: str) -> None:
    shutil.rmtree(tables(filled) / name)
    assert damaged(filled) == {name: "the table is missing"}


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


def test_a_deep_reconciliation_finds_and_mends_changed_bytes(filled: Installation) -> None:
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
    """A desk whose blobs lie on a disk of 256 kB."""
    folder = desk.installation.settings.home / "lake" / "blobs" / ".incoming"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a disk of its own needs the right to mount one")
    yield desk
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_said(full: Desk) -> None:
    answer = full.running.request("POST", "/api/upload", ADA, files={"file": ("a.txt", b"words " * 200_000)})
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full")
    assert full.installation.rows("SELECT 1 FROM uploads") == []
