"""Type in which a file is fetched, by its name and Drive's type, or the reason why it cannot be indexed."""

from collections.abc import Mapping
from typing import NamedTuple

from resources.core.errors import SkipDocumentError
from resources.core.filetypes import MIME_TYPES, PPTX, SUPPORTED_MIME_TYPES, XLSX, declared, extension

GOOGLE_APPS = "application/vnd.google-apps."
FOLDER = f"{GOOGLE_APPS}folder"
SHORTCUT = f"{GOOGLE_APPS}shortcut"

DOCUMENT = f"{GOOGLE_APPS}document"
SLIDES = f"{GOOGLE_APPS}presentation"
WITH_COMMENTS = "export with comments"
"""How Docs are fetched where `drive_comments` is on. Exports of other types hold comments already."""

EXPORTS: Mapping[str, str] = {
    DOCUMENT: "text/markdown",
    f"{GOOGLE_APPS}spreadsheet": XLSX,  # CSV has only the first sheet
    SLIDES: PPTX,  # plain text has neither notes nor the slides' numbers
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
    """The type of the bytes that `fetch` returns, and whether Google exports them (`export`) or stores them (`media`)."""

    mime_type: str
    way: str


def kind_of(name: str, mime_type: str) -> Kind:
    """Return what is fetched for a file. Raises `SkipDocumentError` with the reason if its type cannot be indexed."""
    if mime_type.startswith(GOOGLE_APPS):
        if mime_type in EXPORTS:
            return Kind(EXPORTS[mime_type], "export")
        kind = mime_type.removeprefix(GOOGLE_APPS)
        raise SkipDocumentError(
            f"Google {_NAMES.get(kind, f'files of type {kind}')} contain no text that can be exported. "
            "Supported Google formats: Docs, Sheets and Slides."
        )
    mime_type = mime_type.partition(";")[0].strip().lower()
    by_name = MIME_TYPES.get(extension(name))
    if mime_type in SUPPORTED_MIME_TYPES and not (mime_type in _TEXTS and by_name in _TEXTS):
        return Kind(mime_type, "media")
    # Drive reports most text files as text/plain, and unknown types as application/octet-stream
    return Kind(by_name or declared(name, mime_type), "media")


def name_for(name: str, mime_type: str) -> str:
    """Return a name whose extension matches the type of the bytes, for checking one against the other."""
    if MIME_TYPES.get(extension(name)) == mime_type:
        return name
    return name + next(ending for ending, found in MIME_TYPES.items() if found == mime_type)
