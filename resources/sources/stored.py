"""Settings of sources that administrators store in the browser, so that connecting a source needs no access to the machine.

The environment takes precedence: of a source that it sets up, stored settings are not used. Secrets are encrypted with ENCRYPTION_KEYS,
and a secret that was encrypted with an older key is encrypted again with the first one when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cryptography.fernet import InvalidToken, MultiFernet
from pydantic import SecretStr

from resources import keys
from resources.core.errors import ConfigurationError, InvalidRequestError
from resources.settings import Settings, read
from resources.settings.values import words
from resources.sources import specs
from resources.sources.spec import SourceSpec
from resources.stores.credentials import is_by_first_key
from resources.stores.postgres import session
from sql.source_settings import StoredSetting, StoredSettings

if TYPE_CHECKING:
    from resources.stores.postgres import Connection


class UnreadableSecret(SecretStr):
    """A stored secret that none of ENCRYPTION_KEYS decrypts. It counts as set, and reading it raises `ConfigurationError`."""

    def __init__(self, name: str) -> None:
        super().__init__("")
        self._name = name

    def get_secret_value(self) -> str:
        raise ConfigurationError(
            f"The stored {self._name} was encrypted with a key that is not in CONCORDANCE_ENCRYPTION_KEYS: add that key at the end of "
            "the list, or store the setting again on the source's set-up page."
        )

    def __len__(self) -> int:
        return 1


def storable(spec: SourceSpec) -> tuple[str, ...]:
    """Return the names of the settings of a source that can be stored: those that can be tried. None of another package's class."""
    return spec.trial.fields if spec.trial is not None and spec.settings is Settings else ()


def save(
    connection: Connection, settings: Settings, spec: SourceSpec, values: Mapping[str, str | None], by: str
) -> None:
    """Store settings of a source by name; null forgets one, and the others stay. The caller commits.

    Raises `ConfigurationError` naming a value that is wrong, and `InvalidRequestError` for a name that cannot be stored.
    """
    if unknown := sorted(values.keys() - set(storable(spec))):
        raise InvalidRequestError(f"{spec.label} has no setting {', '.join(unknown)} that can be stored.")
    given = {name: value.strip() for name, value in values.items() if value is not None and value.strip()}
    read(Settings, **given)
    rows = StoredSettings(connection)
    rows.remove_settings(source=spec.name.value, names=sorted(values.keys() - given.keys()))
    for name, value in given.items():
        secret = keys.fernet(settings).encrypt(value.encode()) if _is_secret(name) else None
        rows.put_setting(
            source=spec.name.value,
            name=name,
            value=value if secret is None else None,
            secret=secret,
            updated_by=by,
        )


def complete(settings: Settings, connection: Connection | None = None) -> Settings:
    """Return the settings with those that are stored; without a connection, one is opened."""
    if connection is None:
        with session(settings.postgres_dsn) as own:
            return complete(settings, own)
    statements = StoredSettings(connection)
    rows = statements.stored_settings()
    if any(row.secret for row in rows):
        _rotate(statements, keys.fernet(settings), rows)
    return merged(settings, rows)


def merged(settings: Settings, rows: Sequence[StoredSetting]) -> Settings:
    """Return the settings with stored ones. A secret that cannot be decrypted raises `ConfigurationError` when it is read."""
    found = {(row.source, row.name): row for row in rows}
    values = {
        name: _value(settings, found[spec.name.value, name])
        for spec in (specs() if rows else ())
        if not spec.configured(settings)
        for name in storable(spec)
        if (spec.name.value, name) in found and not getattr(settings, name)
    }
    return settings.model_copy(update=values) if values else settings


def _value(settings: Settings, row: StoredSetting) -> Any:
    if row.secret is None:
        return tuple(words(row.value)) if Settings.model_fields[row.name].default == () else row.value
    try:
        return SecretStr(keys.fernet(settings).decrypt(row.secret).decode())
    except InvalidToken:
        return UnreadableSecret(row.name)


def _rotate(statements: StoredSettings, cipher: MultiFernet, rows: Sequence[StoredSetting]) -> None:
    """Encrypt with the first key what an older one has encrypted."""
    for row in rows:
        if row.secret is not None and not is_by_first_key(cipher, row.secret):
            with suppress(InvalidToken):
                again = cipher.rotate(row.secret)
                statements.rotate_setting(source=row.source, name=row.name, old=row.secret, secret=again)


def _is_secret(name: str) -> bool:
    return Settings.model_fields[name].annotation == SecretStr | None
