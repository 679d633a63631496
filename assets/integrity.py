"""Whether the stores can be read and every live document rebuilt: the lake's tables are opened, and each content is looked for."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.parsed import TABLE as PARSED
from resources.blobs import Blobs
from resources.errors import ConcordanceError
from resources.lake import Lake
from resources.postgres import Connection
from sql import queries

upkeep = queries("upkeep")


class Content(NamedTuple):
    """A live document whose bytes are not there, or not all of them."""

    source_id: str
    reason: str


def damaged_tables(lake: Lake, *, indexed: bool) -> dict[str, str]:
    """Return what is wrong with each table that cannot be read. With documents in the index, the texts' tables must be there."""
    names = lake.names()
    faults: dict[str, str] = {}
    for name in names:
        try:
            if lake.open(name) is None:
                faults[name] = "its log is missing"
            else:
                lake.scan(name).select(pl.len()).collect()
        except (ConcordanceError, pl.exceptions.PolarsError, OSError) as error:
            faults[name] = str(error).splitlines()[0]
    if indexed:
        faults |= {name: "the table is missing" for name in (PARSED, CHUNKED) if name not in names}
    return faults


def lost_contents(connection: Connection, blobs: Blobs) -> list[Content]:
    """Return live documents that could not be rebuilt from the lake, by source id."""
    found: list[Content] = []
    for row in upkeep.live_contents(connection):
        stored = blobs.size(row["content_hash"])
        if stored is None:
            found.append(Content(row["source_id"], "its bytes are missing"))
        elif row["size"] is not None and stored < row["size"]:
            found.append(Content(row["source_id"], f"{stored} of {row['size']} bytes are stored"))
    return found
