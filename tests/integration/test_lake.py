"""The lake on a real disk: appends by several writers, deaths in the middle, compaction under way, and what readers see."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from resources.core.errors import AbortSyncError, LostLeaseError
from resources.core.tables import embedded_table, table
from resources.stores.lake import COMPACT_PAST, PAGE_ROWS, Lake
from resources.stores.lake_erasure import drop_rows, scrub
from tests.fixtures.lake import NOW, raw

VECTORS = embedded_table("Test/Model v1", 4)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake((tmp_path / "a lake").as_uri())


def titles(lake: Lake) -> dict[str, str]:
    return dict(lake.latest("raw_files").select("doc_id", "title").collect().iter_rows())


@pytest.mark.parametrize("name", ["raw_files", "parsed", "chunked", VECTORS])
def test_a_table_that_was_never_written_is_empty_with_its_columns(lake: Lake, name: str) -> None:
    assert lake.scan(name).collect().schema == table(name).schema
    assert lake.latest(name).collect().schema == table(name).schema
    assert lake.compact(name) is False


def test_rows_come_back_as_they_went_in(lake: Lake) -> None:
    frame = pl.DataFrame(
        [
            ("k", "1", "ok", None, b"\x00\xff", 0.5, NOW),
            ("l", "1", "failed", "broken — ünicode", None, None, NOW + timedelta(microseconds=1)),
        ],
        schema=table("parsed").schema,
        orient="row",
    )
    lake.append("parsed", frame)
    assert lake.scan("parsed").sort("content_key").collect().equals(frame)
    lake.append("raw_files", raw([{"seq": 1, "doc_id": "d", "permissions": ["a@x.org", "group:b@x.org"]}]))
    assert lake.scan("raw_files").collect()["permissions"].to_list() == [["a@x.org", "group:b@x.org"]]


def test_pages_have_every_row_of_every_file_once(lake: Lake) -> None:
    assert list(lake.pages("raw_files", "seq")) == []
    numbers = list(range(2 * PAGE_ROWS + 5))
    for part in (numbers[:10], numbers[10 : PAGE_ROWS + 20], numbers[PAGE_ROWS + 20 :]):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": "d"} for seq in part]))
    pages = list(lake.pages("raw_files", "seq", pl.col("op") == "upsert"))
    assert [page.height for page in pages] == [PAGE_ROWS, PAGE_ROWS, 5]
    assert [set(page.columns) for page in pages] == [{"seq", "op"}] * 3
    assert sorted(seq for page in pages for seq in page["seq"]) == numbers


def test_what_others_write_is_seen_by_who_has_read_the_table_before(lake: Lake, tmp_path: Path) -> None:
    other = Lake((tmp_path / "a lake").as_uri())
    lake.append("raw_files", raw([{"seq": 1, "doc_id": "one", "title": "first"}]))
    assert titles(lake) == {"one": "first"}
    for number in range(2, 5):
        other.append("raw_files", raw([{"seq": number, "doc_id": "two", "title": f"change {number}"}]))
    assert titles(lake) == {"one": "first", "two": "change 4"}
    assert other.compact("raw_files", past=1)
    assert titles(lake) == {"one": "first", "two": "change 4"}
    assert drop_rows(other, "raw_files", "doc_id", ["one"], lambda: None) == 1
    scrub(other, "raw_files", lambda: None)  # removes the log up to now
    assert titles(lake) == {"two": "change 4"}
    lake.append("raw_files", raw([{"seq": 5, "doc_id": "one", "title": "again"}]))
    assert titles(other) == titles(lake) == {"two": "change 4", "one": "again"}
    other.clear("raw_files")
    assert titles(lake) == {}


def test_rows_are_erased_in_one_pass_however_many_they_are(lake: Lake) -> None:
    for start in (0, 8000):
        rows = [{"seq": seq, "doc_id": f"{seq:05}"} for seq in range(start, start + 8000)]
        lake.append("raw_files", raw(rows))
    before = version_of(lake)
    assert drop_rows(lake, "raw_files", "doc_id", [f"{seq:05}" for seq in range(0, 16000, 2)], lambda: None) == 8000
    assert version_of(lake) - before == 2  # the property that keeps no log, and the rows
    assert lake.scan("raw_files").select(pl.col("seq") % 2).unique().collect()["seq"].to_list() == [1]
    assert drop_rows(lake, "raw_files", "seq", [1, 3], lambda: None) == 2


def version_of(lake: Lake) -> int:
    delta = lake.open("raw_files")
    assert delta is not None
    return delta.version()


def test_a_process_that_lost_its_lease_erases_nothing(lake: Lake, tmp_path: Path) -> None:
    def lost() -> None:
        raise LostLeaseError("lost")

    lake.append("raw_files", raw([{"seq": 1, "doc_id": "one"}, {"seq": 2, "doc_id": "two"}]))
    with pytest.raises(LostLeaseError):
        drop_rows(lake, "raw_files", "doc_id", ["one"], lost)
    assert lake.scan("raw_files").collect().height == 2
    unfinished = tmp_path / "a lake/tables/raw_files/written-by-another.parquet"
    unfinished.write_bytes(b"not committed yet")
    with pytest.raises(LostLeaseError):
        scrub(lake, "raw_files", lost)
    assert unfinished.exists()


def test_an_empty_frame_makes_no_file(lake: Lake) -> None:
    lake.append("raw_files", raw([]))
    assert lake.files("raw_files") == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda frame: frame.drop("title"), "title is missing"),
        (lambda frame: frame.with_columns(pl.col("seq").cast(pl.Int32)), "seq is Int32, not Int64"),
        (lambda frame: frame.with_columns(more=1), "more is not a column"),
    ],
)
def test_rows_of_another_shape_are_refused(lake: Lake, change: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        lake.append("raw_files", change(raw([{"seq": 1, "doc_id": "d"}])))
    assert lake.files("raw_files") == 0


def test_a_table_on_disk_of_another_version_says_what_to_do(lake: Lake, tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(str(tmp_path / "a lake" / "tables" / "parsed"), pl.DataFrame({"other": [1]}))
    frame = pl.DataFrame([("k", "1", "ok", None, b"", 0.5, NOW)], schema=table("parsed").schema, orient="row")
    with pytest.raises(AbortSyncError, match="Move its folder away"):
        lake.append("parsed", frame)


@pytest.mark.parametrize("name", ["", "nothing", "../x", "raw_../x", "embedded_x", "embedded_x_0"])
def test_only_tables_of_the_lake_have_names(lake: Lake, name: str) -> None:
    with pytest.raises(ValueError):
        lake.scan(name)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.sampled_from("abc"), min_size=1, max_size=8),
    data=st.data(),
)
def test_the_latest_wins_in_whatever_order_files_were_written(
    tmp_path_factory: pytest.TempPathFactory, changes: list[str], data: st.DataObject
) -> None:
    lake = Lake(tmp_path_factory.mktemp("lake").as_uri())
    rows = [{"seq": seq, "doc_id": doc, "title": f"{doc}{seq}"} for seq, doc in enumerate(changes)]
    expected = {row["doc_id"]: row["title"] for row in rows}
    left = data.draw(st.permutations(rows))
    while left:
        size = data.draw(st.integers(1, len(left)))
        lake.append("raw_files", raw(left[:size]))
        left = left[size:]
    assert titles(lake) == expected


WRITER = """
import sys
from tests.fixtures.lake import raw
from resources.stores.lake import Lake
lake, first = Lake(sys.argv[1]), int(sys.argv[2])
for seq in range(first, first + 20):
    lake.append("raw_files", raw([{"seq": seq, "doc_id": f"d{seq}", "title": str(seq)}]))
