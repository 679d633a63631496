"""Facets of a search: how many of its results have which source, type, author, collection or tag."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from resources.core.domain import SourceName
from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from serving.search.retrieval.passage import Passage

PLAIN = ("source_type", "mime_type", "author", "collection_id")
_TAG = "tags."
_PATTERN = rf"^({'|'.join(PLAIN)}|tags\.[A-Za-z0-9_-]{{1,64}})$"
_FACET = re.compile(_PATTERN)
MOST_VALUES = 20
"""Values of a facet that are returned."""

Facet = Annotated[
    str,
    Meta(
        max_length=69,
        description="`source_type`, `mime_type`, `author`, `collection_id`, or `tags.` and the name of a tag.",
        extra_json_schema={"pattern": _PATTERN},
    ),
]


class FacetValue(msgspec.Struct, frozen=True):
    """A value, and how many of the results have it."""

    value: str
    """The value, as the filter of that name takes it."""
    count: int
    """Number of results with this value."""


def facets(passages: Sequence[Passage], names: Sequence[str]) -> dict[str, list[FacetValue]]:
    """Return the most frequent values of each facet among results. Raises `InvalidRequestError` for an unknown facet."""
    found: dict[str, list[FacetValue]] = {}
    for name in names:
        if not _FACET.fullmatch(name):
            raise InvalidRequestError(f"facets: {name[:100]!r} is not a facet; allowed: {', '.join(PLAIN)}, tags.NAME.")
        counts = Counter(value for passage in passages for value in set(_values(passage, name)))
        ordered = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
        found[name] = [FacetValue(value, count) for value, count in ordered[:MOST_VALUES]]
    return found


def _values(passage: Passage, name: str) -> Iterator[str]:
    if name == "author":
        if passage.source_type == SourceName.SLACK:
            yield from _texts(passage.tags.get("participants"))
        yield from _texts(passage.author)
    else:
        yield from _texts(
            passage.tags.get(name.removeprefix(_TAG)) if name.startswith(_TAG) else getattr(passage, name)
        )


def _texts(value: Any) -> Iterator[str]:
    """Yield a value, or each one of a list; numbers, true and false as JSON writes them."""
    for one in value if is_list(value) else [value]:
        if one is not None:
            yield one if isinstance(one, str) else msgspec.json.encode(one).decode()
