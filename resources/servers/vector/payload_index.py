"""Payload indexes: convert Qdrant's field schema to the engine's index parameters.

Source: https://api.qdrant.tech/api-reference/indexes/create-field-index
"""

from typing import Any

import qdrant_edge as edge

from resources.servers.vector.faults import format_error

_KINDS: dict[str, tuple[Any, Any]] = {
    "keyword": (edge.PayloadSchemaType.Keyword, edge.KeywordIndexParams),
    "integer": (edge.PayloadSchemaType.Integer, edge.IntegerIndexParams),
    "float": (edge.PayloadSchemaType.Float, edge.FloatIndexParams),
    "bool": (edge.PayloadSchemaType.Bool, edge.BoolIndexParams),
    "datetime": (edge.PayloadSchemaType.Datetime, edge.DatetimeIndexParams),
    "uuid": (edge.PayloadSchemaType.Uuid, edge.UuidIndexParams),
}


def to_schema(schema: str | dict[str, Any]) -> Any:
    """Convert a field schema: a type's name, or an object with `type` and its parameters."""
    params = {"type": schema} if isinstance(schema, str) else {k: v for k, v in schema.items() if v is not None}
    name = params.pop("type", None)
    if name not in _KINDS:
        raise format_error(f"field_schema: unknown variant `{name}`, expected one of {', '.join(_KINDS)}")
    kind, with_params = _KINDS[name]
    return kind if isinstance(schema, str) else with_params(**params)


def type_name(data_type: edge.PayloadSchemaType) -> str:
    """Return the type's name: `keyword`, `integer` and so on."""
    return str(data_type).rpartition(".")[2].lower()
