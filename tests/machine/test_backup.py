"""`concordance backup` and `concordance restore`: a running installation, its HOME lost, and the same answers afterwards."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from dagster import DagsterRun
from dagster._core.storage.runs import RunStorage
from psycopg.conninfo import conninfo_to_dict

from assets import pipeline
from assets.reindex import WORK as REINDEX
from assets.upkeep.erase import erase
from orchestration import backup
from orchestration.cli import run
from orchestration.client import Client
from orchestration.diagnosis import preflight
from orchestration.supervision.services import services
from orchestration.supervision.storage import Storage
from orchestration.supervision.supervisor import Supervisor
from resources import keys
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError, ConfigurationError
from resources.schema import prepare
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.processes import free_port
from resources.settings import Settings, load
from resources.stores import leases
from resources.stores.postgres import session
from resources.syncs.syncing import open_sync
from serving.identity.tokens import mint
from tests.fixtures.dagster_runs import dagster_storage_url
from tests.fixtures.mounts import Mount
from tests.fixtures.postgres import copy_cluster, make_home
from tests.fixtures.waiting import until

ADA = "ada@acme.example"
ZEBRAS = "# Zebras\n\nZebras of the Serengeti carry stripes that confuse the tsetse fly at dawn.\n"
OTTERS = b"# Otters\n\nOtters of the wobbegong river sleep until noon and eat crayfish before dusk.\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """A short folder that the account of Postgres may pass through."""
    made = make_home()
    yield made
    shutil.rmtree(made)


@pytest.fixture
def settings(place: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an embedded set with one root, which commands of this process read as well."""
    (place / "docs").mkdir()
    (place / "docs/zebras.md").write_text(ZEBRAS)
    root = {
        "name": "docs", "url": (place / "docs").as_uri(), "tenant": "acme", "dataset": "docs",
        "permissions": ["domain:acme.example"], "owner": ADA,
    }  # fmt: skip
    values = {"HOME": str(place / "home"), "FILE_ROOTS": json.dumps([root]), "SYNC_MINUTES": "60"}
    values |= {f"{name}_PORT": str(free_port()) for name in ("HTTP", "DAGSTER", "QDRANT", "POSTGRES")}
    for name, value in values.items():
        monkeypatch.setenv(f"CONCORDANCE_{name}", value)
    monkeypatch.chdir(place)
    return load()


