"""Look-ups by key find what a scan of the whole table finds, and read the files that may hold the key."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import numpy as np
import polars as pl
import pytest

from resources.core.tables import table
from resources.stores.keyed import KeyedTables
from resources.stores.lake import Lake
from resources.stores.lake_erasure import drop_rows
from resources.stores.postgres import Connection, connect
from sql.upkeep import Restored
from tests.fixtures.installation import Installation
from tests.fixtures.lake import NOW

VECTORS = "embedded_m_4"


@pytest.fixture
def connection(database: str) -> Iterator[Connection]:
    with connect(database, autocommit=True) as found:
        yield found


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake((tmp_path / "lake").as_uri())


def parsed(keys: list[str], moment: int = 0) -> pl.DataFrame:
    """Return parsed rows of these keys, written one microsecond apart."""
    at = NOW + timedelta(hours=moment)
    rows = [(key, "1", "ok", None, b"", 0.1, at + timedelta(microseconds=number)) for number, key in enumerate(keys)]
    return pl.DataFrame(rows, schema=table("parsed").schema, orient="row")


def found(tables: KeyedTables, *keys: str) -> list[str]:
    return sorted(tables.rows("parsed", keys).collect()["content_key"])


def files(lake: Lake) -> list[Path]:
    delta = lake.open("parsed")
    assert delta is not None
    return sorted(
        (Path(uri.removeprefix("file://")) for uri in delta.file_uris()), key=lambda one: one.stat().st_mtime_ns
    )


def test_look_ups_read_only_files_with_rows_of_the_keys_times(connection: Connection, lake: Lake) -> None:
    tables = KeyedTables(connection, lake)
    assert found(tables, "a") == []
    tables.append("parsed", parsed(["a", "b"]))
    tables.append("parsed", parsed(["c", "d"], 1))
    tables.append("parsed", parsed(["a", "e"], 2))
    assert found(tables, "a", "d", "x") == ["a", "a", "d"]
    first, second, _ = files(lake)
    second.unlink()
    assert found(tables, "a", "b", "e", "x") == ["a", "a", "b", "e"]
    first.unlink()
    assert found(tables, "e", "x") == ["e"]
    assert tables.present("parsed", pl.Series(["x", "y"])).to_list() == []


def test_rows_of_one_file_are_told_apart_by_microseconds(connection: Connection, lake: Lake) -> None:
    tables = KeyedTables(connection, lake)
    keys = [f"k{number}" for number in range(3000)]
    tables.append("parsed", parsed(keys))
    assert [found(tables, key) for key in keys[::500]] == [[key] for key in keys[::500]]


def test_vectors_are_found_after_compaction(connection: Connection, lake: Lake) -> None:
    tables = KeyedTables(connection, lake)
    for number in range(5):
        matrix = np.full((3, 4), number, dtype=np.float32)
        hashes = [f"h{number}{each}" for each in range(3)]
        tables.append_vectors(VECTORS, "m", hashes, matrix, [1] * 3, NOW + timedelta(seconds=number))
    assert lake.compact(VECTORS, past=1)
    there, matrix = tables.vectors(VECTORS, ["h41", "none", "h02"])
    assert there.tolist() == [True, False, True]
    assert matrix[:, 0].tolist() == [4.0, 0.0, 0.0]
    tables.clear(VECTORS)
    assert not tables.vectors(VECTORS, ["h41"])[0].any()


@pytest.mark.parametrize("compacted", [False, True])
def test_a_table_of_an_earlier_version_is_scanned_until_its_keys_are_listed(
    connection: Connection, lake: Lake, *, compacted: bool
) -> None:
    for moment in (4, 1, 3, 2, 0):
        lake.append("parsed", parsed([f"old{moment}", "again"], moment))
    if compacted:
        lake.compact("parsed", past=1)
    tables = KeyedTables(connection, lake)
    tables.append("parsed", parsed(["new", "old1"], 5))
    assert found(tables, "old1", "new", "x") == ["new", "old1", "old1"]

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tables.complete("parsed", die)
    assert found(tables, "old1", "old4", "new") == ["new", "old1", "old1", "old4"]
    KeyedTables(connection, lake).complete("parsed")
    fresh = KeyedTables(connection, lake)
    assert found(fresh, "old1", "again", "new", "x") == [*["again"] * 5, "new", "old1", "old1"]
    count = connection.execute("SELECT count(*) AS number FROM lake_keys").fetchone()
    assert count is not None
    assert count["number"] == 12
    for file in files(lake):
        file.unlink()
    assert found(fresh, "x") == []


def test_a_key_whose_row_was_never_written_is_missing(connection: Connection, lake: Lake) -> None:
    tables = KeyedTables(connection, lake)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    tables.append("parsed", parsed(["a"]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lake, "append", fail)
        with pytest.raises(KeyboardInterrupt):
            tables.append("parsed", parsed(["b"], 1))
    assert found(tables, "a", "b") == ["a"]
    tables.append("parsed", parsed(["b"], 2))
    assert found(tables, "a", "b") == ["a", "b"]


@pytest.mark.parametrize("seed", range(4))
def test_any_history_is_found_as_by_a_scan(connection: Connection, lake: Lake, seed: int) -> None:
    random = Random(seed)
    keys = [f"k{number}" for number in range(30)]
    tables, other = KeyedTables(connection, lake), KeyedTables(connection, Lake(lake_url(lake)))
    for moment in range(40):
        chosen = random.sample(keys, random.randint(1, 5))
        match random.randrange(6):
            case 0:
                lake.compact("parsed", past=1)
            case 1:
                tables.forget("parsed", chosen)
                drop_rows(lake, "parsed", "content_key", chosen, lambda: None)
            case _:
                random.choice((tables, other)).append("parsed", parsed(chosen, random.choice((moment, 0))))
        wanted = random.sample(keys, 6)
        expected = lake.scan("parsed").filter(pl.col("content_key").is_in(wanted)).collect()
        assert found(tables, *wanted) == found(other, *wanted) == sorted(expected["content_key"])


def lake_url(lake: Lake) -> str:
    return str(lake._url)  # pyright: ignore[reportPrivateUsage] (as another process opens it)


def test_a_sync_lists_keys_of_a_lake_that_an_earlier_version_wrote(installation: Installation) -> None:
    installation.write("a.md", "# One\n\nThe heron stands in shallow water.\n")
    installation.sync()
    before = installation.rows("SELECT key::text, at FROM lake_keys ORDER BY key, at")
    assert before
    with connect(installation.settings.postgres_dsn, autocommit=True) as plain:
        plain.execute("TRUNCATE lake_keys, lake_tables")
    installation.write("b.md", "# Two\n\nThe bittern hides in the reeds.\n")
    installation.sync()
    assert installation.last["embedded"]["embedded"] == installation.last["embedded"]["chunks"] == 1
    listed = installation.rows("SELECT key::text, at FROM lake_keys ORDER BY key, at")
    assert [row for row in before if row in listed] == before
    assert {row["complete"] for row in installation.rows("SELECT complete FROM lake_tables")} == {True}


def test_a_sync_after_a_restore_reads_no_whole_tables(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.write("a.md", "# One\n\nThe heron stands in shallow water.\n")
    installation.sync()
    with connect(installation.settings.postgres_dsn) as plain:
        Restored(plain).doubt_lake()
    scan, whole = Lake.scan, list[str]()

    def spy(self: Lake, name: str, times: list[datetime] | None = None) -> pl.LazyFrame:
        if times is None and name in {"parsed", "chunked"}:
            whole.append(name)
        return scan(self, name, times)

    monkeypatch.setattr(Lake, "scan", spy)
    installation.write("b.md", "# Two\n\nThe bittern hides in the reeds.\n")
    installation.sync()
    assert installation.last["embedded"]["embedded"] == 1
    assert whole == []


@pytest.mark.parametrize("building", [False, True])
def test_a_damaged_table_of_another_model_fails_no_sync(installation: Installation, *, building: bool) -> None:
    installation.write("a.md", "# One\n\nThe heron stands in shallow water.\n")
    installation.sync()
    abandoned = Lake(installation.settings.lake_address)
    abandoned.append_vectors(VECTORS, "m", ["h"], np.ones((1, 4), dtype=np.float32), [1], NOW)
    delta = abandoned.open(VECTORS)
    assert delta is not None
    for uri in delta.file_uris():
        Path(uri.removeprefix("file://")).unlink()
    if building:
        installation.rows(
            "INSERT INTO index_collections (name, model, dimensions, chunking_version, bm25_avg_len, building)"
            " VALUES ('other', 'm', 4, '1', 1, TRUE) RETURNING 1"
        )
    installation.write("b.md", "# Two\n\nThe bittern hides in the reeds.\n")
    job = installation.sync()
    assert (job.error, job.counts.embedded) == (None, 1)
