"""A table that is replaced by a copy while others write to it has what they wrote, and nothing else."""

from __future__ import annotations

import random
import threading
from typing import LiteralString

import psycopg
import pytest

from resources.stores import rebuilding
from resources.stores.postgres import Connection, session
from resources.stores.rebuilding import rebuild

MADE = """
CREATE TABLE shelves (room text, place integer, label text UNIQUE, PRIMARY KEY (room, place));
CREATE TABLE books (book integer PRIMARY KEY, room text, place integer, FOREIGN KEY (room, place) REFERENCES shelves ON DELETE CASCADE);
INSERT INTO shelves SELECT 'a', n, 'label ' || n FROM generate_series(1, 200) AS n;
INSERT INTO books SELECT n, 'a', n FROM generate_series(1, 200) AS n;
"""
OURS = "SELECT relname FROM pg_class WHERE relname LIKE '%\\_rebuilt' OR relname LIKE '%\\_changes' OR relname LIKE '%\\_taken'"


@pytest.fixture
def dsn(database: str) -> str:
    with session(database, autocommit=True) as connection:
        for statement in filter(str.strip, MADE.split(";")):
            connection.execute(statement.encode())
    return database


def rows(connection: Connection, table: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in connection.execute(f"SELECT * FROM {table}".encode()))  # noqa: S608 (names of this file)


def test_nothing_that_is_written_meanwhile_is_lost_or_doubled(dsn: str) -> None:
    """Labels, which are unique, pass from row to row, rows come and go, and books go with their shelves."""
    chance, ended, written = random.Random(7), threading.Event(), list[int]()
    expected = {("a", n): f"label {n}" for n in range(1, 201)}
    books = {n: ("a", n) for n in range(1, 201)}

    def write() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            while not ended.is_set():
                one, other = chance.sample(sorted(expected), 2)
                new = ("b", len(written))
                with connection.transaction():
                    connection.execute("DELETE FROM shelves WHERE room = %s AND place = %s", one)
                    connection.execute(
                        "UPDATE shelves SET label = %s WHERE room = %s AND place = %s", [expected[one], *other]
                    )
                    connection.execute("INSERT INTO shelves VALUES (%s, %s, %s)", [*new, expected[other]])
                    connection.execute("INSERT INTO books VALUES (%s, %s, %s)", [1000 + len(written), *new])
                expected[new], expected[other] = expected[other], expected.pop(one)
                for book in [book for book, where in books.items() if where == one]:
                    del books[book]
                books[1000 + len(written)] = new
                written.append(1)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with session(dsn, autocommit=True) as connection:
            for _ in range(8):
                rebuild(connection, "shelves", lock_seconds=10)
                rebuild(connection, "books", lock_seconds=10)
    finally:
        ended.set()
        writer.join(30)
    assert len(written) > 8, "it wrote while tables were replaced"
    with session(dsn, autocommit=True) as connection:
        assert rows(connection, "shelves") == sorted((*key, label) for key, label in expected.items())
        assert rows(connection, "books") == sorted((book, *where) for book, where in books.items())
        assert connection.execute(OURS).fetchall() == []
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            connection.execute("INSERT INTO books VALUES (0, 'nowhere', 1)")


def test_a_unique_value_that_passes_on_between_two_steps_is_copied(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row is copied again, and takes meanwhile the label that another one has in the copy."""
    copy, run, between = rebuilding._write_copy, rebuilding._Copy.run, list[bool]()

    def label(connection: Connection, place: int, new: str) -> None:
        connection.execute("UPDATE shelves SET label = %s WHERE place = %s", [new, place])

    with session(dsn, autocommit=True) as connection, session(dsn, autocommit=True) as other:

        def copied(made: rebuilding._Copy) -> None:
            copy(made)
            label(other, 1, "new")

        def step(made: rebuilding._Copy, statement: LiteralString) -> int:
            if statement == "ANALYZE {taken}" and not between:
                between.append(True)
                with other.transaction():
                    label(other, 2, "newer")
                    label(other, 1, "label 2")
            return run(made, statement)

        monkeypatch.setattr(rebuilding, "_write_copy", copied)
        monkeypatch.setattr(rebuilding._Copy, "run", step)
        rebuild(connection, "shelves", lock_seconds=10)
        assert between
        assert rows(connection, "shelves")[:3] == [("a", 1, "label 2"), ("a", 2, "newer"), ("a", 3, "label 3")]


def test_a_killed_attempt_leaves_nothing_that_the_next_one_trips_over(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object) -> None:
        raise KeyboardInterrupt

    with session(dsn, autocommit=True) as connection:
        with monkeypatch.context() as patch:
            patch.setattr(rebuilding, "_write_copy", killed)
            patch.setattr(rebuilding, "_forget_changes", lambda _: None)
            with pytest.raises(KeyboardInterrupt):
                rebuild(connection, "shelves", lock_seconds=10)
        connection.execute("UPDATE shelves SET label = 'other' WHERE place = 1")
        assert connection.execute(OURS).fetchall() == [{"relname": "shelves_changes"}]
        before = rows(connection, "shelves")
        rebuild(connection, "shelves", lock_seconds=10)
        assert rows(connection, "shelves") == before
        assert connection.execute(OURS).fetchall() == []


def test_no_vacuum_begins_that_the_swap_would_wait_for(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Postgres cancels one of its own for whoever waits for a second, and the swap waits for less."""
    copy = rebuilding._write_copy

    def copied(made: rebuilding._Copy) -> None:
        copy(made)
        with session(dsn, autocommit=True) as other:
            other.execute("SET lock_timeout = '200ms'")
            for table in (b"VACUUM shelves", b"VACUUM books"):
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    other.execute(table)

    monkeypatch.setattr(rebuilding, "_write_copy", copied)
    with session(dsn, autocommit=True) as connection:
        rebuild(connection, "shelves", lock_seconds=1)
        rebuild(connection, "books", lock_seconds=1)
        connection.execute("VACUUM shelves, books")


def test_two_processes_do_not_replace_one_table_together(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = rebuilding._write_copy
    refused: list[bool] = []

    def copied(made: rebuilding._Copy) -> None:
        copy(made)
        monkeypatch.setattr(rebuilding, "_write_copy", copy)
        monkeypatch.setattr(rebuilding, "EXCHANGE_ATTEMPTS", 2)
        with session(dsn, autocommit=True) as other, pytest.raises(psycopg.errors.LockNotAvailable):
            rebuild(other, "shelves", lock_seconds=1)
        refused.append(True)

    monkeypatch.setattr(rebuilding, "_write_copy", copied)
    with session(dsn, autocommit=True) as connection:
        before = rows(connection, "shelves")
        rebuild(connection, "shelves", lock_seconds=1)
        assert refused
        assert rows(connection, "shelves") == before
