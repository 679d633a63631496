"""Check the settings' values before anything starts: what they name must exist, fit together and be readable.

`concordance up` refuses to start only if nothing would work; it names the other faults and starts, so that one bad root or a service
that is still down does not stop the rest. `concordance doctor` reports all of them. `orchestration.diagnosis.reach` asks the services.
"""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Iterator, Sequence
from itertools import permutations

from orchestration.diagnosis import network, reach
from resources.core.checks import Check, refused, wrong
from resources.core.errors import ConcordanceError, ConfigurationError
from resources.core.paths import is_closed, is_file, is_folder
from resources.settings import FileRoot, Settings
from resources.settings.urls import local_folder

ROOTS = "CONCORDANCE_FILE_ROOTS"
RESTORING = "restoring"
"""A file of HOME while a backup is restored into it."""


def examine(settings: Settings) -> list[Check]:
    """Return all faults of the values, those of unreachable services included."""
    blocked = list(network.values())
    found = [
        *blocked,
        *_restored(settings),
        *_listener(settings),
        *_models(settings),
        *_profiles(settings),
        *_keys(settings),
        *roots(settings),
        *_groups(settings),
    ]
    return found if blocked else [*found, *reach.examine(settings)]


def check(settings: Settings) -> list[Check]:
    """Return the faults that do not stop the start. Raises `ConfigurationError` with all faults if one does."""
    found = examine(settings)
    if any(fault.stops for fault in found):
        raise ConfigurationError("The settings are not right:\n  " + "\n  ".join(map(str, found)))
    return found


def _restored(settings: Settings) -> Iterator[Check]:
    """Check that HOME is no part of a backup: with the rest missing, it would start as a new installation."""
    if (settings.home / RESTORING).exists():
        yield wrong(
            "HOME",
            str(settings.home),
            "a restore was killed before it was complete",
            "Remove the folder, or set CONCORDANCE_HOME to a new one, then run `concordance restore` again.",
            stops=True,
        )


def _listener(settings: Settings) -> Iterator[Check]:
    """Check that the HTTP interface can listen on its address: another machine's looks like a port that is taken."""
    host = settings.http_host
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((host, 0))
    except OSError as error:
        yield wrong(
            "ports",
            "CONCORDANCE_HTTP__HOST",
            f"cannot listen on {host}: {error.strerror}",
            "Give an address of this machine, or 0.0.0.0 for all of its addresses.",
            stops=True,
        )


def roots(settings: Settings) -> Iterator[Check]:
    """Yield the faults of file roots."""
    for root in settings.file_roots:
        yield from _root(root)
    yield from _overlapping(settings.file_roots)
    yield from _closed_to_services(settings)


def _root(root: FileRoot) -> Iterator[Check]:
    setting = f"{ROOTS} ({root.name})"
    if root.url.startswith("file:"):
        folder = local_folder(root.url)
        if not is_folder(folder) and not is_closed(folder):
            what = "is not a folder" if is_file(folder) else "does not exist"
            yield wrong(
                "file roots",
                setting,
                f"{folder} {what}",
                "Create or mount it, or correct its url; other roots are synced.",
            )
        elif not os.access(folder, os.R_OK | os.X_OK):
            account = f"setfacl -R -m u:{os.geteuid()}:rX,d:u:{os.geteuid()}:rX {shlex.quote(str(folder))}"
            yield wrong(
                "file roots",
                setting,
                f"{folder} cannot be read",
                f"Let this account read it and enter its parent folders, for example: {account}",
            )
    if "permissions" not in root.model_fields_set and root.owner is None:
        yield wrong(
            "file roots",
            setting,
            "no one may find its documents, because it has no permissions",
            'Add "permissions": ["domain:example.com"], or [] if sidecars name the readers of each file.',
        )


def _overlapping(given: Sequence[FileRoot]) -> Iterator[Check]:
    """Check that no root lies in another one: its files would be found by everyone who may find those of the other."""
    places = [(root, _place(root.url)) for root in given]
    for (outer, above), (inner, below) in permutations(places, 2):
        if below.startswith(above) and (below != above or outer.name < inner.name):
            yield wrong(
                "file roots",
                f"{ROOTS} ({inner.name})",
                f"it lies in the root {outer.name}, so its files are found twice: the second time by those who may find {outer.name}",
                f"Move it out of {outer.name}, or give its files sidecars with permissions, which count in both.",
            )


