"""Phrases by which a question states filters, and the names that it may use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from serving.search.understanding.lookup import NameIndex

Kind = Annotated[
    Literal["source", "type", "author", "channel", "date", "place", "without"],
    Meta(title="FilterKind", description="A kind of filter that a query states in words."),
]
KINDS: tuple[Kind, ...] = ("source", "type", "author", "channel", "date", "place", "without")


class Names(NamedTuple):
    """Authors, each with the words of the name, Slack channels, and folders of documents that the caller may read."""

    authors: Mapping[str, frozenset[str]] = {}
    channels: frozenset[str] = frozenset()
    folders: Mapping[str, frozenset[str]] = {}
    """IDs of folders by their path, and by their own name, in lower case."""
    lookup: NameIndex = NameIndex()
    """All of them, by their words."""


class Phrase(NamedTuple):
    """A filter as the question states it, at `start` to `end`. `values` are those of the filter; of a date, the first and the last day.

    `operator`: it is written as `type:pdf`, not in words.
    """

    kind: Kind
    start: int
    end: int
    values: tuple[str | None, ...]
    field: str = "modified_at"
    operator: bool = False
