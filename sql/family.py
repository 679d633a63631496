"""Typed SQL statements.

A subclass of `Family`, `AsyncFamily` or `QueuedFamily` declares statements as methods without a body: their parameters, and their result as
a struct, a single value, a list of these, or the number of changed rows. Its path is a file with named statements (`registry/jobs.sql`)
or a folder with one file for each (`serving`). `tests/integration/test_statements.py` prepares every statement on a migrated database and
compares it with its declaration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from datetime import datetime
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, NamedTuple, Protocol, get_args, get_origin, get_type_hints

import msgspec
import psycopg
from psycopg.rows import class_row, dict_row, scalar_row

from sql import ROOT, load, statement

Json = Annotated[Any, "json"]
"""A parameter that is passed to Postgres as JSON."""
JsonText = Annotated[str, "json"]
"""A parameter that is JSON already."""
ArrayText = Annotated[str, "array"]
"""A parameter that is an array in Postgres' notation; psycopg would write a list element by element."""
PAGE_ROWS = 5000
"""Rows of a streamed statement that are fetched at a time."""
_encoder = msgspec.json.Encoder()


class Declared(NamedTuple):
    """A statement's text, and what its declaration says."""

    name: str
    text: str
    parameters: dict[str, Any]
    row: Any
    """Type of one row: a struct, `dict`, or the type of the only column."""
    many: bool
    factory: Any
    """Makes a row of its columns, for psycopg."""
    streamed: bool = False
    """Its rows are fetched in pages, while the caller goes through them."""
    prepare: bool | None = None
    """False: planned again for the values of each call."""
    binary: bool = False
    """It has a column of bytes, which take twice the room as text."""
    in_turn: bool = False
    """It waits for the other changes of the account `email`, and then sees them."""

    def encoded(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters with those that are declared as `Json` encoded."""
        json = [name for name, hint in self.parameters.items() if hint is Json and parameters[name] is not None]
        return {**parameters, **{name: _encoder.encode(parameters[name]).decode() for name in json}}


class Statements:
    """Declared statements; a subclass of this class says how they run."""

    path: ClassVar[str]
    declared: ClassVar[dict[str, Declared]]
    binds: ClassVar[dict[str, Any]] = {}
    """Parameters that every statement gets in addition, with their types."""
    planned_each_time: ClassVar[frozenset[str]] = frozenset()
    """Statements whose best plan depends on the values."""
    in_turn: ClassVar[frozenset[str]] = frozenset()
    """Statements that run one after another for each person, their parameter `email`."""

    def __init_subclass__(cls, path: str | None = None) -> None:
        """Replace the declared methods by ones that run their statements."""
        if path is None:
            return
        cls.path = path
        text = _texts(path)
        methods = {name: value for name, value in vars(cls).items() if callable(value) and not name.startswith("_")}
        cls.declared = {
            name: _declared(method, text(name), False if name in cls.planned_each_time else None, name in cls.in_turn)
            for name, method in methods.items()
        }
        for name, declared in cls.declared.items():
            setattr(cls, name, _method(declared))

    def _run(self, declared: Declared, parameters: dict[str, Any]) -> Any:
        raise NotImplementedError


class Family(Statements):
    """Statements that run on a synchronous connection."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.bound: dict[str, Any] = {}

    def _run(self, declared: Declared, parameters: dict[str, Any]) -> Any:
        if declared.streamed:
            return self._pages(declared, parameters)
        cursor = self.connection.cursor(row_factory=declared.factory)
        bound = {**self.bound, **declared.encoded(parameters)} or None
        cursor.execute(declared.text.encode(), bound, binary=declared.binary)
        if cursor.description is None:
            return cursor.rowcount
        return cursor.fetchall() if declared.many else cursor.fetchone()

    def _pages(self, declared: Declared, parameters: dict[str, Any]) -> Iterator[Any]:
        """Yield rows in a transaction; the caller runs no other statement meanwhile."""
        with (
            self.connection.transaction(),
            self.connection.cursor(name=declared.name, row_factory=declared.factory) as cursor,
        ):
            cursor.itersize = PAGE_ROWS
            cursor.execute(declared.text.encode(), {**self.bound, **declared.encoded(parameters)} or None)
            yield from cursor


class SourceFamily(Family):
    """Statements about one source: the parameter `source` of each is this one."""

    binds: ClassVar[dict[str, Any]] = {"source": str}

    def __init__(self, connection: psycopg.Connection[Any], source: str) -> None:
        super().__init__(connection)
        self.bound = {"source": source}


class RunsStatements(Protocol):
    """Runs statements asynchronously, over connections of its own."""

    def run(self, declared: Declared, parameters: Mapping[str, Any]) -> Awaitable[Any]:
        """Return the rows of a statement, its only row or None, or the number of changed rows."""
        ...


class AsyncFamily(Statements):
    """Statements that are awaited; they are declared as `async` methods."""

    def __init__(self, database: RunsStatements) -> None:
        self._database = database

    def _run(self, declared: Declared, parameters: dict[str, Any]) -> Awaitable[Any]:
        return self._database.run(declared, declared.encoded(parameters))


class QueuesStatements(Protocol):
    """Runs statements later."""

    def put(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Queue a run of a statement, with the current time as parameter `put_at`."""
        ...


class QueuedFamily(Statements):
    """Writes that no one waits for; they return nothing."""

    binds: ClassVar[dict[str, Any]] = {"put_at": datetime}

    def __init__(self, queue: QueuesStatements) -> None:
        self._queue = queue

    def _run(self, declared: Declared, parameters: dict[str, Any]) -> None:
        self._queue.put(declared.name, declared.encoded(parameters))


def _texts(path: str) -> Callable[[str], str]:
    if not path.endswith(".sql"):
        return lambda name: statement(path, name)
    texts = load(ROOT / path)
    return lambda name: getattr(texts, name).sql


def _declared(method: Callable[..., Any], text: str, prepare: bool | None, in_turn: bool) -> Declared:
    hints = get_type_hints(method, include_extras=True)
    result = hints.pop("return")
    many = get_origin(result) is list
    streamed = get_origin(result) is Iterator
    if many or streamed:
        (result,) = get_args(result)
    elif get_origin(result) is UnionType:
        (result,) = (one for one in get_args(result) if one is not NoneType)
    factory = _factory(result)
    binary = factory not in (dict_row, scalar_row) and bytes in get_type_hints(result).values()
    return Declared(method.__name__, text, hints, result, many, factory, streamed, prepare, binary, in_turn)


def _factory(row: Any) -> Any:
    kind = get_origin(row) or row
    if kind is dict:
        return dict_row
    return class_row(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else scalar_row


def _method(declared: Declared) -> Callable[..., Any]:
    def run(self: Statements, **parameters: Any) -> Any:
        return self._run(declared, parameters)  # pyright: ignore[reportPrivateUsage] (a method of this class)

    return run