"""


def test_several_processes_append_while_another_compacts_and_nothing_is_lost(lake: Lake, tmp_path: Path) -> None:
    url = (tmp_path / "a lake").as_uri()
    running = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(first)]) for first in (0, 100)]
    compactions = 0
    while any(process.poll() is None for process in running):
        compactions += lake.compact("raw_files", past=5)
    assert [process.returncode for process in running] == [0, 0]
    assert compactions > 0
    assert sorted(lake.scan("raw_files").collect()["seq"]) == [*range(20), *range(100, 120)]


KILLED = """
import os, signal, sys
import deltalake
from tests.fixtures.lake import raw
from resources.stores.lake import Lake
real = deltalake.write_deltalake
def dying(location, data, **options):
    # the commit is the last thing written: take away the place where it would go, so that only the file is written
    log = os.path.join(location.table_uri.removeprefix("file://").replace("%20", " "), "_delta_log")
    os.rename(log, log + ".away")
    open(log, "w").close()
    try:
        real(location, data, **options)
    finally:
        os.remove(log)
        os.rename(log + ".away", log)
        os.kill(os.getpid(), signal.SIGKILL)
deltalake.write_deltalake = dying
Lake(sys.argv[1]).append("raw_files", raw([{"seq": 2, "doc_id": "d", "title": "lost"}]))
"""


def test_death_between_file_and_commit_leaves_a_file_that_is_never_read(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "a lake" / "tables" / "raw_files"
    lake.append("raw_files", raw([{"seq": 1, "doc_id": "d", "title": "kept"}]))
    killed = subprocess.run([sys.executable, "-c", KILLED, (tmp_path / "a lake").as_uri()], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(folder.glob("*.parquet"))) == 2, "the file was written, its commit was not"
    assert titles(lake) == {"d": "kept"}
    lake.append("raw_files", raw([{"seq": 2, "doc_id": "d", "title": "again"}]))
    assert titles(lake) == {"d": "again"}


BUSY = """
import itertools, sys
from tests.fixtures.lake import raw
from resources.stores.lake import Lake
lake = Lake(sys.argv[1])
for seq in itertools.count():
    lake.append("raw_files", raw([{"seq": seq, "doc_id": f"{seq}-{n}", "title": "x" * 1000} for n in range(50)]))
    print(seq, flush=True)
