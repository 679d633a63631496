"""What kind of thing a file is: its name and Drive's type enter, the type that is fetched and how, or the reason why not, leave."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from resources.errors import SkipDocumentError
from resources.filetypes import MIME_TYPES, SUPPORTED_MIME_TYPES, XLSX, declared, extension

GOOGLE_APPS = "application/vnd.google-apps."
FOLDER = f"{GOOGLE_APPS}folder"
SHORTCUT = f"{GOOGLE_APPS}shortcut"

EXPORTS: Mapping[str, str] = {
    f"{GOOGLE_APPS}document": "text/markdown",
    f"{GOOGLE_APPS}spreadsheet": XLSX,  # CSV holds the first sheet alone
    f"{GOOGLE_APPS}presentation": "text/plain",
}
"""Source: https://developers.google.com/workspace/drive/api/guides/ref-export-formats"""
_NAMES: Mapping[str, str] = {
    "drawing": "drawings",
    "form": "forms",
    "jam": "Jamboards",
    "map": "My Maps",
    "script": "Apps Script projects",
    "site": "sites",
    "vid": "Vids",
    "fusiontable": "fusion tables",
    "mail-layout": "mail layouts",
}
_TEXTS = frozenset(found for found in SUPPORTED_MIME_TYPES if found.startswith("text/")) | {
    "application/json",
    "application/x-ndjson",
}


class Kind(NamedTuple):
    """The type of the bytes that `fetch` brings, and whether Google makes them (`export`) or they are there (`media`)."""

    mime_type: str
    way: str


def kind_of(name: str, mime_type: str) -> Kind:
    """Return what is fetched of a file. Raises `SkipDocumentError` with the reason for a type that cannot be indexed."""
    if mime_type.startswith(GOOGLE_APPS):
        if mime_type in EXPORTS:
            return Kind(EXPORTS[mime_type], "export")
        kind = mime_type.removeprefix(GOOGLE_APPS)
        raise SkipDocumentError(
            f"Google {_NAMES.get(kind, f'files of type {kind}')} hold no text that can be exported. "
            "Supported of Google's own: Docs, Sheets and Slides."
        )
    mime_type = mime_type.partition(";")[0].strip().lower()
    by_name = MIME_TYPES.get(extension(name))
    if mime_type in SUPPORTED_MIME_TYPES and not (mime_type in _TEXTS and by_name in _TEXTS):
        return Kind(mime_type, "media")
    # Drive calls most text files text/plain, and what it does not know application/octet-stream
    return Kind(by_name or declared(name), "media")


def name_for(name: str, mime_type: str) -> str:
    """Return a name whose extension says what the bytes are, for checking the one against the other."""
    if MIME_TYPES.get(extension(name)) == mime_type:
        return name
    return name + next(ending for ending, found in MIME_TYPES.items() if found == mime_type)
