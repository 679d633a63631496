"""The GraphQL schema for viewers: only fields of the list, no changes, and names that this version of Dagster has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dagster_graphql.schema import create_schema
from graphql import GraphQLInterfaceType, GraphQLObjectType, GraphQLSchema, graphql_sync

from orchestration.supervision.viewer_schema import EMPTY, allowed_fields, viewer_schema

LOGS = (
    "capturedLogs",
    "capturedLogsMetadata",
    "logsForRun",
    "eventConnection",
    "computeLogFileData",
    "runConfig",
    "logEvents",
)


@pytest.fixture(scope="module")
def schema() -> GraphQLSchema:
    return viewer_schema(create_schema()).graphql_schema


def fields(schema: GraphQLSchema) -> Iterator[tuple[str, str]]:
    for name, kind in schema.type_map.items():
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType) and not name.startswith("__"):
            yield from ((name, field) for field in kind.fields)


def test_it_has_the_fields_of_the_list_and_no_others(schema: GraphQLSchema) -> None:
    listed = {(name, field) for name, some in allowed_fields().items() for field in some}
    full = create_schema().graphql_schema
    assert listed <= set(fields(full)), "Dagster has changed: remove or rename these in viewer_fields.txt"
    interfaces = {
        (name, field)
        for name, kind in full.type_map.items()
        if isinstance(kind, GraphQLObjectType | GraphQLInterfaceType)
        for interface in kind.interfaces
        for field in allowed_fields().get(interface.name, ())
    }
    assert set(fields(schema)) == listed | interfaces
    assert schema.mutation_type is None
    assert schema.subscription_type is None


def test_no_field_shows_logs_or_configuration(schema: GraphQLSchema) -> None:
    names = {field for _, field in fields(schema)}
    assert names.isdisjoint(LOGS)
    for name in LOGS[:3]:
        result = graphql_sync(schema, f"{{ {name} {{ __typename }} }}")
        assert result.errors is not None
        assert "Cannot query field" in result.errors[0].message


def test_fields_that_may_quote_are_empty(schema: GraphQLSchema) -> None:
    assert {tuple(path.split(".")) for path in EMPTY} <= set(fields(schema))
    for path, value in EMPTY.items():
        name, field = path.split(".")
        kind = schema.type_map[name]
        assert isinstance(kind, GraphQLObjectType)
        resolve = kind.fields[field].resolve
        assert resolve is not None
        assert resolve(object(), None) == value
