"""The keys that an installation generates for itself: signing, encryption at rest, and secrets between its services.

They are kept in `HOME/keys.json`, readable by its owner only. A key given in the settings takes precedence over the one kept
in HOME; nothing here is ever logged.
"""

import fcntl
import json
import os
import secrets
import tempfile
from pathlib import Path

import msgspec
from cryptography.fernet import Fernet, MultiFernet

from resources.core.errors import ConfigurationError
from resources.settings import Settings


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """Content of `keys.json`. Fields with a default were added later: `ensure` adds them to an older file."""

    secret_key: str
    encryption_key: str
    postgres_password: str
    qdrant_api_key: str = ""
    """API key of the embedded vector server."""
    dagster_secret: str = ""
    """Gives administrators access to Dagster's webserver."""
    metrics_token: str = ""
    """Gives access to `/metrics`."""
    dagster_read_secret: str = ""
    """Gives read-only access to Dagster's webserver."""


ENCRYPTION = "CONCORDANCE_ENCRYPTION_KEYS"
PRIVATE_FOLDERS = ("dagster", "lake", "logs", "qdrant", "run")
"""Folders below HOME that hold documents, passages or names."""


def path(settings: Settings) -> Path:
    return settings.home / "keys.json"


def ensure(settings: Settings) -> None:
    """Generate missing keys and keep existing ones. If two processes do it at once, the first one's keys are used."""
    file = path(settings)
    make_home(settings)
    if not file.exists():
        draft = _draft(settings, _made())
        try:
            # A link, not a rename: it fails if another process was faster and never replaces its keys.
            file.hardlink_to(draft)
        except FileExistsError:
            pass  # another process was faster; its keys are read from now on
        finally:
            draft.unlink()
    kept = load(settings)
    if not all(msgspec.structs.astuple(kept)):
        _complete(settings)


def _made() -> Keys:
    return Keys(
        secret_key=secrets.token_urlsafe(48),
        encryption_key=Fernet.generate_key().decode(),
        postgres_password=secrets.token_urlsafe(32),
        qdrant_api_key=secrets.token_urlsafe(32),
        dagster_secret=secrets.token_urlsafe(32),
        dagster_read_secret=secrets.token_urlsafe(32),
        metrics_token=secrets.token_urlsafe(32),
    )


def _complete(settings: Settings) -> None:
    """Add the keys that a file of an older version lacks, one process at a time."""
    with (settings.home / "run" / "keys.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kept = msgspec.structs.asdict(load(settings))
        made = msgspec.structs.asdict(_made())
        _draft(settings, Keys(**{name: value or made[name] for name, value in kept.items()})).replace(path(settings))


def _draft(settings: Settings, content: Keys) -> Path:
    """Write keys to a temporary file next to the key file and return its path."""
    handle, name = tempfile.mkstemp(prefix=".keys-", dir=settings.home)
    with os.fdopen(handle, "wb") as out:
        out.write(msgspec.json.encode(content) + b"\n")
        out.flush()
        os.fsync(out.fileno())
    return Path(name)


def load(settings: Settings) -> Keys:
    """Return the stored keys. Raises `ConfigurationError` if the file is missing, unreadable or damaged."""
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
            f"{file} is damaged ({error}). Restore it from a backup: without it stored secrets cannot be decrypted."
        ) from error


def all_given(settings: Settings) -> bool:
    """Return True if the settings give every key, so that none is kept in HOME."""
    given = (settings.secret_key, settings.encryption_keys, settings.metrics_token, settings.dagster_secret)
    return None not in given and not settings.embedded_postgres and not settings.embedded_qdrant


def secret_key(settings: Settings) -> str:
    """Return the key that signs access tokens: the first of `secret_keys`."""
    return secret_keys(settings)[0]


def secret_keys(settings: Settings) -> tuple[str, ...]:
    """Return the keys of access tokens: the setting SECRET_KEY, otherwise the one in HOME (generated if missing).

    The first signs, all of them verify.
    """
    if settings.secret_key is not None:
        return tuple(key.strip() for key in settings.secret_key.get_secret_value().split(",") if key.strip())
    ensure(settings)
    return (load(settings).secret_key,)


def qdrant_api_key(settings: Settings) -> str | None:
    """Return the vector server's key: the setting QDRANT_API_KEY, otherwise for the embedded server the one in HOME."""
    if settings.qdrant_api_key is not None:
        return settings.qdrant_api_key.get_secret_value()
    if not settings.embedded_qdrant:
        return None
    ensure(settings)
    return load(settings).qdrant_api_key


def metrics_token(settings: Settings) -> str:
    """Return the token of `/metrics`: the setting METRICS_TOKEN, otherwise the one in HOME."""
    if settings.metrics_token is not None:
        return settings.metrics_token.get_secret_value()
    ensure(settings)
    return load(settings).metrics_token


def fernet(settings: Settings) -> MultiFernet:
    """Return the cipher for secrets at rest: the first key of ENCRYPTION_KEYS encrypts, all of them decrypt."""
    if settings.encryption_keys is None:
        ensure(settings)
        keys = [load(settings).encryption_key]
    else:
        keys = [key.strip() for key in settings.encryption_keys.get_secret_value().split(",") if key.strip()]
    try:
        return MultiFernet([Fernet(key) for key in keys])
    except ValueError:
        raise ConfigurationError(
            "contains a value that is not a Fernet key.",
            "Generate one with: python -c 'from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())'",
            setting=ENCRYPTION,
        ) from None


def make_home(settings: Settings) -> None:
    """Create HOME and its missing folders, private to their owner. If the owner is root, HOME itself is made traversable for
    the user that Postgres runs as.
    """
    try:
        if not settings.home.is_dir():
            settings.home.mkdir(parents=True, exist_ok=True)
            settings.home.chmod(0o711 if os.geteuid() == 0 else 0o700)
        for name in PRIVATE_FOLDERS:
            folder = settings.home / name
            folder.mkdir(mode=0o700, exist_ok=True)
            # readers of logs may have been let in; no one needs the others
            if name != "logs" and folder.stat().st_mode & 0o077:
                folder.chmod(0o700)
        # Existing folders do not prove that the file system is writable and has space.
        with tempfile.TemporaryFile(dir=settings.home / "run"):
            pass
    except OSError as error:
        raise ConfigurationError(
            f"CONCORDANCE_HOME: {settings.home} is not writable ({error.strerror})."
            " Choose a writable folder, or free space in this one."
        ) from error
