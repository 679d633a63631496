"""The commands `backup` and `restore`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestration.backup import back_up
from orchestration.backup import restore as carry_out
from orchestration.cli import installed_version
from orchestration.cli.output import note, say
from orchestration.cli.presence import Presence
from orchestration.supervision import ports
from resources.settings import load

SHOWN = 10


def backup(
    folder: Annotated[
        Path, Parameter(help="The folder to write to; it must be empty or not exist. Only its owner can read it.")
    ],
    /,
    *,
    since: Annotated[
        Path | None, Parameter(help="An earlier backup: files that it has, too, are shared with it, not copied again.")
    ] = None,
) -> int:
    settings = load()
    presence = Presence(settings)
    earlier = None if since is None else since.absolute()
    made, faults = back_up(settings, folder.absolute(), installed_version(), since=earlier, lasts=presence.lasts)
    say(f"Backed up {settings.home} to {folder}.")
    if earlier is not None:
        say(f"Of the lake, {made.copied / 1e6:.1f} MB are new and {made.shared / 1e6:.1f} MB are shared with {since}.")
    note(
        f"{folder / 'keys.json'} can sign in as anyone and decrypt the saved credentials of your sources. Store it apart from "
        "the rest, in a password manager or a vault, and remove it from this folder."
    )
    if not made.lake:
        note(f"The lake is not in this backup: copy the bucket of {settings.lake_address} as well.")
    for fault in faults[:SHOWN]:
        note(f"The lake is damaged, and so is its copy: {fault}")
    if faults:
        note(f"The lake has {len(faults)} faults: see `concordance doctor` for the remedies, then back up again.")
    return 1 if faults else 0


def restore(folder: Annotated[Path, Parameter(help="The folder that `concordance backup` wrote.")], /) -> None:
    settings = ports.choose(load())
    made = carry_out(settings, folder.absolute())
    ports.record(settings)
    say(f"Restored {settings.home} as it was at {made.made_at:%Y-%m-%d %H:%M:%S} UTC.")
    note(
        "Start it with `concordance up`. The next sync of each source rebuilds the vector index from the lake, without "
        "embedding anything; `concordance reconcile --apply` does it now."
    )
