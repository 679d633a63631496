"""Try Google credentials: whether Google accepts them, and the drives, folders and files that they open, to choose from."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NoReturn

import httpx

from resources import http_clients
from resources.core import permissions
from resources.core.errors import AuthorizationError, InvalidRequestError, RetryLaterError
from resources.core.json import is_object
from resources.core.retrying import Tally
from resources.settings import Settings
from resources.sources.drive.addresses import token_url
from resources.sources.drive.auth import SCOPES, Authority
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.content import FOLDER
from resources.sources.drive.roots import MY_DRIVE, SHARED_DRIVES, SHARED_TITLE, SHARED_WITH_ME, TITLE
from resources.sources.spec import Place, Places, Reach

SECONDS = 8
"""Longest wait for a response."""
TOTAL_SECONDS = 15
"""No further page is asked for after this time."""
MOST_DRIVES, MOST_FILES = 300, 5000
_CLIENT = re.compile(r"[\x21-\x7e]{1,200}")
_GRANTED = frozenset(SCOPES)
_FILES = {
    "corpora": "allDrives",
    "includeItemsFromAllDrives": True,
    "supportsAllDrives": True,
    "pageSize": 1000,
    "q": f"trashed = false and mimeType != '{FOLDER}'",
    "fields": "nextPageToken,files(id,size)",
}
_NOTHING = (
    "This account sees no drive and no file. Add {} as a Viewer to each shared drive, or delegate the scope to it and give the user"
    " in whose name it reads."
)
MOST = 500
"""Shared drives, and folders of a level."""
TOGETHER = 40
"""Folders whose children are listed in one query, which keeps its address short."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,200}")
_EVERYWHERE: dict[str, Any] = {"corpora": "allDrives", "includeItemsFromAllDrives": True, "supportsAllDrives": True}


def reach(settings: Settings, values: Mapping[str, str]) -> Reach:
    """Return what a service account with the key file's content `google_service_account_key` would read, for `google_subject` if given.

    Without any credential, those in the settings are used. `drive_roots` limits the count to these drives and folders. Of an OAuth client
    (`google_client_id`, `google_client_secret`), only Google's acceptance can be tried before a person consents.
    """
    if values.get("google_client_id"):
        return _client(settings, values["google_client_id"], values.get("google_client_secret", ""))
    client, account, own = _opened(settings, values)
    until = time.monotonic() + TOTAL_SECONDS
    if roots := _ids(values.get("drive_roots", "")):
        return _chosen(client, account, roots, until)
    drives = list(islice(_before(until, _drives(client)), MOST_DRIVES))
    files = list(islice(_before(until, client.pages("files.list", "files", **_FILES)), MOST_FILES))
    mine = [TITLE] if own else []
    return Reach(
        account=account,
        granted=_GRANTED,
        places=(*mine, *sorted(str(one.get("name")) for one in drives)),
        documents=len(files),
        size=_size(files),
        complete=len(files) < MOST_FILES and len(drives) < MOST_DRIVES and time.monotonic() < until,
        notes=() if drives or files else (_NOTHING.format(account),),
    )


def places(settings: Settings, values: Mapping[str, str], inside: str | None) -> Places:
    """Return the drives or folders to choose from, with the credentials of `reach`."""
    if values.get("google_client_id"):
        raise InvalidRequestError("Folders can be chosen once a person has connected their account.")
    client, _, own = _opened(settings, values)
    return _level(client, inside, own=own and not settings.drive_users)


def _chosen(client: DriveClient, account: str, roots: Sequence[str], until: float) -> Reach:
    named = dict(zip(roots, _names(client, roots), strict=True))
    seen = [one for one in roots if named[one] is not None]
    files = list(islice(_files_below(client, seen, until), MOST_FILES))
    return Reach(
        account=account,
        granted=_GRANTED,
        places=tuple(name for name in named.values() if name is not None),
        documents=len(files),
        size=_size(files),
        complete=len(files) < MOST_FILES and time.monotonic() < until,
        notes=tuple(f"The account does not see {one}. Share it with {account}." for one in roots if named[one] is None),
    )


