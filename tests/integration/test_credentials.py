"""Tokens at rest: encrypted in the database, decrypted with any configured key, re-encrypted with the first."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from pydantic import SecretStr

from resources.core.errors import AuthorizationError, InvalidRequestError
from resources.settings import Settings
from resources.stores import credentials
from resources.stores.postgres import session

REFRESH = "1//refresh"
OLD, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


def settings(home: Path, *keys: str) -> Settings:
    return Settings(_env_file=None, home=home, encryption_keys=SecretStr(",".join(keys)))


def keep(dsn: str, given: Settings, secret: str = REFRESH) -> None:
    with session(dsn) as conn:
        credentials.save(conn, given, "google", "ada@acme.example", secret, ["drive.readonly"], "root@acme.example")


def raw(dsn: str) -> bytes:
    with session(dsn) as conn:
        row = conn.execute("SELECT secret FROM credentials WHERE provider = 'google'").fetchone()
        assert row is not None
        return bytes(row["secret"])


def test_a_token_comes_back_and_the_database_does_not_tell_it(database: str, tmp_path: Path) -> None:
    given = settings(tmp_path, NEW)
    keep(database, given, "1//first")
    keep(database, given)
    found = credentials.load(database, given, "google")
    assert found is not None
    assert (found.account, found.secret, found.scopes) == ("ada@acme.example", "1//refresh", ("drive.readonly",))
    assert found.updated_by == "root@acme.example"
    assert "refresh" not in repr(found)
    assert b"refresh" not in raw(database)


def test_tokens_of_several_accounts_are_kept_apart(database: str, tmp_path: Path) -> None:
    given = settings(tmp_path, NEW)
    keep(database, given, "1//ada")
    with session(database) as conn:
        credentials.save(conn, given, "google", "bob@acme.example", "1//bob", [], "root@acme.example")
    keep(database, given, "1//ada again")
    found = credentials.accounts(database, "google")
    assert [(one.account, one.is_first) for one in found] == [("ada@acme.example", True), ("bob@acme.example", False)]
    earliest, bob = (credentials.load(database, given, "google", account) for account in (None, "bob@acme.example"))
    assert earliest is not None
    assert bob is not None
    assert (earliest.secret, bob.secret) == ("1//ada again", "1//bob")
    with session(database) as conn:
        assert credentials.remove(conn, "google", "ada@acme.example")
        assert not credentials.remove(conn, "google", "ada@acme.example")
    assert credentials.load(database, given, "google", "ada@acme.example") is None
    assert credentials.load(database, given, "google") == bob


def test_reading_moves_a_token_to_the_first_key(database: str, tmp_path: Path) -> None:
    keep(database, settings(tmp_path, OLD))
    both = settings(tmp_path, NEW, OLD)
    assert credentials.load(database, both, "google") is not None
    moved = raw(database)
    assert credentials.load(database, both, "google") is not None
    assert raw(database) == moved
    assert credentials.load(database, settings(tmp_path, NEW), "google") is not None


def test_a_token_under_a_key_that_is_gone_asks_for_a_new_sign_in(database: str, tmp_path: Path) -> None:
    keep(database, settings(tmp_path, OLD))
    with pytest.raises(AuthorizationError, match="ENCRYPTION_KEYS"):
        credentials.load(database, settings(tmp_path, NEW), "google")


def test_an_empty_token_is_refused(database: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        keep(database, settings(tmp_path, NEW), "")
