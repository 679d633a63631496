"""Drives and folders to choose from, a level at a time, and the files below the chosen ones."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import Any

from resources.core.errors import InvalidRequestError
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.kinds import FOLDER
from resources.sources.drive.roots import MY_DRIVE, SHARED_DRIVES, SHARED_TITLE, SHARED_WITH_ME, TITLE
from resources.sources.spec import Place, Places

MOST = 500
"""Shared drives, and folders of a level."""
TOGETHER = 40
"""Folders whose children are listed in one query, which keeps its address short."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
_EVERYWHERE: dict[str, Any] = {"corpora": "allDrives", "includeItemsFromAllDrives": True, "supportsAllDrives": True}


def drives(client: DriveClient) -> Iterator[JSON]:
    """Yield shared drives that the account sees, one more than `MOST` at most."""
    found = client.pages("drives.list", "drives", pageSize=100, fields="nextPageToken,drives(id,name)")
    return islice(found, MOST + 1)


def level(client: DriveClient, inside: str | None, *, own: bool) -> Places:
    """Return the folders directly inside a place, or the top without one; without `own`, its My Drive stays closed."""
    if inside is None:
        top = (Place(SHARED_DRIVES, "All shared drives", opens=True), Place(SHARED_WITH_ME, SHARED_TITLE))
        return Places((Place(MY_DRIVE, TITLE, opens=True), *top) if own else top)
    if not own and inside in {MY_DRIVE, "root"}:
        raise InvalidRequestError("There is no My Drive to choose folders from.")
    found = drives(client) if inside == SHARED_DRIVES else _folders(client, inside)
    some = list(islice(found, MOST + 1))
    named = (Place(str(one["id"]), str(one.get("name")), opens=True) for one in some[:MOST])
    return Places(tuple(sorted(named, key=lambda one: one.name.casefold())), complete=len(some) <= MOST)


def ids(text: str) -> list[str]:
    """Return the roots of a comma list. Raises `InvalidRequestError`."""
    return [_checked(one.strip()) for one in text.split(",") if one.strip()]


def names(client: DriveClient, roots: Sequence[str]) -> list[str | None]:
    """Return the name of each root; None for what the account does not see."""
    known = {str(one["id"]): str(one.get("name")) for one in drives(client)}
    known |= {MY_DRIVE: TITLE, SHARED_DRIVES: "All shared drives", SHARED_WITH_ME: SHARED_TITLE}
    others = [one for one in roots if one not in known]
    many = [{"fileId": one, "fields": "id,name", "supportsAllDrives": True} for one in others]
    seen = client.visible("files.get", many) if many else []
    known |= {one: str(file.get("name")) for one, file in zip(others, seen, strict=True) if file is not None}
    return [known.get(one) for one in roots]


def files_below(client: DriveClient, roots: Sequence[str], until: float) -> Iterator[JSON]:
    """Yield id and size of the files in these roots and all folders below, each once; ends early at `until`, a monotonic time."""
    waiting = [one for one in roots if one not in {SHARED_DRIVES, SHARED_WITH_ME}]
    if SHARED_DRIVES in roots:
        waiting += [str(one["id"]) for one in drives(client)]
    seen = set(waiting)
    shared = SHARED_WITH_ME in roots
    while (waiting or shared) and time.monotonic() < until:
        some, waiting = ([], waiting) if shared else (waiting[:TOGETHER], waiting[TOGETHER:])
        query = f"({'sharedWithMe = true' if shared else _children(some)}) and trashed = false"
        shared = False
        fields = "nextPageToken,files(id,size,mimeType)"
        for one in client.pages("files.list", "files", q=query, pageSize=1000, fields=fields, **_EVERYWHERE):
            if time.monotonic() > until:
                return
            if one.get("mimeType") != FOLDER:
                yield one
            elif one["id"] not in seen:
                seen.add(one["id"])
                waiting.append(one["id"])


def _folders(client: DriveClient, inside: str) -> Iterator[JSON]:
    query = f"{_children([_checked(inside)])} and mimeType = '{FOLDER}' and trashed = false"
    fields = "nextPageToken,files(id,name)"
    return client.pages("files.list", "files", q=query, orderBy="name", pageSize=MOST + 1, fields=fields, **_EVERYWHERE)


def _children(folders: Collection[str]) -> str:
    return " or ".join(f"'{'root' if one == MY_DRIVE else one}' in parents" for one in folders)


def _checked(place: str) -> str:
    if not _ID.fullmatch(place):
        raise InvalidRequestError("A drive or folder is named by its ID: the last part of its address in Drive.")
    return place