def _opened(settings: Settings, values: Mapping[str, str]) -> tuple[DriveClient, str, bool]:
    """Return a client, the email of its account, and True if that has a My Drive of its own."""
    quick = settings.model_copy(update={"retry_seconds": ()})
    subject = values.get("google_subject") or None
    if subject or values.get("google_service_account_key"):
        key = values.get("google_service_account_key", "")
        person = permissions.email(subject) if subject else None
        authority = Authority.of_key(quick, key, person, Tally(), SECONDS)
        own = subject is not None
    else:
        authority = Authority(quick, Tally(), timeout=SECONDS)
        own = bool(settings.google_subject or settings.drive_token or not settings.reads_as_service_account)
    client = DriveClient(quick, authority, Tally(), sleep=_refuse_to_wait, timeout=SECONDS)
    return client, authority.account, own


def _size(files: Sequence[JSON]) -> int:
    return sum(int(one.get("size") or 0) for one in files)


def _client(settings: Settings, client_id: str, secret: str) -> Reach:
    """Ask for a token with a refresh token that does not exist: Google refuses the client or the token, and says which.

    Source: RFC 6749 5.2 (`invalid_client`, `invalid_grant`).
    """
    if not _CLIENT.fullmatch(client_id) or not _CLIENT.fullmatch(secret):
        raise InvalidRequestError("Give both the client ID and the client secret, as Google shows them.")
    form = {"grant_type": "refresh_token", "refresh_token": "none", "client_id": client_id, "client_secret": secret}
    try:
        with http_clients.outward(timeout=SECONDS) as http:
            said = http.post(token_url(settings), data=form).json()
    except (httpx.HTTPError, ValueError) as error:
        raise RetryLaterError(f"Google's token endpoint does not answer ({type(error).__name__}).") from None
    if not is_object(said) or said.get("error") != "invalid_grant":
        raise AuthorizationError("Google does not accept this client ID with this secret. Copy both again.")
    return Reach(
        account="an OAuth client that Google accepts",
        notes=("What it reads is known once a person has connected their account: save it, and connect the account.",),
    )


def _before(until: float, pages: Iterator[JSON]) -> Iterator[JSON]:
    for one in pages:
        yield one
        if time.monotonic() > until:
            return


def _refuse_to_wait(seconds: float) -> NoReturn:
    raise RetryLaterError(f"Google asks to wait {seconds:.0f} s. Try again then.")


def _drives(client: DriveClient) -> Iterator[JSON]:
    """Yield shared drives that the account sees, one more than `MOST` at most."""
    found = client.pages("drives.list", "drives", pageSize=100, fields="nextPageToken,drives(id,name)")
    return islice(found, MOST + 1)


def _level(client: DriveClient, inside: str | None, *, own: bool) -> Places:
    """Return the folders directly inside a place, or the top without one; without `own`, its My Drive stays closed."""
    if inside is None:
        top = (Place(SHARED_DRIVES, "All shared drives", opens=True), Place(SHARED_WITH_ME, SHARED_TITLE))
        return Places((Place(MY_DRIVE, TITLE, opens=True), *top) if own else top)
    if not own and inside in {MY_DRIVE, "root"}:
        raise InvalidRequestError("There is no My Drive to choose folders from.")
    found = _drives(client) if inside == SHARED_DRIVES else _folders(client, inside)
    some = list(islice(found, MOST + 1))
    named = (Place(str(one["id"]), str(one.get("name")), opens=True) for one in some[:MOST])
    return Places(tuple(sorted(named, key=lambda one: one.name.casefold())), complete=len(some) <= MOST)


def _ids(text: str) -> list[str]:
    """Return the roots of a comma list. Raises `InvalidRequestError`."""
    return [_checked(one.strip()) for one in text.split(",") if one.strip()]


def _names(client: DriveClient, roots: Sequence[str]) -> list[str | None]:
    """Return the name of each root; None for what the account does not see."""
    known = {str(one["id"]): str(one.get("name")) for one in _drives(client)}
    known |= {MY_DRIVE: TITLE, SHARED_DRIVES: "All shared drives", SHARED_WITH_ME: SHARED_TITLE}
    others = [one for one in roots if one not in known]
    many = [{"fileId": one, "fields": "id,name", "supportsAllDrives": True} for one in others]
    seen = client.visible("files.get", many) if many else []
    known |= {one: str(file.get("name")) for one, file in zip(others, seen, strict=True) if file is not None}
    return [known.get(one) for one in roots]


def _files_below(client: DriveClient, roots: Sequence[str], until: float) -> Iterator[JSON]:
    """Yield id and size of the files in these roots and all folders below, each once; ends early at `until`, a monotonic time."""
    waiting = [one for one in roots if one not in {SHARED_DRIVES, SHARED_WITH_ME}]
    if SHARED_DRIVES in roots:
        waiting += [str(one["id"]) for one in _drives(client)]
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
