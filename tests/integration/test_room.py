"""Syncs stop before a disk is full, say so, and continue once there is room."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from orchestration.cli import run
from resources.core.errors import AbortSyncError, CapacityError
from resources.settings import Settings
from resources.stores import qdrant
from resources.stores.room import MOST_BYTES, SHARE, check_room, rooms
from tests.fixtures.installation import Installation
from tests.fixtures.mounts import Mount
from tests.fixtures.upkeep import as_environment

ALL = 2**62
"""More than any disk has."""


def reserving(installation: Installation, amount: int | None) -> None:
    installation.settings = installation.settings.model_copy(update={"disk_reserve_bytes": amount})


def last_error(installation: Installation) -> str:
    (job,) = installation.rows("SELECT error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    return job["error_message"] or ""


def test_the_reserve_follows_from_the_disk(installation: Installation) -> None:
    total = shutil.disk_usage(installation.settings.home).total
    (found,) = [one for one in rooms(installation.settings) if "lake" in one.stores]
    assert (found.total, found.reserve) == (total, min(total // SHARE, MOST_BYTES))
    assert not found.is_used_up


def test_the_limit_is_the_free_space_and_not_a_byte_less(installation: Installation) -> None:
    free = min(one.free for one in rooms(installation.settings))
    reserving(installation, free // 2)
    check_room(installation.settings)
    reserving(installation, free * 2)
    with pytest.raises(CapacityError, match="CONCORDANCE_LIMITS__DISK_RESERVE_BYTES"):
        check_room(installation.settings)


def test_a_disk_that_is_full_has_less_room_than_syncs_leave(tmp_path: Path, mount: Mount) -> None:
    """Also if others filled it, so that a sync has never seen it between the two."""
    mount(tmp_path / "home", megabytes=8)
    settings = Settings(_env_file=None, home=tmp_path / "home", disk_reserve_bytes=64 * 1024**2)  # type: ignore[call-arg]
    with pytest.raises(CapacityError, match=r"is full: .* free\. Free some space"):
        check_room(settings)
    check_room(settings.model_copy(update={"disk_reserve_bytes": 0}))


def test_a_sync_stops_before_it_writes_and_continues_with_room(installation: Installation) -> None:
    installation.write("first.txt", "The otter sleeps until noon.\n")
    installation.sync()
    installation.write("second.txt", "The heron waits.\n")
    reserving(installation, ALL)
    with pytest.raises(AbortSyncError, match="Nothing was lost"):
        installation.sync()
    assert "syncs leave" in last_error(installation)
    assert len(installation.points()) == 1
    reserving(installation, None)
    installation.sync()
    assert len(installation.points()) == 2
    assert installation.agrees()


def test_deletions_need_no_room(installation: Installation) -> None:
    for name in ("kept", "gone"):
        installation.write(f"{name}.txt", f"The {name} otter sleeps until noon.\n")
    installation.sync()
    (installation.root / "gone.txt").unlink()
    reserving(installation, ALL)
    installation.sync()
    assert [point["source_id"] for point in installation.points()] == ["docs/kept.txt"]


def test_an_index_that_is_lost_is_not_filled_without_room(installation: Installation) -> None:
    installation.write("first.txt", "The otter sleeps until noon.\n")
    installation.sync()
    client = qdrant.client(installation.settings)
    client.delete_collection(qdrant.current_collection(client) or "")
    client.close()
    reserving(installation, ALL)
    with pytest.raises(AbortSyncError, match="syncs leave"):
        installation.sync(full=True)
    reserving(installation, None)
    installation.sync()
    assert installation.agrees()


def test_the_operator_is_told(
    installation: Installation, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installation.write("first.txt", "The otter sleeps until noon.\n")
    installation.sync()
    for amount, wanted in ((0, False), (ALL, True)):
        as_environment(installation, monkeypatch)
        monkeypatch.setenv("CONCORDANCE_LIMITS__DISK_RESERVE_BYTES", str(amount))
        run(["status", "--json"])
        said = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert any("syncs leave" in one for one in said["disks"]) is wanted


def test_databases_and_lakes_elsewhere_are_not_looked_at() -> None:
    settings = Settings(  # type: ignore[call-arg]
        _env_file=None, postgres_url="postgresql://db/x", qdrant_url="http://qdrant:6333", lake_url="s3://bucket/lake"
    )
    assert [one for one in rooms(settings) if {"lake", "Postgres", "vector index"} & set(one.stores)] == []
    with pytest.raises(ValueError, match="greater than or equal"):
        Settings(_env_file=None, disk_reserve_bytes=-1)  # type: ignore[call-arg]
