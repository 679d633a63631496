"""Keys: generated once, private to their owner; those in the settings take precedence."""

from __future__ import annotations

import json
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from pydantic import ValidationError

from resources import keys
from resources.core.errors import ConfigurationError
from resources.settings import Settings
from resources.stores.blobs import Blobs


def settings(tmp_path: Path, **more: object) -> Settings:
    return Settings(_env_file=None, home=tmp_path / "home", **more)  # type: ignore[arg-type]


def test_made_once_and_readable_by_the_owner_alone(tmp_path: Path) -> None:
    keys.ensure(settings(tmp_path))
    first = keys.load(settings(tmp_path))
    keys.ensure(settings(tmp_path))
    assert keys.load(settings(tmp_path)) == first
    assert stat.S_IMODE(keys.path(settings(tmp_path)).stat().st_mode) == 0o600
    assert len(first.secret_key) >= 32
    assert [path.name for path in (tmp_path / "home").iterdir() if path.is_file()] == ["keys.json"]


def test_several_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: keys.secret_key(settings(tmp_path)), range(16)))
    assert len(set(made)) == 1


def test_a_file_that_others_could_read_is_closed(tmp_path: Path) -> None:
    keys.ensure(settings(tmp_path))
    keys.path(settings(tmp_path)).chmod(0o644)
    keys.load(settings(tmp_path))
    assert stat.S_IMODE(keys.path(settings(tmp_path)).stat().st_mode) == 0o600


def test_settings_win_and_nothing_is_written(tmp_path: Path) -> None:
    old, new = Fernet.generate_key().decode(), Fernet.generate_key().decode()
    given = settings(tmp_path, secret_key="s" * 40, encryption_keys=f"{new}, {old}")
    assert keys.secret_key(given) == "s" * 40
    token = Fernet(old).encrypt(b"refresh token")
    assert keys.fernet(given).decrypt(token) == b"refresh token"
    assert Fernet(new).decrypt(keys.fernet(given).encrypt(b"x")) == b"x"
    assert not (tmp_path / "home").exists()


def test_kept_keys_encrypt_and_decrypt(tmp_path: Path) -> None:
    token = keys.fernet(settings(tmp_path)).encrypt(b"secret")
    assert keys.fernet(settings(tmp_path)).decrypt(token) == b"secret"


def test_errors_do_not_contain_the_key(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="CONCORDANCE_ENCRYPTION_KEYS") as caught:
        keys.fernet(settings(tmp_path, encryption_keys="hunter2"))
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ValidationError, match="is empty"):
        keys.fernet(settings(tmp_path, encryption_keys=" , "))


def test_a_damaged_file_is_named_and_kept(tmp_path: Path) -> None:
    keys.ensure(settings(tmp_path))
    file = keys.path(settings(tmp_path))
    file.write_text('{"secret_key": "x"')
    with pytest.raises(ConfigurationError, match=r"keys\.json is damaged"):
        keys.secret_key(settings(tmp_path))
    assert file.read_text() == '{"secret_key": "x"'


def test_folders_with_documents_are_closed_to_others(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path / "home")  # type: ignore[call-arg]
    keys.make_home(settings)
    keys.make_home(settings)
    modes = {folder.name: folder.stat().st_mode & 0o777 for folder in settings.home.iterdir()}
    assert modes == dict.fromkeys(keys.PRIVATE_FOLDERS, 0o700)


def test_folders_that_a_command_made_before_the_first_start_are_closed_to_others(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, home=tmp_path / "home")  # type: ignore[call-arg]
    settings.home.mkdir()
    Blobs(settings.lake_address)
    assert (settings.home / "lake").stat().st_mode & 0o777 == 0o700
    (settings.home / "lake").chmod(0o755)  # as earlier versions made it
    (settings.home / "logs").mkdir()
    (settings.home / "logs").chmod(0o750)
    keys.make_home(settings)
    modes = {folder.name: folder.stat().st_mode & 0o777 for folder in settings.home.iterdir()}
    assert modes == dict.fromkeys(keys.PRIVATE_FOLDERS, 0o700) | {"logs": 0o750}


def test_the_embedded_vector_server_has_a_key_and_one_of_your_own_has_yours(tmp_path: Path) -> None:
    made = keys.qdrant_api_key(settings(tmp_path))
    assert made is not None
    assert len(made) >= 32
    assert keys.qdrant_api_key(settings(tmp_path)) == made
    assert keys.qdrant_api_key(settings(tmp_path, qdrant_api_key="mine")) == "mine"
    assert keys.qdrant_api_key(settings(tmp_path, qdrant_url="http://qdrant:6333")) is None
    assert keys.qdrant_api_key(settings(tmp_path, qdrant_url="http://qdrant:6333", qdrant_api_key="mine")) == "mine"


def test_keys_of_an_older_version_are_kept_and_the_missing_ones_added_once(tmp_path: Path) -> None:
    keys.ensure(settings(tmp_path))
    file = keys.path(settings(tmp_path))
    older = {name: f"old-{name}" for name in ("secret_key", "encryption_key", "postgres_password")}
    file.write_text(json.dumps(older))
    with ThreadPoolExecutor(8) as pool:
        made = set(pool.map(lambda _: keys.qdrant_api_key(settings(tmp_path)), range(16)))
    assert len(made) == 1
    kept = json.loads(file.read_text())
    assert older.items() <= kept.items()
    assert all(kept.values())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
