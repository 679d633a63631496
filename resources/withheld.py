"""Secret settings that are withheld from a service that does not use them.

`concordance up` starts each service with only the secrets that it uses, and lists the others that are set in an environment variable.
If that variable exists, `.env` is not read, since it may contain those secrets. A withheld setting counts as set, but its value cannot
be read.
"""

import os
import secrets
from collections.abc import Collection

from pydantic import SecretStr

from resources.core.errors import ConfigurationError

VARIABLE = "CONCORDANCE_WITHHELD"


class Withheld(SecretStr):
    """Placeholder for a secret that is withheld from this process."""

    def __init__(self, name: str) -> None:
        super().__init__(secrets.token_urlsafe(48))  # a random value, because some checks need a length
        self._name = name

    def get_secret_value(self) -> str:
        """Raise `ConfigurationError`, because the value is not available."""
        raise ConfigurationError(
            f"CONCORDANCE_{self._name.upper()} is set, but this service was started without it. Please report this."
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Withheld) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)


def variable(names: Collection[str]) -> dict[str, str]:
    return {VARIABLE: ",".join(sorted(names))}


def withheld() -> dict[str, Withheld] | None:
    """Return the settings withheld from this process; None if the variable is not set."""
    names = os.environ.get(VARIABLE)
    return None if names is None else {name: Withheld(name) for name in names.split(",") if name}
