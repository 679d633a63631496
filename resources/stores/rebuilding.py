"""Replace a table by a copy, so that its files contain nothing of deleted rows.

`VACUUM FULL` does the same but blocks searches throughout, which takes minutes for a large table. Here searches and syncs go on: a trigger
notes the keys of the rows that change while the copy is made, these are copied again, and everyone waits only for the final swap of a few
milliseconds. The disk needs room for a second copy of the table. What an interrupted attempt leaves, the trigger and its notes, is dropped
by the next one.
"""

import time
from collections.abc import Callable
from typing import LiteralString, NamedTuple, cast

import psycopg
from psycopg import sql

from resources.stores.postgres import Connection
from sql.upkeep import TableCatalogue
from sql.upkeep_rows import ForeignKey, TableIndex

EXCHANGE_WAIT = "200ms"
"""Searches queue behind the swap while it waits for its lock, so it waits briefly and retries often."""
EXCHANGE_ATTEMPTS = 300
EXCHANGE_REST_SECONDS = 0.3
FEW_CHANGES = 200
"""So many rows are copied again while everyone waits for the swap."""
CATCH_UP_ROUNDS = 20
"""Longest pursuit of writers that change rows as fast as they are copied again."""
_SUFFIX = "_rebuilt"
_KINDS = {"p": sql.SQL("PRIMARY KEY"), "u": sql.SQL("UNIQUE")}
_NOTE = """
CREATE FUNCTION {changed}() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP <> 'INSERT' THEN INSERT INTO {changes} SELECT {old}; END IF;
    IF TG_OP <> 'DELETE' THEN INSERT INTO {changes} SELECT {new}; END IF;
    RETURN NULL;
END $$
"""


class _Copy(NamedTuple):
    """A table, its columns and those of its primary key (quoted), and what refers to it."""

    connection: Connection
    name: str
    columns: list[str]
    key: list[str]
    indexes: list[TableIndex]
    foreign_keys: list[ForeignKey]

    def run(self, statement: LiteralString) -> int:
        """Execute a statement with the names of what is involved and return the number of rows."""
        names = {one: sql.Identifier(f"{self.name}_{one}") for one in ("rebuilt", "changes", "changed", "taken")}
        lists = {"columns": self.columns, "key": self.key, "old": self._each("OLD"), "new": self._each("NEW")}
        lists["from_table"] = [f"t.{column}" for column in self.columns]
        parts = {one: sql.SQL(", ").join(map(_known, texts)) for one, texts in lists.items()}
        return self.connection.execute(
            sql.SQL(statement).format(table=sql.Identifier(self.name), **names, **parts)
        ).rowcount

    def _each(self, row: str) -> list[str]:
        return [f"{row}.{column}" for column in self.key]


def rebuild(connection: Connection, name: str, *, lock_seconds: float) -> None:
    """Replace a table by a copy with the same columns, indexes, constraints, triggers, views and grants.

    The table has a primary key; the connection is in autocommit mode. `lock_seconds`: longest wait for those who are writing to the table.
    Raises `psycopg.errors.LockNotAvailable` if writers or readers lock the table for too long, and `DependentObjectsStillExist` if
    other objects depend on one of its views.
    """
    copy = _described(connection, name)
    _retried(copy, lambda: _forget_changes(copy))
    _note_changes(copy, lock_seconds)
    try:
        with connection.transaction():
            _limit_waits(connection, f"{lock_seconds}s")
            # against another process that does this, and against vacuums, which the swap would wait for
            _lock_all(copy, "SHARE UPDATE EXCLUSIVE")
            copy = _described(connection, name)  # which no migration changes from here on
            _write_copy(copy)
            _retried(copy, lambda: _exchange(copy), before=lambda: _catch_up(copy))
    finally:
        _retried(copy, lambda: _forget_changes(copy))
    for key in copy.foreign_keys:  # new rows are checked already; this validates the old ones without blocking readers
        with connection.transaction():
            _limit_waits(connection, f"{lock_seconds}s")
            connection.execute(_composed("ALTER TABLE {} VALIDATE CONSTRAINT {}", key.owner, key.name))


def _described(connection: Connection, name: str) -> _Copy:
    of = TableCatalogue(connection)
    columns, key = of.columns_of(name=name), of.key_of(name=name)
    return _Copy(connection, name, columns, key, of.indexes_of(name=name), of.foreign_keys_of(name=name))


def _retried(copy: _Copy, change: Callable[[], None], before: Callable[[], None] = lambda: None) -> None:
    """Make a change that must lock the table against everyone, in a transaction (or a part of one) that waits briefly for that."""
    for attempt in range(1, EXCHANGE_ATTEMPTS + 1):
        before()
        try:
            with copy.connection.transaction():
                _limit_waits(copy.connection, EXCHANGE_WAIT)
                change()
            break
        except psycopg.errors.LockNotAvailable:
            if attempt == EXCHANGE_ATTEMPTS:
                raise
            time.sleep(EXCHANGE_REST_SECONDS)


