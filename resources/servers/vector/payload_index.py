"""Payload indexes: convert Qdrant's field schema to the engine's index parameters.

Source: https://api.qdrant.tech/api-reference/indexes/create-field-index
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import qdrant_edge as edge

from resources.servers.vector.config import pick
from resources.servers.vector.faults import format_error

_TYPES = {
    "keyword": (edge.PayloadSchemaType.Keyword, edge.KeywordIndexParams),
    "integer": (edge.PayloadSchemaType.Integer, edge.IntegerIndexParams),
    "float": (edge.PayloadSchemaType.Float, edge.FloatIndexParams),
    "geo": (edge.PayloadSchemaType.Geo, edge.GeoIndexParams),
    "text": (edge.PayloadSchemaType.Text, edge.TextIndexParams),
    "bool": (edge.PayloadSchemaType.Bool, edge.BoolIndexParams),
    "datetime": (edge.PayloadSchemaType.Datetime, edge.DatetimeIndexParams),
    "uuid": (edge.PayloadSchemaType.Uuid, edge.UuidIndexParams),
}


def _names(enum: type[Enum]) -> dict[str, Any]:
    """Return the members of an engine enum by attribute, since it is not a Python enum."""
    return {name.lower(): getattr(enum, name) for name in dir(enum) if name[0].isupper()}


_TOKENIZERS = _names(edge.TokenizerType)
_LANGUAGES = _names(edge.Language)
_SNOWBALL = _names(edge.SnowballLanguage)
_MEMORY = _names(edge.Memory)


def to_schema(schema: str | dict[str, Any]) -> Any:
    """Convert a field schema: a type's name, or an object with `type` and its parameters."""
    if isinstance(schema, str):
        return _type(schema)[0]
    params = {name: value for name, value in schema.items() if value is not None}
    kind = params.pop("type", None)
    made = _type(kind)[1]
    for name, choices in (("tokenizer", _TOKENIZERS), ("memory", _MEMORY)):
        if name in params:
            params[name] = pick(choices, params[name], name)
    if "stopwords" in params:
        params["stopwords"] = _stopwords(params["stopwords"])
    if "stemmer" in params:
        params["stemmer"] = _stemmer(params["stemmer"])
    if isinstance(params.get("scoring"), dict):
        params["scoring"] = True
    return made(**params)


def type_name(data_type: edge.PayloadSchemaType) -> str:
    """Return the type's name: `keyword`, `integer` and so on."""
    return str(data_type).rpartition(".")[2].lower()


def _type(name: Any) -> tuple[Any, Any]:
    if not isinstance(name, str) or name not in _TYPES:
        raise format_error(f"field_schema: unknown type `{name}`, expected one of {', '.join(_TYPES)}")
    return _TYPES[name]


def _stopwords(value: str | dict[str, Any]) -> Any:
    if isinstance(value, str):
        return pick(_LANGUAGES, value, "stopwords")
    languages = {pick(_LANGUAGES, name, "stopwords") for name in value.get("languages") or ()}
    return edge.StopwordsSet(languages or None, set(value.get("custom") or ()) or None)  # pyright: ignore[reportArgumentType] pick() gives no None for a name


def _stemmer(value: dict[str, Any]) -> Any:
    if value.get("type") == "none":
        return edge.DisabledStemmer()
    return edge.SnowballParams(pick(_SNOWBALL, value.get("language", "english"), "stemmer"))  # pyright: ignore[reportArgumentType] pick() gives no None for a name
