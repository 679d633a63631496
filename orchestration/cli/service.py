"""The command `service install`, for a machine with systemd."""

import pwd
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from orchestration import systemd
from orchestration.cli.output import note, say
from resources.core.errors import ConfigurationError
from resources.keys import make_home
from resources.servers.privileges import unprivileged
from resources.settings import load
from resources.settings.urls import local_folder


def service_install(
    *,
    account: Annotated[
        str | None, Parameter(help="Account that runs Concordance: that of HOME, or `concordance`, which is created.")
    ] = None,
    folder: Annotated[Path, Parameter(help="Where units are.")] = systemd.FOLDER,
    show: Annotated[bool, Parameter(negative="", help="Print the unit instead of writing it.")] = False,
) -> None:
    settings = load()
    program = Path(sys.executable).with_name("concordance")
    lake = local_folder(settings.lake_address) if settings.lake_address.startswith("file:") else settings.home
    if show:
        say(systemd.unit(program, Path.cwd(), settings.home, lake, account or "concordance").rstrip("\n"))
        return
    file = folder / systemd.NAME
    if (other := systemd.home_of(file)) not in {None, settings.home}:
        raise ConfigurationError(
            f"{file} starts the installation in {other}, and a machine has one such unit. Remove the file to replace it, or write a unit of"
            f" another name for {settings.home}: --show prints it."
        )
    name = account or _account(settings.home)
    _check(name)
    if not settings.home.is_dir():
        make_home(settings)
        _give(settings.home, name)
    _prepare(settings.home, name)
    _prepare(lake, name)
    try:
        file.unlink(missing_ok=True)  # its owner stays otherwise
        file.write_text(systemd.unit(program, Path.cwd(), settings.home, lake, name), encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(
            f"{file} cannot be written ({error.strerror}). Run the command as root, or print the unit with --show."
        ) from error
    note(f"Wrote {file}. Start it, now and at each boot, with:")
    say("systemctl daemon-reload")
    say(f"systemctl enable --now {systemd.NAME}")


def _account(home: Path) -> str:
    """Return the owner of HOME, or the account for services of root, which is created."""
    if home.is_dir() and home.stat().st_uid != 0:
        return home.owner()
    found = unprivileged(make=True)
    return "concordance" if found is None else found.name


def _check(name: str) -> None:
    try:
        pwd.getpwnam(name)
    except KeyError:
        raise ConfigurationError(
            f"This machine has no account {name}. Create it, or leave --account out: the account concordance is created."
        ) from None


def _prepare(place: Path, name: str) -> None:
    """Create a folder that the unit writes to, and give an empty one of root, such as a new disk, to the account."""
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"{place} cannot be created ({error.strerror}). Run the command as root, or create the folder."
        ) from error
    if place.stat().st_uid == 0 and {entry.name for entry in place.iterdir()} <= {"lost+found"}:
        _give(place, name)


def _give(home: Path, name: str) -> None:
    from resources.servers.handover import hand_over
    from resources.servers.privileges import named

    if (found := named(name)) is not None:
        hand_over(home, found)