def _note_changes(copy: _Copy, lock_seconds: float) -> None:
    """Note the keys of all rows that change from now on. Those who are writing have finished when this returns."""
    with copy.connection.transaction():
        _limit_waits(copy.connection, f"{lock_seconds}s")
        copy.run("CREATE TABLE {changes} AS SELECT {key} FROM {table} WITH NO DATA")
        copy.run(_NOTE)
        copy.run(
            "CREATE TRIGGER {changed} AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION {changed}()"
        )


def _forget_changes(copy: _Copy) -> None:
    copy.run("DROP FUNCTION IF EXISTS {changed}() CASCADE")
    copy.run("DROP TABLE IF EXISTS {changes}")


def _catch_up(copy: _Copy) -> None:
    for _ in range(CATCH_UP_ROUNDS):
        if _copy_changed(copy, "ON CONFLICT DO NOTHING") <= FEW_CHANGES:
            break


def _copy_changed(copy: _Copy, conflict: LiteralString = "") -> int:
    """Copy again what has changed since it was copied, and return the number of rows.

    While others write, a row may be newer than its note and hold a unique value that the copy still has elsewhere. `ON CONFLICT DO NOTHING`
    leaves such a row to the next round: the change that made it newer is noted, too.
    """
    copy.run("CREATE TEMPORARY TABLE {taken} (LIKE {changes}) ON COMMIT DROP")
    found = copy.run("WITH gone AS (DELETE FROM {changes} RETURNING *) INSERT INTO {taken} SELECT DISTINCT * FROM gone")
    if found:
        copy.run("ANALYZE {taken}")
        copy.run("DELETE FROM {rebuilt} WHERE ({key}) IN (SELECT * FROM {taken})")
        changed: LiteralString = "SELECT {from_table} FROM {table} AS t INNER JOIN {taken} USING ({key}) "
        copy.run("INSERT INTO {rebuilt} ({columns}) " + changed + conflict)
    copy.run("DROP TABLE {taken}")
    return found


def _limit_waits(connection: Connection, longest: str) -> None:
    """Limit the wait for each lock until the transaction ends: behind a connection pool, nothing may be set for a session."""
    connection.execute("SELECT set_config('lock_timeout', %s, TRUE)", (longest,))


def _write_copy(copy: _Copy) -> None:
    """Write the copy and its indexes, which are not visible to others yet."""
    copy.run("CREATE TABLE {rebuilt} (LIKE {table} INCLUDING ALL EXCLUDING INDEXES)")
    copy.run("INSERT INTO {rebuilt} ({columns}) SELECT {columns} FROM {table}")
    for index in copy.indexes:
        _, _, rest = index.definition.partition(" USING ")
        copy.connection.execute(
            sql.SQL("CREATE {} INDEX {} ON {} USING {}").format(
                sql.SQL("UNIQUE" if index.is_unique else ""),
                sql.Identifier(index.name + _SUFFIX),
                sql.Identifier(copy.name + _SUFFIX),
                _known(rest),
            )
        )
    copy.run("ANALYZE {rebuilt}")


def _exchange(copy: _Copy) -> None:
    """Copy the last changes, drop the table, and rename the copy and its indexes to the original names."""
    connection, name = copy.connection, copy.name
    _lock_all(copy, "ACCESS EXCLUSIVE")
    _copy_changed(copy)
    copy.run("DROP TRIGGER {changed} ON {table}")  # an error if it was not there, and nothing noted
    catalogue = TableCatalogue(connection)
    views = catalogue.views_of(name=name)
    triggers = catalogue.triggers_of(name=name)
    granted = {one: catalogue.grants_of(name=one) for one in (name, *(view.name for view in views))}
    for view in views:
        connection.execute(_composed("DROP VIEW {}", view.name))
    for key in copy.foreign_keys:
        connection.execute(_composed("ALTER TABLE {} DROP CONSTRAINT {}", key.owner, key.name))
    copy.run("DROP TABLE {table}")
    copy.run("ALTER TABLE {rebuilt} RENAME TO {table}")
    for index in copy.indexes:
        connection.execute(_composed("ALTER INDEX {} RENAME TO {}", index.name + _SUFFIX, index.name))
        if kind := _KINDS.get(index.constraint_kind or ""):
            adopt = sql.SQL("ALTER TABLE {} ADD CONSTRAINT {} {} USING INDEX {}")
            own = sql.Identifier(index.name)
            connection.execute(adopt.format(sql.Identifier(name), own, kind, own))
    for key in copy.foreign_keys:
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


def _lock_all(copy: _Copy, mode: LiteralString) -> None:
    """Lock the table and those that share a foreign key with it; a row's target before the row, as deletions do."""
    targets = {key.target for key in copy.foreign_keys} - {copy.name}
    owners = {key.owner for key in copy.foreign_keys} - {copy.name}
    names = map(sql.Identifier, [*sorted(targets), copy.name, *sorted(owners)])
    copy.connection.execute(sql.SQL("LOCK TABLE {} IN " + mode + " MODE").format(sql.SQL(", ").join(names)))


def _composed(statement: LiteralString, *names: str) -> sql.Composed:
    return sql.SQL(statement).format(*map(sql.Identifier, names))


def _known(text: str) -> sql.SQL:
    """Return text from the Postgres catalogue as part of a statement."""
    return sql.SQL(cast("LiteralString", text))
