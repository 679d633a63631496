"""Every typed SQL statement, prepared on a migrated database and compared with its declaration."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from datetime import date, datetime
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints
from uuid import UUID

import msgspec
import psycopg
import pytest

import sql
from sql import ROOT
from sql.family import ArrayText, Declared, Json, JsonText, Statements

TYPES: dict[str, Any] = {
    "text": str,
    "uuid": str,
    "bool": bool,
    "int4": int,
    "int8": int,
    "float8": float,
    "timestamptz": datetime,
    "date": date,
    "jsonb": Json,
    "bytea": bytes,
    "float4": float,
    "void": NoneType,
    "_text": list[str],
    "_uuid": list[str],
    "_int4": list[int],
    "_int8": list[int],
    "_timestamptz": list[datetime],
}
WRITTEN: dict[str, tuple[Any, ...]] = {
    "jsonb": (JsonText,),
    "_uuid": (ArrayText,),
    "_text": (ArrayText, list[str | None]),
}
"""Other types of parameters that Postgres takes."""
COUNTS = ("synced", "skipped", "deleted", "failed", "embedded")
FILTERED = {
    "Pending.content_hash",
    "Pending.content_key",
    "Requested.full_sync",
    *(f"{name}.seen_at" for name in ("AgentEntry", "ConnectedAgent")),
    "CheckedPartition.acl_checked_at",
    # columns of the view checked_documents, which are not null in its table
    *(f"Document.{name}" for name in ("title", "source_type", "mime_type", "tags", "chunk_count")),
    *(f"LatestDocument.{name}" for name in ("title", "mime_type")),
    *(f"Original.{name}" for name in ("title", "mime_type", "path")),
    # columns of the view active_chunks, likewise
    *(
        f"{name}.{column}"
        for name in ("ChunkPlace", "ChunkText")
        for column in ("chunk_index", "start_char", "end_char", "section_path")
    ),
    "ChunkText.chunk_text",
    # columns of the view requested_syncs, likewise
    *(f"{name}.{column}" for name in ("JobReport", "SyncJobRow") for column in ("source", "status", *COUNTS)),
    *(f"JobReport.{name}" for name in ("documents", "done", "passages", "expected")),
    "SyncJobRow.started_at",
    "SourceTotals.source",
    "PartitionCheck.checked_at",
    # columns of the view capacity_forecasts
    *(f"Forecast.{name}" for name in ("what", "place", "used", "most", "days")),
    "UnstoredRating.verdict",
    *(f"StoredResponse.{name}" for name in ("fingerprint", "size", "status", "media_type", "body")),
    "EndedJob.completed_at",
    "OwnKey.scopes",
    "OwnKey.expires_at",
    "DueDocument.deleted_at",
    "ExpectedContent.content_hash",
    "SizedContent.content_hash",
    "StoredContent.content_hash",
    *(f"LiveEntry.{name}" for name in ("collection", "chunk_count", "content")),
}
"""Columns that may be null in the table, but not in these results."""
FAMILIES = [
    one
    for found in pkgutil.iter_modules(sql.__path__)
    for module in [importlib.import_module(f"sql.{found.name}")]
    for one in vars(module).values()
    if isinstance(one, type) and issubclass(one, Statements) and one.__module__ == module.__name__ != "sql.family"
]


def names(path: str) -> set[str]:
    """Return the names of the statements in a file, or in a folder with one file for each."""
    if not path.endswith(".sql"):
        return {file.stem for file in (ROOT / path).glob("*.sql")}
    found = re.findall(r"^-- name: (\w+)", (ROOT / path).read_text(), re.MULTILINE)
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("path", sorted({family.path for family in FAMILIES}))
def test_every_statement_is_declared(path: str) -> None:
    declared = [name for family in FAMILIES if family.path == path for name in family.declared]
    assert set(declared) == names(path)


@pytest.mark.parametrize("family", FAMILIES)
def test_statements_are_as_declared(database: str, family: type[Statements]) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS dagster")
        connection.execute("CREATE TABLE IF NOT EXISTS dagster.run_tags (run_id text, key text, value text)")
        connection.execute("CREATE TABLE IF NOT EXISTS dagster.runs (run_id text, status text)")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS dagster.asset_check_executions (id bigint, run_id text, asset_key text, check_name text)"
        )
        faults = {
            name: found
            for name, declared in family.declared.items()
            if (found := list(_faults(connection, declared, family.binds)))
        }
    assert faults == {}


def _faults(connection: psycopg.Connection[Any], declared: Declared, bound: dict[str, Any]) -> Iterator[str]:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", declared.text)))
    hints = declared.parameters | {name: hint for name, hint in bound.items() if name in names}
    if set(names) != hints.keys():
        yield f"has the parameters {names}"
        return
    text = declared.text.replace("%%", "%")
    for number, name in enumerate(names, 1):
        text = text.replace(f"%({name})s", f"${number}")
    prepared = connection.pgconn.prepare(b"", text.encode())
    described = connection.pgconn.describe_prepared(b"")
    if prepared.error_message or described.error_message:
        yield (prepared.error_message or described.error_message).decode()
        connection.rollback()
        return
    for number, name in enumerate(names):
        kind = _type(connection, described.param_type(number))
        if not _allows(hints[name], kind) and not {*WRITTEN.get(kind, ())} & {hints[name], *get_args(hints[name])}:
            yield f"the parameter {name} is {kind}"
    columns = {(described.fname(number) or b"").decode(): number for number in range(described.nfields)}
    if isinstance(declared.row, type) and issubclass(declared.row, msgspec.Struct):
        fields = get_type_hints(declared.row)
        if columns.keys() != fields.keys():
            yield f"returns {sorted(columns)}"
            return
    elif get_origin(declared.row) is dict:
        return
    else:
        fields = dict.fromkeys(columns, declared.row)
        if len(columns) > 1 or (not columns and declared.row not in {int, NoneType}):
            yield f"returns {sorted(columns)}"
    for name, number in columns.items():
        kind = _type(connection, described.ftype(number))
        if not _allows(fields[name], kind, UUID):
            yield f"{name} is {kind}"
        elif isinstance(declared.row, type) and issubclass(declared.row, msgspec.Struct):
            nullable = _nullable(connection, described.ftable(number), described.ftablecol(number))
            if (
                nullable
                and type(None) not in get_args(fields[name])
                and f"{declared.row.__name__}.{name}" not in FILTERED
            ):
                yield f"{name} may be null"


def _type(connection: psycopg.Connection[Any], oid: int) -> str:
    row = connection.execute("SELECT typname FROM pg_type WHERE oid = %s", [oid]).fetchone()
    assert row is not None
    return str(row[0])


def _nullable(connection: psycopg.Connection[Any], table: int, column: int) -> bool:
    """Return True if the column of a table may be null; False for an expression."""
    row = connection.execute(
        "SELECT NOT attnotnull FROM pg_attribute WHERE attrelid = %s AND attnum = %s", [table, column]
    ).fetchone()
    return row is not None and bool(row[0])


def _allows(hint: Any, kind: str, uuid: Any = str) -> bool:
    """Return True if a value of this type may have this hint; psycopg takes a `uuid` as text and returns it as an object."""
    if get_origin(hint) is Literal:  # these values only: of texts, the table's constraint allows no others
        return {type(one) for one in get_args(hint)} == {TYPES.get(kind)}
    wanted = uuid if kind == "uuid" else TYPES.get(kind)
    return (
        wanted == hint
        or wanted in get_args(hint)
        or (wanted is Json and (hint is Any or get_origin(hint) in {dict, list}))
    )
