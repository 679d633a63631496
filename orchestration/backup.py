"""Backups of the embedded set: a dump of Postgres, a copy of the lake, the audit events not yet in Postgres, and the keys.

Enter: settings and a folder. Leave: a folder that only its owner may read, complete once it holds `backup.json`, and a HOME
made from it. The vector index is left out: syncs write it again from the lake, without parsing or embedding. Syncs, erasure
and `reindex` wait while the copy is made, so that the lake holds all that the dump refers to; searches and uploads go on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from assets.upkeep.erase import alone
from assets.upkeep.integrity import expected_tables, lost_contents
from orchestration.supervision import run_state
from resources import keys
from resources.core.errors import ConfigurationError, InvalidRequestError, NotRunningError
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.postgres.dump import dump, load_dump
from resources.settings import Settings
from resources.stores.blobs import Blobs
from resources.stores.damage import damaged_tables
from resources.stores.lake import Lake
from resources.stores.postgres import session

MANIFEST = "backup.json"
DUMP = "postgres.dump"
LAKE = "lake"
SPOOLS = ("audit", "rights")
"""Folders of HOME that hold what serving wrote to the disk before Postgres had it."""
REBUILT = frozenset({"dagster", "eval", "logs", "models", "run"})
"""Folders of HOME in whose place nothing is lost: a restore may find them."""
OWN_SERVERS = "See docs/operations.md, Back up and restore, for servers of your own."


class Manifest(msgspec.Struct, kw_only=True):
    """What a backup holds."""

    made_at: datetime
    version: str
    lake: bool
    """False when the lake is in an object store, which keeps copies of its own."""


def back_up(settings: Settings, folder: Path, version: str) -> tuple[Manifest, list[str]]:
    """Make a backup in `folder`, which must be empty or missing. Starts Postgres for the time of it when nothing runs.

    Returns what it holds, and what of the lake cannot be read or is missing in the copy. Raises `ConcordanceError`, and then
    leaves no manifest.
    """
    faults: list[str] = []
    _check_embedded(settings)
    if not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run on {settings.home}: there is nothing to back up.")
    if folder.exists() and any(folder.iterdir()):
        raise InvalidRequestError(f"{folder} is not empty: name a folder that is empty or does not exist.")
    with _private(), _postgres(settings), alone(settings):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name in SPOOLS:  # before the dump: what leaves a spool meanwhile is in the dump
            _copy(settings.home / name, folder / name)
        dump(settings, folder / DUMP)
        if (lake := _local_lake(settings)) is not None:
            _copy(lake, folder / LAKE)
            faults = _lake_faults(settings, folder / LAKE)
        shutil.copyfile(keys.path(settings), folder / keys.path(settings).name)
        made = Manifest(made_at=datetime.now(UTC), version=version, lake=lake is not None)
        os.sync()
        (folder / MANIFEST).write_bytes(msgspec.json.encode(made) + b"\n")
    return made, faults


def restore(settings: Settings, folder: Path) -> Manifest:
    """Make HOME from a backup. `keys.json` comes from the backup, or is in HOME already.

    Raises `ConcordanceError`, and `InvalidRequestError` when HOME holds data: nothing is ever overwritten.
    """
    _check_embedded(settings)
    manifest = _manifest(folder)
    kept, own = folder / "keys.json", keys.path(settings)
    if not kept.exists() and not own.exists():
        raise InvalidRequestError(
            f"The backup has no keys.json: put your copy of it in {settings.home} first (mode 0600), then restore."
        )
    _check_empty(settings, kept, own)
    lake = _local_lake(settings)
    if manifest.lake is not (lake is not None):
        where = "holds a lake" if manifest.lake else "holds no lake: it was in an object store"
        raise ConfigurationError(f"The backup {where}. Set CONCORDANCE_LAKE_URL as it was when the backup was made.")
    brought = not own.exists()
    with _private():
        try:
            keys.make_home(settings)
            if brought:
                shutil.copyfile(kept, own)
            with _postgres(settings):
                load_dump(settings, folder / DUMP)
            if lake is not None:
                _copy(folder / LAKE, lake)
            for name in SPOOLS:
                _copy(folder / name, settings.home / name)
        except BaseException:
            _take_back(settings, lake, own if brought else None)
            raise
    return manifest


@contextmanager
def _private() -> Generator[None]:
    """Make files for the block that only their owner may read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _postgres(settings: Settings) -> Generator[None]:
    """Have Postgres run for the block: the one that runs, or one of our own while no `up` can begin."""
    server = EmbeddedPostgres(settings)
    if run_state.supervisor(settings) is not None or (settings.passfile.exists() and server.ready()):
        yield
        return
    with run_state.lock(settings):
        try:
            server.start()
            yield
        finally:
            server.stop()


def _check_embedded(settings: Settings) -> None:
    if not settings.embedded_postgres:
        raise ConfigurationError(
            f"CONCORDANCE_POSTGRES_URL names a server of your own, which this command leaves to its own tools. {OWN_SERVERS}"
        )


def _local_lake(settings: Settings) -> Path | None:
    """Return the lake's folder; None when it is in an object store."""
    parts = urlsplit(settings.lake_address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _lake_faults(settings: Settings, copy: Path) -> list[str]:
    """Return why the copied lake could not rebuild everything that the registry lists."""
    with session(settings.postgres_dsn) as connection:
        lost = lost_contents(connection, Blobs(copy.as_uri()))
        expected = expected_tables(connection)
    tables = damaged_tables(Lake(copy.as_uri()), expected)
    return [f"table {name}: {reason}" for name, reason in sorted(tables.items())] + [
        f"{content.source_id}: {content.reason}" for content in lost
    ]


def _manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidRequestError(
            f"{folder} is no complete backup: it has no {MANIFEST}, which `concordance backup` writes last."
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(f"{folder / MANIFEST} cannot be read: {error}") from error


def _check_empty(settings: Settings, kept: Path, own: Path) -> None:
    """Raise `InvalidRequestError` when a restore would overwrite or mix data."""
    held = [
        file
        for place in (settings.home, _local_lake(settings))
        if place is not None and place.exists()
        for entry in sorted(place.iterdir())
        if entry.name not in REBUILT
        for file in ([entry] if entry.is_file() else entry.rglob("*"))
        if file.is_file() and (file != own or (kept.exists() and kept.read_bytes() != own.read_bytes()))
    ]
    if held:
        raise InvalidRequestError(
            f"{settings.home} holds data already ({held[0]}). Restore into an empty folder: move the old one away, "
            "or set CONCORDANCE_HOME to a new one."
        )


def _copy(source: Path, target: Path) -> None:
    """Copy a folder's files; one that is missing is empty. Of a Delta table the log comes first, so that it lists no later file."""
    files = [file for file in source.rglob("*") if file.is_file() and ".incoming" not in file.parts]
    for file in sorted(files, key=lambda file: ("_delta_log" not in file.parts, file)):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(file, place)
        except FileNotFoundError:
            continue  # a spool that reached Postgres, or a file that a compaction replaced; `_lake_faults` looks


def _take_back(settings: Settings, lake: Path | None, own: Path | None) -> None:
    """Remove what an unfinished restore has made, so that the next attempt finds HOME empty."""
    for place in (settings.passfile.parent, lake, *(settings.home / name for name in SPOOLS)):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
    if own is not None:
        own.unlink(missing_ok=True)
