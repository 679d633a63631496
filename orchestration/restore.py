"""Restore HOME, and the database and the object store of the settings, from a backup (`orchestration.backup`)."""

import shutil
from contextlib import suppress
from pathlib import Path

import psycopg

from orchestration.backup import DUMP, LAKE, SPOOLS, Manifest, local_lake, private, read_manifest, running_postgres
from orchestration.backup_store import FILES
from orchestration.diagnosis.preflight import RESTORING
from resources import keys
from resources.core.errors import ConcordanceError, ConfigurationError, InvalidRequestError, StorageFullError
from resources.servers.postgres.dump import check_direct, load_dump
from resources.settings import Settings
from resources.stores import disk, lake_copy
from resources.stores.lake_objects import LakeObjects
from resources.stores.postgres import session
from sql.cli import Commands
from sql.upkeep import Restored
from sql.withheld import WithheldStatements

REBUILT = frozenset({"dagster", "eval", "logs", "models", "run"})
"""Folders of HOME without data of their own, which may exist before a restore."""


def restore(settings: Settings, folder: Path, objects: LakeObjects | None = None) -> Manifest:
    """Restore HOME from a backup.

    `keys.json` is taken from the backup, or from HOME if the backup has none. Nobody needs it if the settings give all keys.

    If it is from an object store, `objects` has the files of its lake, and `folder` the rest. A lake of this machine is copied to the
    object store if the settings name one, whose address must be empty. Raises `ConcordanceError`, and `InvalidRequestError` if HOME
    contains data: nothing is ever overwritten.
    """
    manifest = read_manifest(folder)
    kept, own = folder / "keys.json", keys.path(settings)
    if not kept.exists() and not own.exists() and not keys.all_given(settings):
        raise InvalidRequestError(
            f"The backup has no keys.json. Put your copy of it in {settings.home} (mode 0600), then restore."
        )
    _check_empty(settings, kept, own)
    check_direct(settings)
    if not settings.embedded_postgres:
        _check_database(settings)
    lake = local_lake(settings)
    if not manifest.lake and lake is not None:
        raise ConfigurationError(
            "The backup contains no lake: it was in an object store. Set CONCORDANCE_LAKE_URL to its value at the time of the backup."
        )
    moves = manifest.lake and lake is None
    if moves:
        lake_copy.check_empty(settings.lake_address)
    copy_keys = kept.exists() and not own.exists()
    with private():
        try:
            if not keys.all_given(settings):
                keys.make_home(settings)
            _mark(settings)
            if copy_keys:
                shutil.copyfile(kept, own)
            if lake is not None:
                if objects is not None and manifest.lake:
                    objects.download(folder / FILES, lake)
                lake_copy.copy_folder(folder / LAKE, lake)
            elif moves:
                if objects is not None:
                    objects.forward(folder / FILES, settings.lake_address)
                lake_copy.upload(folder / LAKE, settings.lake_address)
            for name in SPOOLS:
                lake_copy.copy_folder(folder / name, settings.home / name)
            with running_postgres(settings, "restore"):  # last: it is loaded as a whole or not at all
                load_dump(settings, folder / DUMP)
                _distrust_index(settings)
                _distrust_lake(settings)
                _end_sign_ins(settings)
            if settings.embedded_postgres:
                _check_room(settings)
        except BaseException:
            _undo(settings, lake, own if copy_keys else None)
            if moves:
                lake_copy.remove_all(settings.lake_address)
            if settings.embedded_postgres or not _is_filled(settings):
                _unmark(settings)
            raise
        _unmark(settings)
    return manifest


def _mark(settings: Settings) -> None:
    """Mark HOME as incomplete. One that is closed, as it may be if all keys are given, holds nothing that `up` would start with."""
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
        (settings.home / RESTORING).touch()
    except OSError:
        if not keys.all_given(settings):
            raise


def _unmark(settings: Settings) -> None:
    if (settings.home / RESTORING).exists():  # where HOME is closed, even a missing file cannot be removed
        (settings.home / RESTORING).unlink()


def _check_empty(settings: Settings, kept: Path, own: Path) -> None:
    """Raise `InvalidRequestError` when a restore would overwrite or mix data."""
    if (settings.home / RESTORING).exists():
        raise InvalidRequestError(
            f"A restore into {settings.home} is running, or was killed before it was complete: then remove the folder, and restore again."
        )
    held = [
        file
        for place in (settings.home, local_lake(settings))
        if place is not None and place.exists()
        for entry in sorted(place.iterdir())
        if entry.name not in REBUILT or place != settings.home
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
    if found := _tables(settings):
        raise InvalidRequestError(
            f"The database of CONCORDANCE_POSTGRES_URL already contains tables ({found[0]}). Restore into an empty one."
        )


def _is_filled(settings: Settings) -> bool:
    """Return True unless a database of one's own is known to be empty. HOME stays marked then: nothing starts with half of a backup."""
    try:
        return bool(_tables(settings))
    except ConcordanceError:
        return True


def _tables(settings: Settings) -> list[str]:
    with session(settings.postgres_dsn) as connection:
        return Commands(connection).tables()


def _check_room(settings: Settings) -> None:
    """Raise `StorageFullError` if a disk has so little left that Postgres would not start."""
    if full := [str(one) for one in disk.faults(settings) if one.state == disk.FULL]:
        raise StorageFullError(" ".join(full))


def _distrust_index(settings: Settings) -> None:
    """Have the next syncs write all documents to the index: one of your own may be newer than the backup.

    A backup of a version that does not know what the index was told is left as it is.
    """
    with suppress(psycopg.errors.UndefinedTable), session(settings.postgres_dsn) as connection:
        WithheldStatements(connection).distrust()


def _distrust_lake(settings: Settings) -> None:
    """Have the next syncs list what the lake received after the dump, so that none of it is parsed and embedded again.

    A backup of a version that lists no keys is left as it is.
    """
    with suppress(psycopg.errors.UndefinedTable), session(settings.postgres_dsn) as connection:
        Restored(connection).doubt_lake()


def _end_sign_ins(settings: Settings) -> None:
    """Have everyone sign in again, and connect their agents: some of what the backup has may have been ended since, as by an off-boarding.

    What a backup of an earlier version does not have yet keeps nothing else from being ended.
    """
    for end in (Restored.end_sessions, Restored.end_agents, Restored.end_links):
        with (
            suppress(psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn),
            session(settings.postgres_dsn) as connection,
        ):
            end(Restored(connection))


def _undo(settings: Settings, lake: Path | None, own: Path | None) -> None:
    """Remove the files of an unfinished restore, so that HOME is empty for the next attempt."""
    for place in (settings.passfile.parent, lake, *(settings.home / name for name in SPOOLS)):
        if place is not None:
            shutil.rmtree(place, ignore_errors=True)
    if own is not None:
        own.unlink(missing_ok=True)