def _place(url: str) -> str:
    """Return the url with a slash at its end; of a folder its real path."""
    return f"{local_folder(url).resolve() if url.startswith('file:') else url}".rstrip("/") + "/"


def _closed_to_services(settings: Settings) -> Iterator[Check]:
    from orchestration.supervision import rights, run_state

    if run_state.account(settings) == "root":
        return
    for name, path in rights.unreadable(settings):
        is_key = name.startswith("CONCORDANCE_")
        setting = name if is_key else f"{ROOTS} ({name})"
        command = f"chgrp {rights.group(settings)} {path} && chmod 640 {path}" if is_key else f"chmod o+rX {path}"
        remedy = f"Let their account read it and enter its parent folders, for example: {command}"
        yield wrong("file roots", setting, f"{path} is readable by root but not by the services", remedy)


def _models(settings: Settings) -> Iterator[Check]:
    from resources.embedding.folder import read_folder

    if settings.embedding_provider == "local":
        try:
            read_folder(settings.embedding_model)
        except ConcordanceError as error:
            # later, the index determines the model
            yield refused("embedder", "CONCORDANCE_EMBEDDING_MODEL", error, stops=_is_new(settings))
    if settings.rerank_model is not None:
        from resources.embedding.cross_encoder import folder_of

        try:
            read_folder(str(folder_of(settings.rerank_model)))
        except ConcordanceError as error:
            yield refused("reranker", "CONCORDANCE_SEARCH__RERANK_MODEL", error)
    key = settings.google_service_account_file
    if key is not None and not (is_file(key) and os.access(key, os.R_OK)):
        setting = "CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE"
        yield wrong(
            "Google Drive",
            setting,
            f"there is no file {key} that this account can read",
            "Give the path of the account's JSON key.",
        )


def _profiles(settings: Settings) -> Iterator[Check]:
    """Check chunking profiles against the window of the settings' model, as far as that is known without loading it."""
    from assets.stages.profiles import PROFILES, resolve

    named = {"CONCORDANCE_SEARCH__CHUNK_PROFILE": settings.chunk_profile}
    named |= {
        f"{ROOTS} ({root.name}, profile)": root.profile for root in settings.file_roots if root.profile is not None
    }
    for setting, name in named.items():
        if name == "auto":
            continue
        try:
            resolve(name, _window(settings))
        except ConcordanceError as error:
            yield refused("profiles", setting, error, stops=name not in PROFILES or _is_new(settings))


def _window(settings: Settings) -> int:
    from resources.embedding import embedder
    from resources.embedding.folder import read_folder

    if settings.embedding_window is not None:
        return settings.embedding_window
    if settings.embedding_provider == "openai":
        return embedder(settings).window
    return read_folder(settings.embedding_model).window


def _keys(settings: Settings) -> Iterator[Check]:
    from resources import keys

    if settings.encryption_keys is not None:
        try:
            keys.fernet(settings)
        except ConcordanceError as error:
            yield refused("keys", "CONCORDANCE_ENCRYPTION_KEYS", error, stops=True)


def _groups(settings: Settings) -> Iterator[Check]:
    """Check the sources of groups: with a fault, their groups age until they grant nothing."""
    from resources.people import groups_file

    if settings.groups_file is not None:
        try:
            groups_file.read(settings.groups_file)
        except ConcordanceError as error:
            yield refused("groups", groups_file.SETTING, error)
    account = settings.reads_as_service_account and settings.google_subject is not None
    if settings.google_directory_api_url is not None and settings.drive_token is None and not account:
        yield wrong(
            "groups",
            "CONCORDANCE_GOOGLE_DIRECTORY_API_URL",
            "no credentials may read Google's directory",
            "Set CONCORDANCE_GOOGLE_SERVICE_ACCOUNT_FILE and CONCORDANCE_GOOGLE_SUBJECT (docs/groups.md).",
        )


def _is_new(settings: Settings) -> bool:
    """Return True if nothing has run in HOME yet."""
    return not (settings.home / "run").exists()
