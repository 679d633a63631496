"""The commands `backup` and `restore`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestration.backup import back_up, back_up_to_store
from orchestration.backup_store import BackupStore
from orchestration.cli import installed_version
from orchestration.cli.output import note, say
from orchestration.cli.presence import Presence
from orchestration.restore import restore as carry_out
from orchestration.supervision import ports
from resources import keys
from resources.core.errors import InvalidRequestError
from resources.core.paths import is_folder
from resources.settings import load

SHOWN = 10


def backup(
    target: Annotated[
        str,
        Parameter(
            name="FOLDER",
            help="The folder to write to, which must be empty or not exist and only its owner can read; or an address in an object store, "
            "such as s3://bucket/prefix, to which a backup is added.",
        ),
    ],
    /,
    *,
    since: Annotated[
        Path | None, Parameter(help="An earlier backup: files that it has, too, are shared with it, not copied again.")
    ] = None,
) -> int:
    settings = load()
    lasts = Presence(settings).lasts
    if "://" in target:
        if since is not None:
            raise InvalidRequestError("--since is for folders. In an object store, backups share files by themselves.")
        made, faults, written = back_up_to_store(
            settings, BackupStore(target), installed_version(), lasts=lasts, tell=note
        )
        earlier = "the backups before" if made.shared else None
    else:
        before = None if since is None else since.absolute()
        made, faults = back_up(
            settings, Path(target).absolute(), installed_version(), since=before, lasts=lasts, tell=note
        )
        written, earlier = target, since
    say(f"Backed up {settings.home} to {written}.")
    if earlier is not None:
        say(
            f"Of the lake, {made.copied / 1e6:.1f} MB are new and {made.shared / 1e6:.1f} MB are shared with {earlier}."
        )
    if keys.all_given(settings):
        note(
            "No keys are in this backup: keep those of your settings. Without CONCORDANCE_ENCRYPTION_KEYS, the saved credentials of "
            "your sources cannot be decrypted."
        )
    else:
        note(
            f"{written}/keys.json can sign in as anyone and decrypt the saved credentials of your sources. Store it apart from "
            "the rest, in a password manager or a vault, and remove it from there."
        )
    if not made.lake:
        note(f"The lake is not in this backup: copy the bucket of {settings.lake_address} as well.")
    if is_folder(settings.home / "models" / "added"):
        note(
            f"The models in {settings.home / 'models' / 'added'} are not in this backup: keep them, or add them again after a restore."
        )
    for fault in faults[:SHOWN]:
        note(f"The lake is damaged, and so is its copy: {fault}")
    if faults:
        note(f"The lake has {len(faults)} faults: see `concordance doctor` for the remedies, then back up again.")
    return 1 if faults else 0


def restore(
    origin: Annotated[
        str,
        Parameter(
            name="FOLDER",
            help="The folder or address that `concordance backup` wrote; of an address with several backups, the newest is taken.",
        ),
    ],
    /,
) -> None:
    settings = load()
    if settings.embedded_postgres:  # which is started
        settings = ports.choose(settings)
    if "://" in origin:
        store = BackupStore(origin)
        with store.fetched() as folder:
            made = carry_out(settings, folder, store.lake)
    else:
        made = carry_out(settings, Path(origin).absolute())
    if settings.embedded_postgres:
        ports.record(settings)
    say(f"Restored {settings.home} as it was at {made.made_at:%Y-%m-%d %H:%M:%S} UTC.")
    note(
        "Everyone signs in again and connects their agents again. Repeat what was done since: people deactivated, also by SCIM; "
        "passkeys, API keys and tokens revoked; roles taken; documents deleted or shared with fewer people."
    )
    note(
        "Start it with `concordance up`. The next sync of each source rebuilds the vector index from the lake, without "
        "embedding anything; `concordance reconcile --apply` does it now."
    )
