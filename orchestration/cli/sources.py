"""The commands `source list` and `source remove`: roots, drives and channels, also those that have left the settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from cyclopts import Parameter

from orchestration.cli.arguments import Json, Source
from orchestration.cli.installed import database
from orchestration.cli.output import confirmed, note, say, say_json
from orchestration.demo.running import runs_sample, with_running_sample
from resources.core.domain import SourceName
from resources.core.errors import ConcordanceError, InvalidRequestError, NotRunningError
from resources.core.paths import is_closed, is_folder
from resources.settings import FileRoot, Settings, load
from resources.settings.urls import local_folder
from resources.sources import capabilities, configured, open_source, stored
from sql.cli import Commands

if TYPE_CHECKING:
    from sql.cli import Root

State = Literal["active", "not configured", "folder missing", "held", "no access", "paused"]
UPLOADS = "*"
"""Stands for all upload days in the list."""


class RootLine(msgspec.Struct, kw_only=True):
    """A line of `source list`. `root` is what --partition, `prune` and `source remove` take."""

    source: str
    root: str
    name: str
    documents: int = 0
    held: int = 0
    state: State = "active"
    last_sync_at: datetime | None = None


def source_list(*, json: Json = False) -> None:
    found = roots(with_running_sample(load()))
    if json:
        say_json(found)
        return
    for one in found:
        last = f"{one.last_sync_at:%Y-%m-%d %H:%M} UTC" if one.last_sync_at else "never"
        state = f"{one.held} of {one.documents} held" if one.state == "held" else one.state
        say(
            f"{one.source:<13} {one.root:<22} {one.documents:>7} documents  {state:<16} last synced: {last:<21} {one.name}".rstrip()
        )
    if gone := [one.root for one in found if one.state == "not configured"]:
        note(
            f"Documents of roots that have left the settings are kept. To remove them: concordance source remove {gone[0]}"
        )
    if any(one.state == "held" for one in found):
        note("Held deletions await approval. See: concordance prune list")
    for source in sorted({one.source for one in found if one.state == "paused"}):
        note(f"{source} is paused: it refused our credentials. `concordance status` says why.")
    if not found:
        note("There are no roots yet. See docs/configuration.md")


def source_remove(
    name: Annotated[
        str | None, Parameter(help="A root, drive, channel or pushed source: its root or name in `source list`.")
    ] = None,
    /,
    *,
    source: Annotated[Source | None, Parameter(help="Its source, where two sources have a root of that name.")] = None,
    sample: Annotated[
        bool,
        Parameter(negative="", help="Remove the sample company; if it is running, Concordance restarts without it."),
    ] = False,
    yes: Annotated[bool, Parameter(negative="", help="Do not ask.")] = False,
    json: Json = False,
) -> int:
    if (name is None) != sample:
        raise InvalidRequestError("Name a root, as `concordance source list` shows it, or write --sample.")
    settings = with_running_sample(load())
    chosen = _sample(settings) if name is None else [_named(settings, name, source)]
    documents = sum(one.documents for one in chosen)
    what = "the sample company" if name is None else f"{chosen[0].root} ({chosen[0].source})"
    if not chosen:
        note("No sample data is left.")
        if json:
            say_json({"documents": 0, "roots": []})
        return 0
    if not (yes or confirmed(f"Remove {documents} documents of {what} from the index? [y/N] ")):
        note("Nothing was removed. To remove it without a question, add --yes")
        return 1
    if sample:
        _leave_sample()
    removed = _remove(load(), chosen)
    if json:
        say_json({"documents": removed, "roots": [one.root for one in chosen]})
    else:
        say(f"Removed {removed} documents of {what}. They are erased after CONCORDANCE_RETENTION__ERASE_AFTER.")
    return 0


def roots(settings: Settings) -> list[RootLine]:
    """Return all roots, known or configured. Raises `NotRunningError` if the database is not responding."""
    with database(settings) as connection:
        known = Commands(connection).roots()
        settings = stored.complete(settings, connection)
    given = {root.name: root for root in settings.file_roots}
    found = [
        _root(row, settings, given) for row in known if not capabilities(row.source).by_anyone and not _is_empty(row)
    ]
    unseen = given.keys() - {row.partition for row in known if row.source == SourceName.FILES}
    found += [
        RootLine(source=SourceName.FILES, root=name, name=given[name].url, state=_of_folder(given[name]))
        for name in unseen
    ]
    uploads = [row for row in known if capabilities(row.source).by_anyone]
    for source in sorted({row.source for row in uploads}):
        days = [row for row in uploads if row.source == source]
        last = max((row.last_sync_at for row in days if row.last_sync_at is not None), default=None)
        found.append(
            RootLine(
                source=source, root=UPLOADS, name="", documents=sum(row.documents for row in days), last_sync_at=last
            )
        )
    return sorted(found, key=lambda one: (one.source, one.root))


def _root(row: Root, settings: Settings, given: Mapping[str, FileRoot]) -> RootLine:
    folder = given.get(row.partition) if row.source == SourceName.FILES else None
    return RootLine(
        source=row.source,
        root=row.partition,
        name=folder.url if folder is not None else row.title or "",
        documents=row.documents,
        held=row.held,
        state=_state(row, settings, folder),
        last_sync_at=row.last_sync_at,
    )


def _is_empty(row: Root) -> bool:
    """Return True for a pushed source without documents; only the record of deletions is left."""
    return row.source == SourceName.PUSH and not row.documents


def _state(row: Root, settings: Settings, folder: FileRoot | None) -> State:
    source = SourceName(row.source)
    if not configured(settings, source) or (source == SourceName.FILES and folder is None):
        return "not configured"
    if row.lost_at is not None:  # a sync has found it unreadable, or no longer configured: then all of it is held
        return "not configured" if row.held and row.held == row.documents else "no access"
    if folder is not None and (state := _of_folder(folder)) != "active":
        return state
    if row.held:
        return "held"
    return "paused" if row.paused else "active"


def _of_folder(root: FileRoot) -> State:
    if not root.url.startswith("file:"):
        return "active"
    folder = local_folder(root.url)
    if is_closed(folder):
        return "no access"
    return "active" if is_folder(folder) else "folder missing"


def _named(settings: Settings, name: str, of: str | None) -> RootLine:
    """Return the root of this name, of this source if one is given, which must no longer be configured or be a pushed source.

    Raises `ConcordanceError`.
    """
    known = [one for one in roots(settings) if one.root != UPLOADS and of in {None, one.source}]
    found = [one for one in known if name in {one.root, one.name}]
    if not found:
        raise ConcordanceError(
            f"There is no root {name!r}. There are: {', '.join(one.root for one in known) or 'none'}."
        )
    if len(found) > 1:
        each = ", ".join(f"{one.root} ({one.source})" for one in found)
        raise ConcordanceError(
            f"{name!r} is the name of {each}. Give the root of one, and its source: --source {found[0].source}"
        )
    source = SourceName(found[0].source)
    if found[0].state != "not configured" and _is_synced(settings, found[0]):
        setting = "CONCORDANCE_FILE_ROOTS" if source == SourceName.FILES else "the settings or at the source"
        raise ConcordanceError(
            f"{found[0].root} is still synced, which would add its documents again. Remove it from {setting} and run `concordance restart` "
            "first."
        )
    return found[0]


def _is_synced(settings: Settings, root: RootLine) -> bool:
    if root.source == SourceName.PUSH:  # removing it withdraws what was pushed
        return False
    source = open_source(settings, SourceName(root.source))
    return root.root not in {*source.retired([root.root]), *source.lost([root.root])}


def _sample(settings: Settings) -> list[RootLine]:
    from orchestration.demo.removal import is_sample

    return [one for one in roots(settings) if is_sample(settings, SourceName(one.source), one.root)]


def _leave_sample() -> None:
    """Restart Concordance without the sample company, if it is running with it, and remove its questions."""
    from orchestration.demo.removal import remove_questions

    settings = load()
    if runs_sample(settings):
        note("Restarting without the sample company …")
        # in a process of its own, because as root it becomes another account
        command = [sys.executable, "-m", "orchestration.cli", "restart", "--without-sample"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    remove_questions(settings)


def _remove(settings: Settings, chosen: Sequence[RootLine]) -> int:
    from assets.upkeep.removal import remove
    from resources.dagster_partitions import delete_partitions
    from resources.sources.push import withdraw

    total = 0
    for source in sorted({one.source for one in chosen}):
        keys = [one.root for one in chosen if one.source == source]
        if source == SourceName.PUSH:
            with database(settings) as connection:
                for key in keys:
                    withdraw(connection, key)
        total += remove(settings, SourceName(source), keys)
        try:  # after a run of these partitions, which fails without them
            delete_partitions(settings, SourceName(source), keys)
        except NotRunningError as error:
            note(f"{error} The partitions {', '.join(keys)} remain in its list; they do no harm.")
    return total
