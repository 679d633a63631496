"""Determine which lake tables must exist and which live documents could not be rebuilt from stored contents."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from assets.chunked import TABLE as CHUNKED
from assets.intake.rows import raw_table
from assets.parsed import TABLE as PARSED
from resources.core.domain import SourceName
from resources.core.tables import embedded_table
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection
from sql.upkeep import LakeContents
from sql.upkeep_rows import SizedContent


class Content(NamedTuple):
    """A live document whose stored bytes are missing or incomplete."""

    source_id: str
    reason: str


def expected_tables(connection: Connection) -> set[str]:
    """Return the lake tables that must exist for the documents in the registry."""
    found = LakeContents(connection).lake_contents()
    names = {raw_table(SourceName(source)) for source in found.sources}
    if found.indexed:
        names |= {PARSED, CHUNKED}
        names |= {embedded_table(one["model"], one["dimensions"]) for one in found.models}
    return names


def lost_contents(contents: Iterable[SizedContent], blobs: Blobs) -> list[Content]:
    """Return those of these contents of live documents (`LakeContents.live_contents`) that could not be rebuilt from the lake."""
    found: list[Content] = []
    for row in contents:
        stored = blobs.size(row.content_hash)
        if stored is None:
            found.append(Content(row.source_id, "its bytes are missing"))
        elif row.size is not None and stored < row.size:
            found.append(Content(row.source_id, f"{stored} of {row.size} bytes are stored"))
    return found
