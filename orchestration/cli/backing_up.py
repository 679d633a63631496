"""`backup` and `restore`: the embedded set in a folder, and an installation made from it."""

from __future__ import annotations

from pathlib import Path

from orchestration.cli.output import note, say

SHOWN = 10


def backup(folder: Path, /) -> int:
    """Back up Postgres, the lake and the keys of the embedded set, running or not. Syncs wait; searches go on.

    Parameters
    ----------
    folder
        Where to: a folder that is empty or does not exist. Only its owner may read it.
    """
    from orchestration.backup import back_up
    from orchestration.cli import installed_version
    from resources.settings import load

    settings = load()
    made, faults = back_up(settings, folder.absolute(), installed_version())
    say(f"Backed up {settings.home} to {folder}.")
    note(
        f"{folder / 'keys.json'} signs in as anybody and opens the saved credentials of your sources. Keep it apart from "
        "the rest, in a password manager or a vault, and remove it from this folder."
    )
    if not made.lake:
        note(f"The lake is not in this backup: copy the bucket of {settings.lake_address} as well.")
    for fault in faults[:SHOWN]:
        note(f"The lake is damaged, and so is its copy: {fault}")
    if faults:
        note(f"{len(faults)} faults of the lake: `concordance doctor` names them and what to do. Then back up again.")
    return 1 if faults else 0


def restore(folder: Path, /) -> None:
    """Make HOME from a backup. It must hold no data, except for keys.json when the backup has none.

    Parameters
    ----------
    folder
        What `concordance backup` wrote.
    """
    from orchestration.backup import restore as carry_out
    from resources.settings import load

    settings = load()
    made = carry_out(settings, folder.absolute())
    say(f"Restored {settings.home} as it was at {made.made_at:%Y-%m-%d %H:%M:%S} UTC.")
    note(
        "Start it with `concordance up`. The next sync of each source writes the vector index from the lake and embeds "
        "nothing; `concordance reconcile --apply` does it at once."
    )
