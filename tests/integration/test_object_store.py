"""Lake and blobs over S3's protocol: credentials and address from the environment, conflicts, large blobs, a store that is down."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from orchestration.cli import explain
from resources.core.errors import AbortSyncError, FailedDocumentError, ServiceUnavailableError
from resources.settings import load
from resources.stores.blobs import Blobs
from resources.stores.damage import damaged_tables, explained
from resources.stores.lake import Lake
from resources.stores.lake_copy import MOST_LARGE, upload
from tests.fixtures.lake import NOW, raw
from tests.fixtures.s3 import BUCKET, S3Server

URL = f"s3://{BUCKET}/some/prefix"


COMPACT = """
import sys
from resources.stores.lake import Lake
raise SystemExit(not Lake(sys.argv[1]).compact("raw_files", past=int(sys.argv[2])))
"""


def compact(_: Lake, __: str, past: int) -> None:
    """Compact in another process: deltalake changes properties without releasing the interpreter, in which this store answers."""
    subprocess.run([sys.executable, "-c", COMPACT, URL, str(past)], check=True, timeout=60)


def test_blobs_live_below_the_prefix(store: S3Server) -> None:
    blobs = Blobs(URL)
    digest = blobs.put([b"ab", b"c"]).content_hash
    assert store.objects == {f"some/prefix/blobs/{digest[:2]}/{digest[2:4]}/{digest}": b"abc"}
    assert blobs.put([b"abc"]).content_hash == digest
    assert (blobs.exists(digest), blobs.read(digest), blobs.local_path(digest)) == (True, b"abc", None)
    blobs.delete(digest)
    blobs.delete(digest)
    assert not blobs.exists(digest)
    with pytest.raises(FailedDocumentError):
        blobs.read(digest)


def test_a_large_blob_goes_up_in_parts_one_at_a_time(store: S3Server) -> None:
    """A part has to arrive within thirty seconds: all at once, they would not on a slow line, however often they are sent again."""
    data = os.urandom(32 * 1024 * 1024)
    blob = Blobs(URL).put([data])
    assert store.multipart == 1
    assert (len(store.arriving), max(store.arriving)) == (7, 1)
    assert Blobs(URL).read(blob.content_hash) == data


def test_of_a_lake_few_large_files_go_up_at_a_time(store: S3Server, tmp_path: Path) -> None:
    for number in range(24):
        (tmp_path / str(number)).write_bytes(bytes(3 * 1024 * 1024))
    store.most = MOST_LARGE
    assert upload(tmp_path, URL) == len(store.arriving) == 24
    assert max(store.arriving) <= MOST_LARGE


def test_the_lake_appends_reads_and_compacts(store: S3Server) -> None:
    lake = Lake(URL)
    assert lake.scan("raw_files").collect().is_empty()
    for seq in range(6):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": f"d{seq % 3}", "title": str(seq)}]))
    before = sorted(lake.latest("raw_files").select("doc_id", "title").collect().rows())
    assert before == [("d0", "3"), ("d1", "4"), ("d2", "5")]
    assert [sorted(page["seq"]) for page in lake.pages("raw_files", "seq")] == [list(range(6))]
    compact(lake, "raw_files", 5)
    assert lake.files("raw_files") == 1
    assert sorted(lake.latest("raw_files").select("doc_id", "title").collect().rows()) == before
    assert all(key.startswith("some/prefix/tables/") for key in store.objects)


def test_vectors_survive_the_way(store: S3Server) -> None:
    matrix = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    hashes = [f"{number:064x}" for number in range(50)]
    Lake(URL).append_vectors("embedded_m_8", "m", hashes, matrix, [1] * 50, NOW)
    found, rows = Lake(URL).vectors("embedded_m_8", hashes[::-1])
    assert found.all()
    np.testing.assert_array_equal(rows, matrix[::-1])


def test_writers_that_meet_lose_nothing(store: S3Server) -> None:
    def write(first: int) -> None:
        for seq in range(first, first + 5):
            Lake(URL).append("raw_files", raw([{"seq": seq, "doc_id": str(seq)}]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, (0, 10, 20, 30)))
    expected = [first + step for first in (0, 10, 20, 30) for step in range(5)]
    assert sorted(Lake(URL).scan("raw_files").collect()["seq"]) == expected


def test_a_store_that_would_lose_rows_is_refused(store: S3Server) -> None:
    store.conditional = False
    for _ in range(2):
        with pytest.raises(AbortSyncError, match="conditional writes"):
            Lake(URL).append("raw_files", raw([{"seq": 1, "doc_id": "d"}]))
    assert Lake(URL).names() == []
    store.conditional = True
    Lake(URL).append("raw_files", raw([{"seq": 1, "doc_id": "d"}]))
    assert Lake(URL).names() == ["raw_files"]


@pytest.mark.parametrize("use", [Lake.append, Lake.scan, compact], ids=["append", "scan", "compact"])
def test_a_log_that_is_tidied_while_it_is_read_is_no_damage(store: S3Server, use: Callable[..., object]) -> None:
    """After a checkpoint, delta-rs removes old log entries; another client may have listed them and not read them yet."""
    lake = Lake(URL)
    for seq in range(5):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": str(seq)}]))

    def tidy() -> None:
        table = Lake(URL).open("raw_files")
        assert table is not None
        table.create_checkpoint()
        table.cleanup_metadata()  # to the store, everything is from long ago
        assert not any(key.endswith("/00000000000000000003.json") for key in store.objects)

    store.after_listing = tidy
    more = {Lake.append: raw([{"seq": 5, "doc_id": "5"}]), compact: 1}.get(use)
    use(lake, "raw_files", *([] if more is None else [more]))
    assert store.after_listing is None
    assert set(lake.scan("raw_files").collect()["seq"]) >= set(range(5))


def test_a_log_entry_that_is_gone_for_good_is_damage(store: S3Server) -> None:
    for seq in range(3):
        Lake(URL).append("raw_files", raw([{"seq": seq, "doc_id": str(seq)}]))
    del store.objects["some/prefix/tables/raw_files/_delta_log/00000000000000000001.json"]
    with pytest.raises(AbortSyncError, match="raw_files of the lake is damaged"):
        Lake(URL).append("raw_files", raw([{"seq": 3, "doc_id": "3"}]))


def test_a_store_that_refuses_is_reported(store: S3Server) -> None:
    store.down = True
    with pytest.raises(ServiceUnavailableError, match="CONCORDANCE_LAKE_URL"):
        Blobs(URL).put([b"x"])
    with pytest.raises(ServiceUnavailableError, match="CONCORDANCE_LAKE_URL"):
        Lake(URL).append("raw_files", raw([{"seq": 1, "doc_id": "d"}]))


@pytest.mark.parametrize("refused", [".checkpoint.parquet", ".zstd.parquet"], ids=["log", "rows"])
def test_a_store_that_refuses_in_the_middle_is_no_damage(
    store: S3Server, tmp_path: Path, refused: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever believed that a table is damaged would move it away, or restore the lake over what is whole."""
    lake = Lake(URL)
    lake.append("raw_files", raw([{"seq": 1, "doc_id": "a"}]))
    table = lake.open("raw_files")
    assert table is not None
    table.create_checkpoint()
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path))
    monkeypatch.setenv("CONCORDANCE_LAKE_URL", URL)
    store.refused = refused
    with pytest.raises((ServiceUnavailableError, OSError)) as met:
        Lake(URL).scan("raw_files").collect()
    found = explained(met.value, load())
    assert isinstance(found, ServiceUnavailableError)
    assert "CONCORDANCE_LAKE_URL" in str(found)
    assert explain(met.value) == 1
    assert "CONCORDANCE_LAKE_URL" in capsys.readouterr().err
    with pytest.raises(ServiceUnavailableError, match="CONCORDANCE_LAKE_URL"):
        damaged_tables(Lake(URL))
    store.refused = None
    assert damaged_tables(Lake(URL)) == {}
