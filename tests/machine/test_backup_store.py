"""`concordance backup s3://…` and `concordance restore s3://…`: what a folder holds, in an object store, and each file of a lake once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from obstore.store import ObjectStore

from orchestration import backup, backup_store
from orchestration.cli import run
from resources.core.domain import SourceName
from resources.core.errors import ServiceUnavailableError
from resources.settings import Settings
from resources.stores.blobs import Blobs
from tests.fixtures.s3 import BUCKET, S3Server
from tests.machine.test_backup import OTTERS, found, marked, place, running, settings, stopped, sync

__all__ = ["place", "settings", "stopped"]

ADDRESS = f"s3://{BUCKET}/copies"
QUESTIONS = ("What confuses the tsetse fly?", "When do otters sleep?")


def backups(store: S3Server) -> list[str]:
    """Return the names of the backups in the bucket, the oldest first."""
    names = {key.split("/")[1] for key in store.objects}
    return sorted(names - {"lake"})


def lake(store: S3Server) -> set[str]:
    return {key for key in store.objects if key.startswith("copies/lake/")}


def at_the_next_second(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Name the next backup as if it were made later, without waiting."""
    monkeypatch.setattr("orchestration.backup_store.TIME", f"20300101T00000{number}Z")


def test_a_lost_home_is_restored_from_the_newest_backup_and_from_an_earlier_one(
    settings: Settings,
    place: Path,
    store: S3Server,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with running(settings):
        sync(settings, SourceName.FILES)
        assert run(["backup", ADDRESS]) == 0
        first, sent = lake(store), dict(store.objects)
        copied = backup.dump

        def dump(of: Settings, file: Path) -> None:
            copied(of, file)
            (place / "docs/otters.md").write_bytes(OTTERS)
            sync(settings, SourceName.FILES)

        monkeypatch.setattr(backup, "dump", dump)
        at_the_next_second(monkeypatch, 2)
        capsys.readouterr()
        uncommitted = settings.home / "lake/tables/parsed/half-written.parquet"
        uncommitted.write_bytes(b"PAR1")
        assert run(["backup", ADDRESS]) == 0
        assert " MB are shared with the backups before" in capsys.readouterr().out
        expected = [found(settings, question) for question in QUESTIONS]
        assert all(expected)
    assert all(store.objects[key] is data for key, data in sent.items()), "nothing is sent twice or changed"
    fresh = lake(store) - first
    assert sum("/blobs/" in key for key in fresh) == 1
    assert any(key.endswith(".parquet") for key in fresh)
    assert not any("half-written" in key for key in store.objects)

    shutil.rmtree(settings.home)
    assert run(["restore", ADDRESS]) == 0
    with running(settings):
        sync(settings, SourceName.FILES)
        assert run(["reconcile", "--apply"]) == 0
        assert [found(settings, question) for question in QUESTIONS] == expected

    monkeypatch.setenv("CONCORDANCE_HOME", str(place / "earlier"))
    assert run(["restore", f"{ADDRESS}/{backups(store)[0]}"]) == 0
    blobs = [file for file in (place / "earlier/lake/blobs").rglob("*") if file.is_file()]
    assert len(blobs) == sum("/blobs/" in key for key in first) == 1


def test_a_backup_that_was_killed_is_not_taken_for_a_complete_one(
    stopped: Settings, store: S3Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", ADDRESS]) == 0
    assert list(store.objects)[-1].endswith("/backup.json"), "it is written last"
    at_the_next_second(monkeypatch, 2)
    assert run(["backup", ADDRESS]) == 0
    whole, killed = backups(store)
    for name in ("backup.json", "postgres.dump"):
        del store.objects[f"copies/{killed}/{name}"]
    shutil.rmtree(stopped.home)
    assert run(["restore", f"{ADDRESS}/{killed}"]) == 2
    assert f"no complete backup at {ADDRESS}/{killed}" in capsys.readouterr().err
    assert not stopped.home.exists()
    assert run(["restore", ADDRESS]) == 0
    assert marked(stopped)
    del store.objects[f"copies/{whole}/backup.json"]
    assert run(["restore", ADDRESS]) == 2


def test_a_backup_that_fails_leaves_no_keys_in_the_bucket(
    stopped: Settings, store: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = backup_store.put_file

    def put(to: ObjectStore, path: str, file: Path) -> None:
        if path.endswith("postgres.dump"):
            assert any(key.endswith("keys.json") for key in store.objects)
            raise ServiceUnavailableError("The store is full.")
        send(to, path, file)

    monkeypatch.setattr(backup_store, "put_file", put)
    assert run(["backup", ADDRESS]) == 1
    assert backups(store) == []


def test_a_backup_that_lacks_a_file_of_its_lake_is_not_restored(
    stopped: Settings, store: S3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    blob = Blobs(stopped.lake_address).put(iter([OTTERS]))
    assert run(["backup", ADDRESS]) == 0
    (key,) = [key for key in store.objects if key.endswith(blob.content_hash)]
    data = store.objects.pop(key)
    shutil.rmtree(stopped.home)
    assert run(["restore", ADDRESS]) == 1
    assert "The backup is damaged: 0 of " in capsys.readouterr().err
    assert not (stopped.home / "keys.json").exists()
    store.objects[key] = data
    assert run(["restore", ADDRESS]) == 0
    assert Blobs(stopped.lake_address).read(blob.content_hash) == OTTERS


def test_a_backup_in_a_bucket_moves_a_lake_to_another_bucket(
    stopped: Settings, store: S3Server, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blob = Blobs(stopped.lake_address).put(iter([OTTERS]))
    assert run(["backup", ADDRESS]) == 0
    monkeypatch.setenv("CONCORDANCE_HOME", str(place / "moved"))
    monkeypatch.setenv("CONCORDANCE_LAKE_URL", f"s3://{BUCKET}/moved")
    assert run(["restore", ADDRESS]) == 0
    assert Blobs(f"s3://{BUCKET}/moved").read(blob.content_hash) == OTTERS


def test_addresses_that_cannot_be_used_say_so(
    stopped: Settings, store: S3Server, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command, said in (
        (["backup", "ftp://host/copies"], "ftp://host/copies is not an address in an object store"),
        (["backup", "file:///copies"], "or the path of a folder"),
        (["backup", ADDRESS, "--since", str(place)], "--since is for folders"),
        (["restore", ADDRESS], "no complete backup"),
    ):
        assert run(command) == 2, command
        assert said in capsys.readouterr().err
    store.down = True
    assert run(["backup", ADDRESS]) == 1
    assert "The object store of the backup is not responding" in capsys.readouterr().err
    assert store.objects == {}
