"""The list of permission changes: the latest entry counts, despite crashes, concurrent processes and compaction."""

from __future__ import annotations

import stat
from datetime import timedelta
from pathlib import Path

import pytest

from resources.core.errors import RetryLaterError
from serving.identity import rights
from serving.identity.rights import Rights

AGE = timedelta(hours=24)


def test_the_latest_entry_counts_in_every_process(tmp_path: Path) -> None:
    one, other = Rights(tmp_path / "rights", AGE), Rights(tmp_path / "rights", AGE)
    assert other.current() == {}
    one.note("a", ["ann@acme.com", "bob@acme.com"])
    assert other.current() == {"a": {"ann@acme.com", "bob@acme.com"}}
    other.note("a", [])
    one.note("b", ["ann@acme.com"])
    assert one.current() == other.current() == {"a": frozenset(), "b": {"ann@acme.com"}}
    for path in (tmp_path / "rights").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_truncated_line_does_not_affect_others(tmp_path: Path) -> None:
    known = Rights(tmp_path, AGE)
    known.note("a", [])
    with (tmp_path / "uploads.jsonl").open("ab") as file:
        file.write(b'["b", 17')
    known.note("c", [])
    assert set(known.current()) == {"a", "c"}


def test_expired_entries_are_ignored(tmp_path: Path) -> None:
    Rights(tmp_path, AGE).note("a", [])
    assert Rights(tmp_path, timedelta(0)).current() == {}


def test_a_long_list_is_compacted(tmp_path: Path) -> None:
    known, long = Rights(tmp_path, AGE), [f"user{n}@acme.com" for n in range(60_000)]
    for _ in range(6):
        known.note("a", long)
    assert (tmp_path / "uploads.jsonl").stat().st_size < rights.COMPACT_BYTES
    assert set(known.current()["a"]) == set(long)


def test_a_write_failure_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "rights").touch()
    with pytest.raises(RetryLaterError, match="was not made"):
        Rights(tmp_path / "rights", AGE).note("a", [])
