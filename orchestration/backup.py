"""Back up and restore: a Postgres dump, the lake, audit events that are not in Postgres yet, and the keys.

A backup is a folder that only its owner may read; it is complete once it contains `backup.json`. The vector index is left out,
because syncs rebuild it from the lake without parsing or embedding.

Searches, uploads and syncs go on meanwhile: the dump comes first, and what it refers to was in the lake before. What syncs add to the
lake after the dump is what a sync that died leaves behind: the next one after a restore does it again. Only erasure and `reindex`
remove what the dump refers to; they wait.
"""

import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from assets.reindex import WORK as REINDEX
from assets.upkeep.integrity import expected_tables, lost_contents
from orchestration.supervision import run_state
from resources import keys
from resources.core.errors import ConfigurationError, InvalidRequestError, NotRunningError, ServiceUnavailableError
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.postgres.dump import dump, load_dump
from resources.settings import Settings
from resources.stores import lake_copy, leases
from resources.stores.blobs import Blobs
from resources.stores.damage import damaged_tables
from resources.stores.lake import Lake
from resources.stores.postgres import session
from sql.commands import Commands

MANIFEST = "backup.json"
DUMP = "postgres.dump"
LAKE = "lake"
SPOOLS = ("audit",)
"""Folders of HOME with events that serving has not written to Postgres yet."""
REBUILT = frozenset({"dagster", "eval", "logs", "models", "run"})
"""Folders of HOME without data of their own, which may exist before a restore."""
LOOK_SECONDS = 0.4
REFUSAL = (
    "`concordance reindex`, `concordance erase` or another backup is running. Run the command again once it has ended."
)
COPIES = 3
"""Attempts to copy a table's log: meanwhile a checkpoint may replace entries that are older than a week."""


class Manifest(msgspec.Struct, kw_only=True):
    made_at: datetime
    version: str
    lake: bool
    """False if the lake is in an object store, which has backups of its own."""
    copied: int = 0
    """Bytes of the lake that were copied."""
    shared: int = 0
    """Bytes of the lake that this backup shares with the one before."""


class Copied(NamedTuple):
    """Bytes that a copy wrote, and those that it shares with an earlier one."""

    new: int = 0
    shared: int = 0


def back_up(
    settings: Settings,
    folder: Path,
    version: str,
    *,
    since: Path | None = None,
    lasts: Callable[[], bool] = lambda: False,
) -> tuple[Manifest, list[str]]:
    """Write a backup to `folder`, which must be empty or missing. An embedded Postgres is started for this if it is not running.

    Files of the lake that the backup `since` has, too, are shared with it where the file system can: they never change.
    `lasts` returns True while it makes sense to wait for a Postgres that is being restarted.
    Returns the manifest and the faults of the copied lake. Raises `ConcordanceError`, and then leaves no manifest.
    """
    faults: list[str] = []
    copied = Copied()
    if since is not None:
        _manifest(since)
    if settings.embedded_postgres and not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run in {settings.home}, so there is nothing to back up.")
    if folder.exists() and any(folder.iterdir()):
        raise InvalidRequestError(f"{folder} is not empty. Give a folder that is empty or does not exist.")
    with _private(), _postgres(settings), _nothing_removed(settings, lasts):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name in SPOOLS:  # before the dump, which then contains the events that leave a spool meanwhile
            _copy(settings.home / name, folder / name)
        dump(settings, folder / DUMP)
        if (lake := _local_lake(settings)) is not None:
            copied = _copy(lake, folder / LAKE, None if since is None else since / LAKE)
            faults = _lake_faults(settings, folder / LAKE)
        shutil.copyfile(keys.path(settings), folder / keys.path(settings).name)
        made = Manifest(
            made_at=datetime.now(UTC), version=version, lake=lake is not None, copied=copied.new, shared=copied.shared
        )
        os.sync()
        (folder / MANIFEST).write_bytes(msgspec.json.encode(made) + b"\n")
    return made, faults


@contextmanager
def _nothing_removed(settings: Settings, lasts: Callable[[], bool]) -> Generator[None]:
    """Keep erasure and `reindex` from starting for the block. A restart of Postgres before it costs nothing but time."""
    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(leases.alone(settings.postgres_dsn, REINDEX, REFUSAL))
                break
            except ServiceUnavailableError:
                if not lasts():
                    raise
                time.sleep(LOOK_SECONDS)
        yield


