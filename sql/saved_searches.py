"""Statements about saved searches: `sql/saved_searches.sql`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from sql.family import AsyncFamily, Json
from sql.fields import Moment

SavedFilters = Annotated[
    dict[str, Any],
    Meta(title="SavedFilters", description="Filters as a search takes them, without those that are empty."),
]


class SavedSearch(msgspec.Struct, frozen=True):
    """A search that its owner keeps."""

    search_id: str
    """ID of the saved search."""
    name: str
    """Its name, of which its owner has one."""
    query: str
    """What is searched for."""
    filters: SavedFilters
    """Filters that every result must match."""
    saved_at: Moment
    """When it was saved."""


class SavedSearches(AsyncFamily, path="saved_searches.sql"):
    """What a person keeps; nobody else's exists for them."""

    in_turn = frozenset({"save"})

    async def saved_of(self, *, email: str) -> list[SavedSearch]: ...
    async def save(
        self, *, search_id: str, email: str, name: str, query: str, filters: Json, now: datetime, most: int
    ) -> SavedSearch | None: ...
    async def remove(self, *, search_id: str, email: str) -> int: ...
