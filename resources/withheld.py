"""Secret settings that a service of ours does without.

`concordance up` starts each service with only the secrets that it uses and names the others, as far as they are given, in an
environment variable. The variable also says that the settings are complete: `.env`, which may hold those secrets, is not read again.
For the service, a withheld setting counts as given; its value cannot be read.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Collection

from pydantic import SecretStr

from resources.core.errors import ConfigurationError

VARIABLE = "CONCORDANCE_WITHHELD"


class Withheld(SecretStr):
    """Stands for a secret that this process was not given."""

    def __init__(self, name: str) -> None:
        super().__init__(secrets.token_urlsafe(48))  # of no use to anyone; it only has a length
        self._name = name

    def get_secret_value(self) -> str:
        """Raise `ConfigurationError`: the value is not here."""
        raise ConfigurationError(
            f"CONCORDANCE_{self._name.upper()} is set, but this service was started without it. Please report this."
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Withheld) and other._name == self._name

    def __hash__(self) -> int:
        return hash(self._name)


def variable(names: Collection[str]) -> dict[str, str]:
    """Return the environment variable that tells a service which settings it does without."""
    return {VARIABLE: ",".join(sorted(names))}


def withheld() -> dict[str, Withheld] | None:
    """Return the settings that this process does without; None when nobody has read the settings for it."""
    names = os.environ.get(VARIABLE)
    return None if names is None else {name: Withheld(name) for name in names.split(",") if name}
