"""The cursor of a partition: where its change feed goes on, and the place in a listing that is under way."""

from __future__ import annotations

import msgspec


class Place(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A position in the queries that a listing consists of. `page` None: the query's first page."""

    query: int = 0
    page: str | None = None
    size: int = 0
    """Files of a page; the same for all pages of a query."""


class Cursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is saved with a batch. While `listing` is set the feed waits at the token that was taken before the listing began."""

    token: str
    account: str
    """Whose page tokens these are and what was read with them (`view`); any other view lists from the beginning."""
    watched: str = ""
    """The last of the shortcuts' targets that was looked at, where there are too many for one sync."""
    listing: Place | None = None


def view(account: str, *, follows_shortcuts: bool) -> str:
    """Return what a cursor is good for: one account, under the setting that decides which files belong to a root.

    "folders" tells it from cursors of listings that did not read who may find each folder.
    """
    scope = "with shortcuts" if follows_shortcuts else "within roots"
    return f"{account}, folders, {scope}"


def encode(cursor: Cursor) -> str:
    """Return the cursor as it is saved."""
    return msgspec.json.encode(cursor).decode()


def decode(text: str | None) -> Cursor | None:
    """Return a saved cursor; None, which means a listing from the beginning, for none or one that is not understood."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Cursor)
    except msgspec.MsgspecError:
        return None