def restore(settings: Settings, folder: Path) -> Manifest:
    """Restore HOME from a backup. `keys.json` is taken from the backup, or from HOME if the backup has none.

    A lake of this machine is copied to the object store if the settings name one, whose address must be empty.
    Raises `ConcordanceError`, and `InvalidRequestError` if HOME contains data: nothing is ever overwritten.
    """
    manifest = _manifest(folder)
    kept, own = folder / "keys.json", keys.path(settings)
    if not kept.exists() and not own.exists():
        raise InvalidRequestError(
            f"The backup has no keys.json. Put your copy of it in {settings.home} (mode 0600), then restore."
        )
    _check_empty(settings, kept, own)
    if not settings.embedded_postgres:
        _check_database(settings)
    lake = _local_lake(settings)
    if not manifest.lake and lake is not None:
        raise ConfigurationError(
            "The backup contains no lake: it was in an object store. Set CONCORDANCE_LAKE_URL to its value at the time of the backup."
        )
    moves = manifest.lake and lake is None
    if moves:
        lake_copy.check_empty(settings.lake_address)
    copy_keys = not own.exists()
    with _private():
        try:
            keys.make_home(settings)
            if copy_keys:
                shutil.copyfile(kept, own)
            if lake is not None:
                _copy(folder / LAKE, lake)
            elif moves:
                lake_copy.upload(folder / LAKE, settings.lake_address)
            for name in SPOOLS:
                _copy(folder / name, settings.home / name)
            with _postgres(settings):  # last: it is loaded as a whole or not at all
                load_dump(settings, folder / DUMP)
        except BaseException:
            _undo(settings, lake, own if copy_keys else None)
            if moves:
                lake_copy.remove_all(settings.lake_address)
            raise
    return manifest


@contextmanager
def _private() -> Generator[None]:
    """Make new files readable by their owner only, for the block."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def _postgres(settings: Settings) -> Generator[None]:
    """Use the running Postgres for the block, or start the embedded one and keep `up` from starting."""
    if not settings.embedded_postgres:
        yield
        return
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


def _local_lake(settings: Settings) -> Path | None:
    """Return the lake's folder; None if it is in an object store."""
    parts = urlsplit(settings.lake_address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _lake_faults(settings: Settings, copy: Path) -> list[str]:
    """Return the reasons why the copied lake cannot rebuild everything in the registry."""
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
            f"{folder} is not a complete backup: it has no {MANIFEST}, which `concordance backup` writes last."
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
            f"{settings.home} already contains data ({held[0]}). Restore into an empty folder: move the old one away, "
            "or set CONCORDANCE_HOME to a new one."
        )


def _check_database(settings: Settings) -> None:
    """Raise `InvalidRequestError` if a database of one's own has tables."""
    with session(settings.postgres_dsn) as connection:
        found = Commands(connection).tables()
    if found:
        raise InvalidRequestError(
            f"The database of CONCORDANCE_POSTGRES_URL already contains tables ({found[0]}). Restore into an empty one."
        )


def _copy(source: Path, target: Path, earlier: Path | None = None) -> Copied:
    """Copy the files of a folder, if it exists; those that `earlier` has, too, and that never change are linked to it.

    Logs of Delta tables are listed and copied before the files that they name.
    """
    new = shared = 0
    for table in sorted(path.parent for path in source.rglob("_delta_log") if path.is_dir()):
        new += _copy_log(table / "_delta_log", target / table.relative_to(source) / "_delta_log")
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        if "_delta_log" in file.parts or ".incoming" in file.parts:
            continue
        name = file.relative_to(source)
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if earlier is not None and (size := _linked(earlier / name, file, place)) is not None:
            shared += size
            continue
        try:
            new += _copied(file, place)
        except FileNotFoundError:
            continue  # an event that is now in Postgres, or a file that a compaction replaced, which `_lake_faults` checks
    return Copied(new, shared)


def _linked(earlier: Path, file: Path, place: Path) -> int | None:
    """Share a file of an earlier backup; return its size, None where that has no such file or it cannot be shared."""
    try:
        size = file.stat().st_size
        if earlier.stat().st_size != size:
            return None
        place.hardlink_to(earlier)
    except OSError:
        return None
    return size


def _copy_log(log: Path, target: Path) -> int:
    """Copy a table's log; return its bytes. A checkpoint that is written meanwhile removes old entries: then once more.

    The name of the last checkpoint is copied first, so that the copy has the checkpoint.
    """
    target.mkdir(parents=True, exist_ok=True)
    for attempt in range(COPIES):
        try:
            newest = [log / "_last_checkpoint"] if (log / "_last_checkpoint").exists() else []
            copied = sum(_copied(file, target / file.name) for file in newest)
            entries = [file for file in log.iterdir() if file.suffix in {".json", ".parquet"}]
            return copied + sum(_copied(file, target / file.name) for file in sorted(entries))
        except FileNotFoundError:
            if attempt == COPIES - 1:
                raise
    return 0


def _copied(file: Path, place: Path) -> int:
    shutil.copyfile(file, place)
    return place.stat().st_size


def _undo(settings: Settings, lake: Path | None, own: Path | None) -> None:
    """Remove the files of an unfinished restore, so that HOME is empty for the next attempt."""
    for place in (settings.passfile.parent, lake, *(settings.home / name for name in SPOOLS)):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
    if own is not None:
        own.unlink(missing_ok=True)
