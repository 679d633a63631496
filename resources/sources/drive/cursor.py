"""The cursor of a partition: where its change feed continues, and the place in a listing that is under way."""

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class ListingPosition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A position in the queries of a listing. `page` None: the query's first page."""

    query: int = 0
    page: str | None = None
    size: int = 0
    """Page size; the same for all pages of a query."""


class DriveCursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Saved with a batch. While `listing` is set, the feed waits at the token taken before the listing began."""

    token: str
    account: str
    """The view (`view`) that the page tokens belong to; with any other view the root is listed from the beginning."""
    listing: ListingPosition | None = None


_EXPORTS = "slides as pptx"
"""Changes with the format of an export: every root is then listed again, and what is exported otherwise is fetched."""


def view(
    account: str,
    *,
    follows_shortcuts: bool,
    links: str = "nobody",
    labels: Mapping[str, str] = MappingProxyType({}),
    comments: bool = False,
    largest: int | None = None,
) -> str:
    """Return what a cursor is valid for: one account, and the settings that decide which files belong to a root, are refused, and who
    finds them.

    "folders and those above, ends of shares" distinguishes it from cursors of older versions, which did not read who may find each
    folder, did not notice shares of folders above a root, or did not ask until when someone may read a file of a shared drive.
    """
    scope = "with shortcuts and linked folders" if follows_shortcuts else "within roots"
    who = "" if links == "nobody" else f", links for {links}"
    by_label = "".join(f", {label}: {rule}" for label, rule in sorted(labels.items()))
    size = "" if largest is None else f", at most {largest} bytes"
    return f"{account}, folders and those above, ends of shares, {scope}{who}{by_label}, {_EXPORTS}{', comments' if comments else ''}{size}"


def encode(cursor: DriveCursor) -> str:
    return msgspec.json.encode(cursor).decode()


def decode(text: str | None) -> DriveCursor | None:
    """Return a stored cursor; None, which means a listing from the beginning, if there is none or it is invalid."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=DriveCursor)
    except msgspec.MsgspecError:
        return None