"""


def test_kill_in_the_middle_of_appends_keeps_every_acknowledged_one_whole(lake: Lake, tmp_path: Path) -> None:
    for delay in (1, 2):
        command = [sys.executable, "-c", BUSY, (tmp_path / "a lake").as_uri()]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            acknowledged = [int(process.stdout.readline()) for _ in range(delay * 3)]
            process.kill()
        counts = lake.scan("raw_files").group_by("seq").len().collect()
        assert set(acknowledged) <= set(counts["seq"])
        assert all(count % 50 == 0 for count in counts["len"])


def test_compaction_merges_files_keeps_rows_and_lets_readers_finish(lake: Lake) -> None:
    for seq in range(COMPACT_PAST + 1):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": f"d{seq % 7}", "title": str(seq)}]))
    before, open_reader = titles(lake), lake.scan("raw_files")
    assert lake.compact("raw_files") is True
    assert lake.files("raw_files") == 1
    assert lake.compact("raw_files") is False
    assert titles(lake) == before
    assert open_reader.collect().height == COMPACT_PAST + 1


def test_compaction_clears_old_leftovers_and_spares_what_readers_may_hold(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "a lake" / "tables" / "raw_files"
    for seq in range(COMPACT_PAST + 1):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": "d"}]))
    orphan = folder / "part-00000-orphan.parquet"
    orphan.write_bytes(b"half a file")
    old = (NOW - timedelta(days=30)).timestamp()
    os.utime(orphan, (old, old))
    lake.compact("raw_files")
    assert not orphan.exists()
    assert len(list(folder.glob("*.parquet"))) == COMPACT_PAST + 2


def test_vectors_come_back_exactly_in_the_order_asked(lake: Lake) -> None:
    hashes = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(500)]
    matrix = np.random.default_rng(0).standard_normal((500, 4)).astype(np.float32)
    lake.append_vectors(VECTORS, "m", hashes[:300], matrix[:300], [1] * 300, NOW)
    lake.append_vectors(VECTORS, "m", hashes[200:400], matrix[200:400], [2] * 200, NOW)
    asked = [hashes[399], hashes[450], hashes[0], hashes[250], hashes[0]]
    found, rows = lake.vectors(VECTORS, asked)
    assert found.tolist() == [True, False, True, True, True]
    np.testing.assert_array_equal(rows, [matrix[399], [0] * 4, matrix[0], matrix[250], matrix[0]])
    assert lake.vectors(VECTORS, [])[1].shape == (0, 4)
    assert lake.scan(VECTORS).collect().schema == table(VECTORS).schema


def test_tables_without_vectors_give_none(lake: Lake) -> None:
    with pytest.raises(ValueError, match="no vectors"):
        lake.vectors("parsed", ["x"])
