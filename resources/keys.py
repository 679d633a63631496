"""The keys that an installation makes for itself: signing, encryption at rest, and the embedded Postgres's password.

Enter: settings. Leave: `HOME/keys.json`, readable by its owner alone, and the keys in force. A key given in the settings wins
over the one kept in HOME; nothing here is ever logged.
"""

from __future__ import annotations

import json
import os
import secrets
import tempfile
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, MultiFernet

from resources.errors import ConfigurationError
from resources.settings import Settings


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """What `keys.json` holds."""

    secret_key: str
    encryption_key: str
    postgres_password: str


PRIVATE_FOLDERS = ("dagster", "lake", "logs", "qdrant", "run")
"""Folders below HOME that hold documents, passages or names."""


def path(settings: Settings) -> Path:
    """Return where the keys are kept."""
    return settings.home / "keys.json"


def ensure(settings: Settings) -> None:
    """Make the keys if there are none yet; existing ones are kept. Of two processes at once the first one's keys stand."""
    file = path(settings)
    make_home(settings)
    if not file.exists():
        made = Keys(
            secret_key=secrets.token_urlsafe(48),
            encryption_key=Fernet.generate_key().decode(),
            postgres_password=secrets.token_urlsafe(32),
        )
        handle, name = tempfile.mkstemp(prefix=".keys-", dir=settings.home)
        draft = Path(name)
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(msgspec.json.encode(made) + b"\n")
                out.flush()
                os.fsync(out.fileno())
            # A link, not a rename: it fails when another process was faster, and never replaces its keys.
            file.hardlink_to(draft)
        except FileExistsError:
            pass  # the other process's keys are read below, as everywhere
        finally:
            draft.unlink()
    load(settings)


def load(settings: Settings) -> Keys:
    """Return the kept keys. Raises `ConfigurationError` when the file is missing, unreadable or not ours."""
    file = path(settings)
    try:
        if file.stat().st_mode & 0o077:
            file.chmod(0o600)
        return msgspec.json.decode(file.read_bytes(), type=Keys)
    except FileNotFoundError:
        raise ConfigurationError(f"There are no keys in {file} yet: run `concordance up` once to make them.") from None
    except OSError as error:
        raise ConfigurationError(
            f"The keys in {file} cannot be read ({error.strerror}): run as the user who owns them."
        ) from error
    except (msgspec.MsgspecError, json.JSONDecodeError) as error:
        raise ConfigurationError(
            f"{file} is damaged ({error}). Restore it from a backup: without it kept secrets cannot be read."
        ) from error


def secret_key(settings: Settings) -> str:
    """Return the key that signs access tokens: the setting SECRET_KEY, else the one kept in HOME (made when absent)."""
    if settings.secret_key is not None:
        return settings.secret_key.get_secret_value()
    ensure(settings)
    return load(settings).secret_key


def fernet(settings: Settings) -> MultiFernet:
    """Return the cipher for secrets at rest: the first key of ENCRYPTION_KEYS encrypts, all of them decrypt."""
    if settings.encryption_keys is None:
        ensure(settings)
        keys = [load(settings).encryption_key]
    else:
        keys = [key.strip() for key in settings.encryption_keys.get_secret_value().split(",") if key.strip()]
    if not keys:
        raise ConfigurationError("CONCORDANCE_ENCRYPTION_KEYS is empty: give at least one key, or unset it.")
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigurationError(
            "CONCORDANCE_ENCRYPTION_KEYS holds something that is no Fernet key; make one with: "
            "python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'"
        ) from None


def make_home(settings: Settings) -> None:
    """Make HOME and its folders as far as they are missing: closed to others, save that root's HOME itself may be passed
    through by the user that Postgres runs as.
    """
    try:
        if not settings.home.is_dir():
            settings.home.mkdir(parents=True, exist_ok=True)
            settings.home.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in PRIVATE_FOLDERS:
            (settings.home / name).mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(
            f"CONCORDANCE_HOME: {settings.home} cannot be made ({error.strerror}). Choose a folder that you may write to."
        ) from error
