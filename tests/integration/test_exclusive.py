"""The lock of commands of which one runs at a time."""

import pytest

from resources.core.errors import BusyError
from resources.stores.postgres import Connection, exclusive, session


def test_another_session_is_refused_until_the_block_ends(database: str) -> None:
    with session(database, autocommit=True) as one, session(database, autocommit=True) as other:
        with exclusive(one, "key", "One is running."):
            with pytest.raises(BusyError, match="running"), exclusive(other, "key", "One is running."):
                pass
            with exclusive(other, "another key", "One is running."):
                pass
        # free although the session that held it is still connected
        with exclusive(other, "key", "One is running."):
            pass


def test_a_failing_block_releases_it(database: str) -> None:
    with session(database, autocommit=True) as one, session(database, autocommit=True) as other:
        with pytest.raises(ZeroDivisionError), exclusive(one, "key", "One is running."):
            raise ZeroDivisionError
        with exclusive(other, "key", "One is running."):
            pass


def test_a_lost_connection_hides_no_error(database: str) -> None:
    def lose(connection: Connection) -> None:
        with exclusive(connection, "key", "One is running."):
            connection.close()
            raise ZeroDivisionError

    with session(database, autocommit=True) as one, pytest.raises(ZeroDivisionError):
        lose(one)
