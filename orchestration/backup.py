"""Back up: a Postgres dump, the lake, audit events that are not in Postgres yet, and the keys, unless the settings give them all.

A backup is a folder that only its owner may read, or in an object store (`orchestration.backup_store`); it is complete once it contains
`backup.json`. The vector index is left out, because syncs rebuild it from the lake without parsing or embedding.

Searches, uploads and syncs go on meanwhile: the dump comes first, and what it refers to was in the lake before. What syncs add to the
lake after the dump is what a sync that died leaves behind: the next one after a restore lists its keys and uses it. Only erasure and
`reindex` remove what the dump refers to: a backup and an erasure wait for each other, and `reindex` is refused meanwhile.
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

from assets.reindex import WORK as REINDEX
from assets.upkeep.integrity import ExpectedLake, expected, lost_contents
from orchestration.backup_store import FILES, MANIFEST, BackupStore
from orchestration.supervision import run_state
from resources import keys
from resources.core.durations import how_long
from resources.core.errors import InvalidRequestError, NotRunningError, ServiceUnavailableError
from resources.core.scratch import scratch_folder
from resources.servers.postgres import EmbeddedPostgres
from resources.servers.postgres.dump import check_direct, dump
from resources.settings import Settings
from resources.stores import disk, lake_copy, leases
from resources.stores.blobs import Blobs
from resources.stores.damage import damaged_tables
from resources.stores.lake import Lake

DUMP = "postgres.dump"
LAKE = "lake"
SPOOLS = ("audit",)
"""Folders of HOME with events that serving has not written to Postgres yet."""
LOOK_SECONDS = 0.4
WAITING = "The backup waits up to an hour for `concordance reindex`, `erase` or another backup to end."
REFUSAL = "`concordance reindex`, `erase` or another backup has been running for an hour. Run the command again once it has ended."


class Manifest(msgspec.Struct, kw_only=True):
    made_at: datetime
    version: str
    lake: bool
    """False if the lake is in an object store, which has backups of its own."""
    copied: int = 0
    """Bytes of the lake that were copied."""
    shared: int = 0
    """Bytes of the lake that this backup shares with the one before."""


def back_up(
    settings: Settings,
    folder: Path,
    version: str,
    *,
    since: Path | None = None,
    lasts: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Manifest, list[str]]:
    """Write a backup to `folder`, which must be empty or missing. An embedded Postgres is started for this if it is not running.

    Files of the lake that the backup `since` has, too, are shared with it where the file system can: they never change.
    `lasts` returns True while it makes sense to wait for a Postgres that is being restarted. `tell` is called with a sentence when the
    backup begins to wait for other work, and each minute.
    Returns the manifest and the faults of the copied lake. Raises `ConcordanceError`, and then leaves nothing.
    """
    if since is not None:
        read_manifest(since)
    _check_empty(folder)
    faults: list[str] = []
    copied = lake_copy.Copied()
    with _consistent(settings, lasts, tell) as lease, _whole_or_nothing(folder):
        _copy_state(settings, folder)
        if (lake := local_lake(settings)) is not None:
            wanted = expected(settings)  # right after the dump: what syncs add from now on may be missing in the copy
            copied = lake_copy.copy_folder(lake, folder / LAKE, None if since is None else since / LAKE)
            faults = _lake_faults(wanted, folder / LAKE)
        lease.confirm()
        made = _manifest(version, lake, copied)
        os.sync()
        (folder / MANIFEST).write_bytes(msgspec.json.encode(made) + b"\n")
    return made, faults


def back_up_to_store(
    settings: Settings,
    store: BackupStore,
    version: str,
    *,
    lasts: Callable[[], bool] = lambda: False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Manifest, list[str], str]:
    """Add a backup to an object store, as `back_up` does to a folder; of the lake, only files that the store lacks are sent.

    Returns its address as well.
    """
    faults: list[str] = []
    copied = lake_copy.Copied()
    with _consistent(settings, lasts, tell) as lease, scratch_folder() as stage:
        _copy_state(settings, stage)
        if (lake := local_lake(settings)) is not None:
            wanted = expected(settings)
            lake_copy.copy_logs(lake, stage / LAKE)
            copied, missing = store.lake.add(lake, stage / LAKE, stage / FILES)
            faults = _lake_faults(wanted, lake) + [f"{path} was removed meanwhile" for path in missing]
        lease.confirm()
        made = _manifest(version, lake, copied)
        (stage / MANIFEST).write_bytes(msgspec.json.encode(made) + b"\n")
        address = store.put(stage, made.made_at)
    return made, faults, address


def _check_empty(folder: Path) -> None:
    """Raise `InvalidRequestError` unless the folder is empty or missing."""
    held = {one.name for one in folder.iterdir()} if folder.exists() else set[str]()
    if held & {DUMP, LAKE, *SPOOLS} and MANIFEST not in held:
        raise InvalidRequestError(
            f"{folder} holds a backup that was killed before it was complete, so it cannot be restored. Remove it, or give another folder."
        )
    if held:
        raise InvalidRequestError(f"{folder} is not empty. Give a folder that is empty or does not exist.")


@contextmanager
def _whole_or_nothing(folder: Path) -> Generator[None]:
    """Make the folder, for its owner alone, and remove what is in it, the keys among it, if the block fails or is interrupted."""
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    try:
        yield
    except BaseException:
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        if made:
            folder.rmdir()
        raise


@contextmanager
def _consistent(settings: Settings, lasts: Callable[[], bool], tell: Callable[[str], None]) -> Generator[leases.Lease]:
    """Make new files private, Postgres available, and keep what the dump will refer to, for the block: as long as the lease lasts."""
    if settings.embedded_postgres and not settings.passfile.exists():
        raise NotRunningError(f"Concordance has never run in {settings.home}, so there is nothing to back up.")
    if not keys.all_given(settings):
        keys.load(settings)  # what is missing here is missing in a backup
    check_direct(settings)
    with private(), running_postgres(settings, "backup"), _nothing_removed(settings, lasts, tell) as lease:
        yield lease


def _copy_state(settings: Settings, folder: Path) -> None:
    """Copy all but the lake. The spools come before the dump, which then contains the events that leave a spool meanwhile."""
    for name in SPOOLS:
        lake_copy.copy_folder(settings.home / name, folder / name)
    dump(settings, folder / DUMP)
    if not keys.all_given(settings):
        shutil.copyfile(keys.path(settings), folder / keys.path(settings).name)


def _manifest(version: str, lake: Path | None, copied: lake_copy.Copied) -> Manifest:
    return Manifest(
        made_at=datetime.now(UTC), version=version, lake=lake is not None, copied=copied.new, shared=copied.shared
    )


@contextmanager
def _nothing_removed(
    settings: Settings, lasts: Callable[[], bool], tell: Callable[[str], None]
) -> Generator[leases.Lease]:
    """Keep erasure and `reindex` from starting for the block. A restart of Postgres before it costs nothing but time, unless a disk
    accepts no writes: then it does not start.
    """
    with ExitStack() as stack:
        while True:
            try:
                lease = stack.enter_context(
                    leases.alone(
                        settings.postgres_dsn,
                        REINDEX,
                        REFUSAL,
                        seconds=leases.WAIT_SECONDS,
                        waits=lambda seconds: tell(f"{WAITING} It has waited for {how_long(seconds)}."),
                    )
                )
                break
            except ServiceUnavailableError:
                if disk.faults(settings) or not lasts():
                    raise
                time.sleep(LOOK_SECONDS)
        yield lease


@contextmanager
def private() -> Generator[None]:
    """Make new files readable by their owner only, for the block."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def running_postgres(settings: Settings, command: str) -> Generator[None]:
    """Use the running Postgres for the block, or start the embedded one and keep `up` from starting, which names the command."""
    if not settings.embedded_postgres:
        yield
        return
    server = EmbeddedPostgres(settings)
    if run_state.supervisor(settings) is not None or (settings.passfile.exists() and server.ready()):
        yield
        return
    with run_state.lock(settings, command=command):
        try:
            server.start()
            yield
        finally:
            server.stop()


def local_lake(settings: Settings) -> Path | None:
    """Return the lake's folder; None if it is in an object store."""
    parts = urlsplit(settings.lake_address)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def _lake_faults(wanted: ExpectedLake, copy: Path) -> list[str]:
    """Return the reasons why the copied lake cannot rebuild everything in the registry."""
    lost = lost_contents(wanted, Blobs(copy.as_uri()))
    tables = damaged_tables(Lake(copy.as_uri()), wanted.tables)
    return [f"table {name}: {reason}" for name, reason in sorted(tables.items())] + [
        f"{content.source_id}: {content.reason}" for content in lost
    ]


def read_manifest(folder: Path) -> Manifest:
    try:
        return msgspec.json.decode((folder / MANIFEST).read_bytes(), type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        raise InvalidRequestError(
            f"{folder} is not a complete backup: it has no {MANIFEST}, which `concordance backup` writes last."
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise InvalidRequestError(f"{folder / MANIFEST} cannot be read: {error}") from error
