"""Typed SQL statements.

A subclass of `Family` declares each statement of a file as a method without a body: its parameters, and its result as a struct, a single
value, a list of these, or the number of changed rows. `tests/integration/test_statements.py` prepares every statement on a migrated
database and compares it with its declaration.
"""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

import aiosql
import msgspec
import psycopg
from psycopg.rows import class_row, dict_row, scalar_row

from sql import ROOT

Json = Annotated[Any, "json"]
"""A parameter that is passed to Postgres as JSON."""
_encoder = msgspec.json.Encoder()


class Declared(NamedTuple):
    """A statement's text, and what its declaration says."""

    text: str
    parameters: dict[str, Any]
    row: Any
    """Type of one row: a struct, `dict`, or the type of the only column."""
    many: bool


class Family:
    """The statements of one file, on a synchronous connection."""

    path: ClassVar[str]
    declared: ClassVar[dict[str, Declared]]

    def __init_subclass__(cls, path: str | None = None) -> None:
        """Replace the declared methods by ones that run their statements."""
        if path is None:
            return
        cls.path = path
        texts = aiosql.from_path(ROOT / path, "psycopg", mandatory_parameters=False)
        methods = {name: value for name, value in vars(cls).items() if callable(value) and not name.startswith("_")}
        cls.declared = {name: _declared(method, getattr(texts, name).sql) for name, method in methods.items()}
        for name, declared in cls.declared.items():
            setattr(cls, name, _runner(declared))

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.bound: dict[str, Any] = {}


class SourceFamily(Family):
    """Statements about one source: the parameter `source` of each is this one."""

    def __init__(self, connection: psycopg.Connection[Any], source: str) -> None:
        super().__init__(connection)
        self.bound = {"source": source}


def _declared(method: Callable[..., Any], text: str) -> Declared:
    hints = get_type_hints(method, include_extras=True)
    result = hints.pop("return")
    many = get_origin(result) is list
    if many:
        (result,) = get_args(result)
    elif get_origin(result) is UnionType:
        (result,) = (one for one in get_args(result) if one is not NoneType)
    return Declared(text, hints, result, many)


def _runner(declared: Declared) -> Callable[..., Any]:
    kind = get_origin(declared.row) or declared.row
    factory: Any = scalar_row
    if kind is dict:
        factory = dict_row
    elif isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        factory = class_row(kind)
    json = [name for name, hint in declared.parameters.items() if hint is Json]

    def run(self: Family, **parameters: Any) -> Any:
        encoded = {name: _encoder.encode(parameters[name]).decode() for name in json if parameters[name] is not None}
        cursor = self.connection.cursor(row_factory=factory)
        cursor.execute(declared.text.encode(), {**self.bound, **parameters, **encoded} or None)
        if cursor.description is None:
            return cursor.rowcount
        return cursor.fetchall() if declared.many else cursor.fetchone()

    return run
