"""Replace a table by a copy, so that its files contain nothing of deleted rows.

`VACUUM FULL` does the same but blocks searches throughout, which takes minutes for a large table. Here searches wait only for the final
swap of a few milliseconds, and writers for the whole copy. The disk needs room for a second copy of the table. An interrupted attempt
changes nothing.
"""

import time
from typing import LiteralString, cast

import psycopg
from psycopg import sql

from resources.stores.postgres import Connection
from resources.stores.uploads import LOCK as UPLOADS_LOCK
from sql.upkeep import Erasure, TableCatalogue
from sql.upkeep_rows import ForeignKey, TableIndex

EXCHANGE_WAIT = "200ms"
"""Searches queue behind the swap while it waits for its lock, so it waits briefly and retries often."""
EXCHANGE_ATTEMPTS = 300
EXCHANGE_REST_SECONDS = 0.3
_SUFFIX = "_rebuilt"
_KINDS = {"p": sql.SQL("PRIMARY KEY"), "u": sql.SQL("UNIQUE")}


def rebuild(connection: Connection, name: str, *, lock_seconds: float) -> None:
    """Replace a table by a copy with the same columns, indexes, constraints, triggers, views and grants.

    The connection is in autocommit mode. `lock_seconds`: longest wait for writers of the table.
    Raises `psycopg.errors.LockNotAvailable` if writers or readers lock the table for too long, and `DependentObjectsStillExist` if
    other objects depend on one of its views.
    """
    catalogue = TableCatalogue(connection)
    keys = catalogue.foreign_keys_of(name=name)
    with connection.transaction():
        _limit_waits(connection, f"{lock_seconds}s")
        if name == "documents":  # an upload that is being recorded has read it, and would wait with that to write to it
            Erasure(connection).lock_uploads(key=UPLOADS_LOCK)
        connection.execute(_composed("LOCK TABLE {} IN SHARE MODE", name))
        indexes = catalogue.indexes_of(name=name)
        _copy(connection, name, catalogue.columns_of(name=name), indexes)
        _limit_waits(connection, EXCHANGE_WAIT)
        for attempt in range(1, EXCHANGE_ATTEMPTS + 1):
            try:
                with connection.transaction():
                    _exchange(connection, name, indexes, keys)
                break
            except psycopg.errors.LockNotAvailable:
                if attempt == EXCHANGE_ATTEMPTS:
                    raise
                time.sleep(EXCHANGE_REST_SECONDS)
    for key in keys:  # new rows are checked already; this validates the old ones without blocking readers
        with connection.transaction():
            _limit_waits(connection, f"{lock_seconds}s")
            connection.execute(_composed("ALTER TABLE {} VALIDATE CONSTRAINT {}", key.owner, key.name))


def _limit_waits(connection: Connection, longest: str) -> None:
    """Limit the wait for each lock until the transaction ends: behind a connection pool, nothing may be set for a session."""
    connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (longest,))


def _copy(connection: Connection, name: str, quoted: list[str], indexes: list[TableIndex]) -> None:
    """Write the copy and its indexes, which are not visible to others yet."""
    copy = name + _SUFFIX
    columns = sql.SQL(", ").join(map(_known, quoted))
    connection.execute(_composed("CREATE TABLE {} (LIKE {} INCLUDING ALL EXCLUDING INDEXES)", copy, name))
    connection.execute(
        sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(
            sql.Identifier(copy), columns, columns, sql.Identifier(name)
        )
    )
    for index in indexes:
        _, _, rest = index.definition.partition(" USING ")
        connection.execute(
            sql.SQL("CREATE {} INDEX {} ON {} USING {}").format(
                sql.SQL("UNIQUE" if index.is_unique else ""),
                sql.Identifier(index.name + _SUFFIX),
                sql.Identifier(copy),
                _known(rest),
            )
        )
    connection.execute(_composed("ANALYZE {}", copy))


def _exchange(connection: Connection, name: str, indexes: list[TableIndex], keys: list[ForeignKey]) -> None:
    """Drop the table and rename the copy and its indexes to the original names."""
    connection.execute(_composed("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", name))
    catalogue = TableCatalogue(connection)
    views = catalogue.views_of(name=name)
    triggers = catalogue.triggers_of(name=name)
    granted = {one: catalogue.grants_of(name=one) for one in (name, *(view.name for view in views))}
    for view in views:
        connection.execute(_composed("DROP VIEW {}", view.name))
    for key in keys:
        connection.execute(_composed("ALTER TABLE {} DROP CONSTRAINT {}", key.owner, key.name))
    connection.execute(_composed("DROP TABLE {}", name))
    connection.execute(_composed("ALTER TABLE {} RENAME TO {}", name + _SUFFIX, name))
    for index in indexes:
        connection.execute(_composed("ALTER INDEX {} RENAME TO {}", index.name + _SUFFIX, index.name))
        if kind := _KINDS.get(index.constraint_kind or ""):
            adopt = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {} USING INDEX {}")
            own = sql.Identifier(index.name)
            connection.execute(adopt.format(sql.Identifier(name), own, kind, own))
    for key in keys:
        definition = key.definition.removesuffix(" NOT VALID")
        add = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {} NOT VALID")
        connection.execute(add.format(sql.Identifier(key.owner), sql.Identifier(key.name), _known(definition)))
    for trigger in triggers:
        connection.execute(_known(trigger))
    for view in views:
        connection.execute(sql.SQL("CREATE VIEW {} AS {}").format(sql.Identifier(view.name), _known(view.definition)))
    for one, grants in granted.items():
        for grant in grants:
            give = sql.SQL("GRANT {} ON {} TO {}")
            connection.execute(give.format(_known(grant.privilege), sql.Identifier(one), _known(grant.grantee)))


def _composed(statement: LiteralString, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))


def _known(text: str) -> sql.SQL:
    """Return text from the Postgres catalogue as part of a statement."""
    return sql.SQL(cast("LiteralString", text))
