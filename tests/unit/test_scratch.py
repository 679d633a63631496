"""Tables on disk: what does not fit is told with the folder that is full. Temporary folders of killed processes are removed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest
from obstore.store import MemoryStore

from resources.core.errors import AbortSyncError
from resources.core.scratch import scratch_database, scratch_folder, told_when_full
from resources.sources import bucket_listing
from resources.sources.buckets import Bucket
from resources.stores import lake_sql

if TYPE_CHECKING:
    from collections.abc import Generator

FULL = r"temporary files is full \(database or disk is full\).*TMPDIR"


@contextmanager
def small() -> Generator[Any]:
    with scratch_database() as database:
        database.execute("PRAGMA max_page_count = 4")
        yield database


def test_a_full_folder_is_named() -> None:
    with small() as database:
        database.execute("CREATE TABLE texts (text)")
        with pytest.raises(AbortSyncError, match=FULL), told_when_full():
            database.executemany("INSERT INTO texts VALUES (?)", [["x" * 100]] * 1000)


def test_a_comparison_that_does_not_fit_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    import duckdb

    connect = duckdb.connect

    def connect_to_small(config: dict[str, Any]) -> Any:
        connection = connect(config=config)
        connection.execute("SET max_temp_directory_size = '1MB'")
        return connection

    def compare() -> None:
        with lake_sql.scratch_tables({"texts": {"text": pl.String}}) as tables:
            for _ in range(20):
                tables.add("texts", pl.DataFrame({"text": list(islice(texts, 50_000))}))

    monkeypatch.setattr(duckdb, "connect", connect_to_small)
    monkeypatch.setattr(lake_sql, "MEMORY", "16MB")
    texts = (hashlib.sha256(b"%d" % number).hexdigest() for number in count())
    with pytest.raises(AbortSyncError, match=r"temporary files is full \(Out of Memory.*TMPDIR"):
        compare()


def test_a_listing_that_does_not_fit_is_no_listing(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    for number in range(500):
        store.put(f"{number:0100}.txt", b"text")
    monkeypatch.setattr(bucket_listing, "scratch_database", small)
    with pytest.raises(AbortSyncError, match=FULL):
        list(Bucket(store, name="b", max_bytes=1000).walk())


def test_the_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    work = "from resources.core.scratch import scratch_folder\nimport sys\nwith scratch_folder() as made:\n"
    work += "    (made / 'keys.json').touch(); print(made, flush=True); sys.stdin.read()"
    processes = [subprocess.Popen([sys.executable, "-c", work], stdin=-1, stdout=-1, text=True) for _ in range(2)]
    killed, living = (Path(one.stdout.readline().strip()) for one in processes if one.stdout)
    processes[0].kill()
    processes[0].communicate()
    for folder in (killed, living):
        os.utime(folder, (0, 0))
    with scratch_folder() as own:
        assert {one.name for one in tmp_path.iterdir()} == {living.name, own.name}
    processes[1].communicate()
    assert list(tmp_path.iterdir()) == []


def test_several_make_folders_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that looked for folders of killed processes locked those that others had just made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def make(_: int) -> bool:
        with scratch_folder() as folder:
            return folder.is_dir()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(make, range(400)))
