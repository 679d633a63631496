"""Determine which lake tables must exist and which live documents could not be rebuilt from stored contents."""

from __future__ import annotations

from tempfile import TemporaryFile
from typing import IO, NamedTuple

import msgspec

from assets.chunked import TABLE as CHUNKED
from assets.intake.rows import raw_table
from assets.parsed import TABLE as PARSED
from resources.core.domain import SourceName
from resources.core.scratch import full
from resources.core.tables import embedded_table
from resources.settings import Settings
from resources.stores.blobs import Blobs
from resources.stores.postgres import Connection, session
from sql.upkeep import LakeContents
from sql.upkeep_rows import SizedContent


class ExpectedLake(NamedTuple):
    """Tables and contents that the registry needs in the lake."""

    tables: set[str]
    contents: IO[bytes]
    """A line of JSON for each `SizedContent`."""


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


def expected(settings: Settings) -> ExpectedLake:
    """Return what the registry needs now. Whoever looks for it in the lake may take hours, and keeps no transaction open meanwhile."""
    contents = TemporaryFile()  # noqa: SIM115 - read by `lost_contents`
    with session(settings.postgres_dsn) as connection:
        rows = LakeContents(connection).live_contents()
        try:
            contents.writelines(msgspec.json.encode(row) + b"\n" for row in rows)
            contents.flush()
        except OSError as error:
            raise full(error) from error
        return ExpectedLake(expected_tables(connection), contents)


def lost_contents(wanted: ExpectedLake, blobs: Blobs) -> list[Content]:
    """Return those contents of live documents that could not be rebuilt from the lake. Closes the file."""
    found: list[Content] = []
    with wanted.contents as lines:
        lines.seek(0)
        for line in lines:
            row = msgspec.json.decode(line, type=SizedContent)
            stored = blobs.size(row.content_hash)
            if stored is None:
                found.append(Content(row.source_id, "its bytes are missing"))
            elif row.size is not None and stored < row.size:
                found.append(Content(row.source_id, f"{stored} of {row.size} bytes are stored"))
    return found
