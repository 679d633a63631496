"""The GraphQL schema for viewers of Dagster: what is not allowed does not exist in it, and nothing in it changes anything.

Dagster's schema is read with all of its fields by everyone who may open it. Viewers may know states, times, counts and names of sources
(`GET /api/sources`), but no documents, and not what runs print. `viewer_fields.txt` lists what its pages need for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from graphene import Schema
from graphql import GraphQLInterfaceType, GraphQLObjectType, GraphQLSchema

FIELDS = Path(__file__).with_name("viewer_fields.txt")
NOT_SHOWN = "Shown to operators and administrators only."
EMPTY: Mapping[str, Any] = {
    "DaemonStatus.lastHeartbeatErrors": [],
    "InstigationTick.cursor": None,
    "InstigationTick.logKey": None,
    "JsonMetadataEntry.jsonString": "{}",
    "LocalFileCodeReference.filePath": "",
    "MarkdownMetadataEntry.mdStr": NOT_SHOWN,
    "MetadataItemDefinition.value": NOT_SHOWN,
    "NotebookMetadataEntry.path": "",
    "PathMetadataEntry.path": "",
    "PythonError.errorChain": [],
    "PythonError.message": NOT_SHOWN,
    "PythonError.stack": [],
    "RepositoryMetadata.value": NOT_SHOWN,
    "Run.runConfigYaml": "",
    "SensorData.lastCursor": None,
    "SensorData.lastRunKey": None,
    "Table.records": [],
    "TextMetadataEntry.text": NOT_SHOWN,
}
"""Fields that Dagster's pages ask for everywhere, and what viewers get instead: texts may name documents or folders of this machine."""


def allowed_fields() -> dict[str, frozenset[str]]:
    """Return the fields that viewers may read, by type."""
    lines = [line for line in FIELDS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name: frozenset(fields.split()) for name, fields in (line.split(": ") for line in lines)}


def viewer_schema(schema: Schema) -> Schema:
    """Reduce a schema to what viewers may read. The schema is changed, so it must not be used for others."""
    full: GraphQLSchema = schema.graphql_schema
    allowed = allowed_fields()
    for name, kind in full.type_map.items():
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType) and not name.startswith("__"):
            kept = allowed.get(name, frozenset()).union(*(allowed.get(one.name, ()) for one in kind.interfaces))
            for field in kind.fields.keys() - kept:
                del kind.fields[field]
            for field in kind.fields:
                if (path := f"{name}.{field}") in EMPTY:
                    kind.fields[field].resolve = partial(_empty, EMPTY[path])
    # Types without any field that is left are not valid, but nothing reads them.
    reduced = full.to_kwargs() | {"mutation": None, "subscription": None, "assume_valid": True}
    schema.graphql_schema = GraphQLSchema(**reduced)
    return schema


def _empty(value: Any, *_arguments: Any, **_values: Any) -> Any:
    return value
