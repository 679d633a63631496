"""Back up and restore the embedded services: a Postgres dump, the lake, audit events that are not in Postgres yet, and the keys.

A backup is a folder that only its owner may read; it is complete once it contains `backup.json`. The vector index is left out,
because syncs rebuild it from the lake without parsing or embedding. Syncs, erasure and `reindex` wait during the copy, so that the
lake contains everything that the dump refers to; searches and uploads continue.
"""

import os
import shutil
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from assets.upkeep.erase import alone
from assets.upkeep.integrity import expected_tables, lost_contents
from orchestration.supervision import run_state
from resources import keys
from resources.core.domain import SourceName
from resources.core.errors import ConfigurationError, InvalidRequestError, NotRunningError, ServiceUnavailableError
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
"""Folders of HOME with events that serving has not written to Postgres yet."""
REBUILT = frozenset({"dagster", "eval", "logs", "models", "run"})
"""Folders of HOME without data of their own, which may exist before a restore."""
LOOK_SECONDS = 0.4
OWN_SERVERS = "See docs/operations.md, Back up and restore, for servers of your own."


class Manifest(msgspec.Struct, kw_only=True):
    made_at: datetime
    version: str
    lake: bool
    """False if the lake is in an object store, which has backups of its own."""


def back_up(
    settings: Settings,
    folder: Path,
    version: str,
    *,
    say: Callable[[str], None] = lambda _: None,
    lasts: Callable[[], bool] = lambda: False,
) -> tuple[Manifest, list[str]]:
    """Write a backup to `folder`, which must be empty or missing. Postgres is started for this if it is not running.

    `say` is told what it waits for. `lasts` returns True while it makes sense to wait for a Postgres that is being restarted.
    Returns the manifest and the faults of the copied lake. Raises `ConcordanceError`, and then leaves no manifest.
    """
    faults: list[str] = []
    _check_embedded(settings)
    if not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run in {settings.home}, so there is nothing to back up.")
    if folder.exists() and any(folder.iterdir()):
        raise InvalidRequestError(f"{folder} is not empty. Give a folder that is empty or does not exist.")
    with _private(), _postgres(settings), undisturbed(settings, say, lasts):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        for name in SPOOLS:  # before the dump, which then contains the events that leave a spool meanwhile
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


@contextmanager
def undisturbed(settings: Settings, say: Callable[[str], None], lasts: Callable[[], bool]) -> Generator[None]:
    """Hold the locks of all syncs for the block. A restart of Postgres while it waits for them costs nothing but time."""

    def waiting(source: SourceName) -> None:
        say(f"Waiting for the sync of {source.value} to end; `concordance status` shows its progress.")

    with ExitStack() as stack:
        while True:
            try:
                stack.enter_context(alone(settings, waiting))
                break
            except ServiceUnavailableError:
                if not lasts():
                    raise
                time.sleep(LOOK_SECONDS)
        say("Copying. New syncs wait until it is done.")
        yield


def restore(settings: Settings, folder: Path) -> Manifest:
    """Restore HOME from a backup. `keys.json` is taken from the backup, or from HOME if the backup has none.

    Raises `ConcordanceError`, and `InvalidRequestError` if HOME contains data: nothing is ever overwritten.
    """
    _check_embedded(settings)
    manifest = _manifest(folder)
    kept, own = folder / "keys.json", keys.path(settings)
    if not kept.exists() and not own.exists():
        raise InvalidRequestError(
            f"The backup has no keys.json. Put your copy of it in {settings.home} (mode 0600), then restore."
        )
    _check_empty(settings, kept, own)
    lake = _local_lake(settings)
    if manifest.lake is not (lake is not None):
        where = "contains a lake" if manifest.lake else "contains no lake: it was in an object store"
        raise ConfigurationError(
            f"The backup {where}. Set CONCORDANCE_LAKE_URL to its value at the time of the backup."
        )
    copy_keys = not own.exists()
    with _private():
        try:
            keys.make_home(settings)
            if copy_keys:
                shutil.copyfile(kept, own)
            with _postgres(settings):
                load_dump(settings, folder / DUMP)
            if lake is not None:
                _copy(folder / LAKE, lake)
            for name in SPOOLS:
                _copy(folder / name, settings.home / name)
        except BaseException:
            _undo(settings, lake, own if copy_keys else None)
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
    """Use the running Postgres for the block, or start it and keep `up` from starting."""
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
            f"CONCORDANCE_POSTGRES_URL is set, and this command only handles the embedded Postgres. {OWN_SERVERS}"
        )


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


def _copy(source: Path, target: Path) -> None:
    """Copy the files of a folder, if it exists. A Delta table's log is copied first, so that it lists no file written later."""
    files = [file for file in source.rglob("*") if file.is_file() and ".incoming" not in file.parts]
    for file in sorted(files, key=lambda file: ("_delta_log" not in file.parts, file)):
        place = target / file.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            shutil.copyfile(file, place)
        except FileNotFoundError:
            continue  # an event that is now in Postgres, or a file that a compaction replaced, which `_lake_faults` checks


def _undo(settings: Settings, lake: Path | None, own: Path | None) -> None:
    """Remove the files of an unfinished restore, so that HOME is empty for the next attempt."""
    for place in (settings.passfile.parent, lake, *(settings.home / name for name in SPOOLS)):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
    if own is not None:
        own.unlink(missing_ok=True)