def rows(settings: Settings, query: str) -> list[dict[str, Any]]:
    with session(settings.postgres_dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def found(settings: Settings, query: str) -> list[tuple[str, str]]:
    """Return what Ada finds: documents, and the passage that is shown of each."""
    with Client(settings, ADA) as client:
        answer = client.search(query, 5)
    return [(hit["doc_id"], hit["snippet"]) for hit in answer["results"]]


SERVICES = {"postgres", "qdrant", "serving"}
"""Those with data of their own, and the one that searches it. Dagster's processes keep theirs in Postgres."""


@contextmanager
def running(settings: Settings) -> Iterator[None]:
    keys.ensure(settings)
    stages = [[service for service in stage if service.whole in SERVICES] for stage in services(settings)]
    supervisor = Supervisor(settings, [stage for stage in stages if stage])
    supervisor.start()
    try:
        yield
    finally:
        supervisor.stop()


def sync(settings: Settings, *sources: SourceName) -> None:
    for source in sources:
        with open_sync(settings, source, requested_by="test") as job:
            pipeline.sync(job)
        assert job.error is None


@contextmanager
def dagster_runs(settings: Settings) -> Iterator[RunStorage[Any]]:
    """Yield Dagster's storage of runs, with its tables."""
    storage = Storage.from_config_value(None, {"postgres_url": dagster_storage_url(settings.postgres_dsn)}).run_storage
    try:
        yield storage
    finally:
        storage.dispose()


def test_a_lost_home_is_restored_and_finds_as_before(settings: Settings, place: Path) -> None:
    copy = place / "backup"
    with running(settings):
        headers = {"Authorization": f"Bearer {mint(settings, ADA, [])}"}
        upload = httpx.post(
            f"{settings.base_url}/api/upload", headers=headers, files={"file": ("otters.md", OTTERS)}, timeout=60
        )
        assert upload.status_code < 300, upload.text
        sync(settings, SourceName.FILES, SourceName.UPLOAD)
        with dagster_runs(settings) as runs:
            run_id = runs.add_run(DagsterRun(job_name="sync_files")).run_id
        questions = ("When do otters sleep?", "What confuses the tsetse fly?")
        before = [found(settings, question) for question in questions]
        assert all(before), before
        assert run(["backup", str(copy)]) == 0
        used = rows(settings, "SELECT texts, tokens FROM embedding_usage")
        assert used
    files = [copy, *copy.rglob("*")]
    assert {path.stat().st_mode & 0o777 for path in files if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in files if path.is_file()} == {0o600}
    shutil.rmtree(settings.home)

    assert run(["restore", str(copy)]) == 0
    with running(settings):
        assert httpx.get(f"{settings.base_url}/api/sources", headers=headers, timeout=60).status_code == 200, "keys"
        assert run(["reconcile", "--apply"]) == 0
        assert [found(settings, question) for question in questions] == before
        assert rows(settings, "SELECT texts, tokens FROM embedding_usage") == used, "nothing is embedded again"
        with dagster_runs(settings) as runs:
            assert [kept.run_id for kept in runs.get_runs()] == [run_id]


@pytest.fixture
def stopped(settings: Settings, cluster: Path) -> Settings:
    """An installation that has run and does not run now, with a row to recognise it by."""
    settings.home.mkdir(mode=0o711)
    copy_cluster(cluster, settings.home)
    server = EmbeddedPostgres(settings, {"fsync": "off"})
    server.start()
    prepare(settings.postgres_dsn)
    with session(settings.postgres_dsn) as connection:
        connection.execute("CREATE TABLE mark AS SELECT 7 AS number")
    server.stop()
    return settings


def marked(settings: Settings) -> bool:
    server = EmbeddedPostgres(settings, {"fsync": "off"})
    server.start()
    try:
        return rows(settings, "SELECT number FROM mark") == [{"number": 7}]
    finally:
        server.stop()


def test_a_stopped_installation_is_backed_up_and_keys_kept_apart_are_used(stopped: Settings, place: Path) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    shutil.rmtree(stopped.home)
    apart = (place / "backup/keys.json").rename(place / "keys.json")
    assert run(["restore", str(place / "backup")]) == 2, "no keys"
    assert not stopped.passfile.parent.exists()
    stopped.home.mkdir(mode=0o711, exist_ok=True)
    shutil.copy(apart, keys.path(stopped))
    assert run(["restore", str(place / "backup")]) == 0
    assert marked(stopped)
    assert keys.path(stopped).read_bytes() == apart.read_bytes()


def test_neither_command_overwrites_anything(
    stopped: Settings, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    capsys.readouterr()
    assert run(["backup", str(place / "backup")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert run(["restore", str(place / "backup")]) == 2
    assert "already contains data" in capsys.readouterr().err
    assert marked(stopped)


def test_a_restore_that_fails_leaves_home_as_it_was(
    stopped: Settings, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    shutil.rmtree(stopped.home)
    whole = (place / "backup/postgres.dump").read_bytes()
    (place / "backup/postgres.dump").write_bytes(whole[: len(whole) // 2])
    assert run(["restore", str(place / "backup")]) == 1
    assert "pg_restore failed" in capsys.readouterr().err
    (place / "backup/postgres.dump").write_bytes(whole)
    assert run(["restore", str(place / "backup")]) == 0
    assert marked(stopped)


def test_a_restore_that_leaves_postgres_no_room_to_start_fails(
    stopped: Settings, place: Path, mount: Mount, capsys: pytest.CaptureFixture[str]
) -> None:
    """Postgres needs a file of 16 MiB for its log."""
    assert run(["backup", str(place / "backup")]) == 0
    shutil.rmtree(stopped.home)
    mount(stopped.home, megabytes=400)
    stopped.home.chmod(0o711)
    assert run(["restore", str(place / "backup")]) == 0
    free = shutil.disk_usage(stopped.home).free
    for one in stopped.home.iterdir():
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    filler = stopped.home / "logs" / "filler"
    filler.parent.mkdir()
    filler.write_bytes(bytes(free - 12 * 2**20))

    capsys.readouterr()
    assert run(["restore", str(place / "backup")]) == 1
    assert ", logs) is full: " in capsys.readouterr().err
    filler.unlink()
    assert run(["restore", str(place / "backup")]) == 0
    assert marked(stopped)


def test_a_home_whose_restore_was_killed_is_not_started(
    stopped: Settings, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It would start as a new installation beside a whole lake, as after a reboot in the middle of a restore."""
    assert run(["backup", str(place / "backup")]) == 0
    shutil.rmtree(stopped.home)
    killed = subprocess.Popen([sys.executable, "-m", "orchestration.cli", "restore", str(place / "backup")])
    until(lambda: (stopped.home / "lake").exists() or killed.poll() is not None, "the restore has begun")
    killed.kill()
    assert killed.wait() == -signal.SIGKILL
    capsys.readouterr()
    for command in (["up", "--detach"], ["restore", str(place / "backup")]):
        assert run(command) > 0
        assert "was killed before it was complete" in capsys.readouterr().err
    shutil.rmtree(stopped.home)
    assert run(["restore", str(place / "backup")]) == 0
    assert marked(stopped)
    assert not preflight.check(stopped)


def test_an_unfinished_backup_is_refused(stopped: Settings, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    (place / "backup/backup.json").unlink()
    shutil.rmtree(stopped.home)
    assert run(["restore", str(place / "backup")]) == 2
    assert "not a complete backup" in capsys.readouterr().err


def test_an_interrupted_backup_leaves_nothing_and_a_killed_one_is_named(
    stopped: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = place / "backup"

    def interrupted(_settings: Settings, file: Path) -> None:
        file.write_bytes(b"half")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backup, "dump", interrupted)
        assert run(["backup", str(copy)]) == 130
        assert not copy.exists()
        copy.mkdir()
        assert run(["backup", str(copy)]) == 130
        assert list(copy.iterdir()) == []
    assert run(["backup", str(copy)]) == 0
    (copy / backup.MANIFEST).unlink()  # as a kill would leave it
    capsys.readouterr()
    assert run(["backup", str(copy)]) == 2
    assert "killed before it was complete" in capsys.readouterr().err


def test_a_damaged_lake_is_not_backed_up_in_silence(
    stopped: Settings, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = stopped.home / "lake/tables/parsed/_delta_log/00000000000000000000.json"
    log.parent.mkdir(parents=True)
    log.write_text("{")
    assert run(["backup", str(place / "backup")]) == 1
    assert "The lake is damaged, and so is its copy: table parsed" in capsys.readouterr().err
    shutil.rmtree(stopped.home)
    assert run(["restore", str(place / "backup")]) == 0, "the rest can be had"


def wrote(folder: Path) -> dict[Path, int]:
    """Return the inode of each file of a backup's lake."""
    return {path.relative_to(folder): path.stat().st_ino for path in (folder / "lake").rglob("*") if path.is_file()}


def test_syncs_go_on_during_a_backup_and_the_next_copies_what_changed(
    settings: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    question = "What confuses the tsetse fly?"
    with running(settings):
        sync(settings, SourceName.FILES)
        assert run(["backup", str(place / "first")]) == 0
        copied, dumped = backup.dump, []

        def dump(of: Settings, file: Path) -> None:
            copied(of, file)
            dumped.append(file)
            (place / "docs/otters.md").write_bytes(OTTERS)
            sync(settings, SourceName.FILES)
            with monkeypatch.context() as patch:
                patch.setattr(leases, "WAIT_SECONDS", 0)
                with pytest.raises(BusyError, match="backup"):
                    erase(settings, after=timedelta())

        monkeypatch.setattr(backup, "dump", dump)
        capsys.readouterr()
        assert run(["backup", str(place / "second"), "--since", str(place / "first")]) == 0
        assert len(dumped) == 1
        assert " MB are shared with " in capsys.readouterr().out
        expected = [found(settings, question), found(settings, "When do otters sleep?")]
        assert all(expected)
    first, second = wrote(place / "first"), wrote(place / "second")
    shared = {name for name, inode in second.items() if first.get(name) == inode}
    assert {name for name in first if "_delta_log" not in name.parts} <= shared
    fresh = set(second) - shared
    assert any(name.suffix == ".parquet" for name in fresh)
    assert sum("blobs" in name.parts for name in fresh) == 1, "the new file"

    shutil.rmtree(settings.home)
    shutil.rmtree(place / "first")
    assert run(["restore", str(place / "second")]) == 0
    with running(settings):
        sync(settings, SourceName.FILES)
        assert run(["reconcile", "--apply"]) == 0
        assert [found(settings, question), found(settings, "When do otters sleep?")] == expected


def test_what_is_synced_while_the_lake_is_copied_is_no_fault_of_the_copy(
    settings: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(settings):
        sync(settings, SourceName.FILES)
        copied = backup.lake_copy.copy_folder

        def copy(source: Path, target: Path, earlier: Path | None = None) -> Any:
            done = copied(source, target, earlier)
            if source.name == backup.LAKE:
                (place / "docs/otters.md").write_bytes(OTTERS)
                sync(settings, SourceName.FILES)
            return done

        monkeypatch.setattr(backup.lake_copy, "copy_folder", copy)
        assert run(["backup", str(place / "backup")]) == 0
        assert found(settings, "When do otters sleep?")
    assert "damaged" not in capsys.readouterr().err


def test_a_backup_that_was_paused_during_an_erasure_is_not_complete(
    settings: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(settings):
        sync(settings, SourceName.FILES)
        (place / "docs/zebras.md").unlink()
        (place / "docs/otters.md").write_bytes(OTTERS)
        sync(settings, SourceName.FILES)
        dumped = backup.dump

        def paused(of: Settings, file: Path) -> None:
            dumped(of, file)
            with session(of.postgres_dsn) as connection:
                connection.execute("DELETE FROM partition_leases")  # as if it had lapsed
            assert erase(settings, after=timedelta()).contents == 1

        monkeypatch.setattr(backup, "dump", paused)
        assert run(["backup", str(place / "backup")]) == 1
    assert "this one was paused" in capsys.readouterr().err
    assert not (place / "backup" / backup.MANIFEST).exists()


def test_a_backup_says_what_it_waits_for(
    settings: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(leases, "TOLD_SECONDS", 0.0)
    with running(settings):
        busy = leases.claim(settings.postgres_dsn, leases.INSTALLATION, [REINDEX])
        assert busy is not None
        told: list[str] = []

        def note(text: str) -> None:
            told.append(text)
            if len(told) == 3:
                busy.release()

        monkeypatch.setattr("orchestration.cli.backing_up.note", note)
        assert run(["backup", str(place / "backup")]) == 0
    waited = [one for one in told if "waits up to an hour for `concordance reindex`, `erase` or another backup" in one]
    assert len(waited) >= 3


def test_a_postgres_of_ones_own_is_backed_up(stopped: Settings, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = EmbeddedPostgres(stopped, {"fsync": "off"})
    server.start()
    try:
        monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", stopped.postgres_dsn)
        own = load()
        assert not own.embedded_postgres
        keys.ensure(own)
        assert run(["backup", str(place / "backup")]) == 0
        with session(own.postgres_dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE restored")
        parts = conninfo_to_dict(stopped.postgres_dsn) | {"dbname": "restored"}
        url = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/restored?passfile={parts['passfile']}"
        monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", url)
        monkeypatch.setenv("CONCORDANCE_HOME", str(place / "other"))
        assert run(["restore", str(place / "backup")]) == 0
        assert rows(load(), "SELECT number FROM mark") == [{"number": 7}]
        assert run(["restore", str(place / "backup")]) == 2
    finally:
        server.stop()


def test_a_restore_that_fails_once_a_database_of_ones_own_is_loaded_is_not_started(
    stopped: Settings, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    server = EmbeddedPostgres(stopped, {"fsync": "off"})
    server.start()
    try:
        with session(stopped.postgres_dsn, autocommit=True) as connection:
            connection.execute("CREATE DATABASE half")
        parts = conninfo_to_dict(stopped.postgres_dsn) | {"dbname": "half"}
        url = f"postgresql://{parts['user']}@{parts['host']}:{parts['port']}/half?passfile={parts['passfile']}"
        monkeypatch.setenv("CONCORDANCE_POSTGRES_URL", url)
        monkeypatch.setenv("CONCORDANCE_HOME", str(place / "other"))

        def interrupted(_: Settings) -> None:
            raise ConcordanceError("Interrupted.")

        monkeypatch.setattr("orchestration.restore._distrust_index", interrupted)
        assert run(["restore", str(place / "backup")]) == 1
        assert rows(load(), "SELECT number FROM mark") == [{"number": 7}]
        with pytest.raises(ConfigurationError, match="a restore was killed before it was complete"):
            preflight.check(load())
        assert run(["restore", str(place / "backup")]) == 2
    finally:
        server.stop()


def test_files_of_others_in_the_folder_of_the_lake_are_left_alone(
    stopped: Settings, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["backup", str(place / "backup")]) == 0
    other = place / "data" / "logs" / "other.txt"
    other.parent.mkdir(parents=True)
    other.write_text("of another program")
    monkeypatch.setenv("CONCORDANCE_LAKE_URL", (place / "data").as_uri())
    monkeypatch.setenv("CONCORDANCE_HOME", str(place / "new"))
    assert run(["restore", str(place / "backup")]) == 2
    assert str(other) in capsys.readouterr().err
    assert other.exists()
