"""What an API key may do that a person made for a program, besides being that person."""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from serving.http.errors import ProblemError
from serving.http.request_limits import LIMITS


class KeyScope(StrEnum):
    """A part of what a person may do."""

    READ = "read"
    """Search, ask and read."""
    WRITE = "write"
    """Upload, push, change and delete."""
    OPERATE = "operate"
    """Use the roles of the person. Without it, the key has none."""


READING = frozenset({"agent", "answer", "read", "search", "track"})
"""Classes of routes (`serving/http/request_limits.py`) for which `read` is enough. Any other needs `write`."""


def scope_of(options: Mapping[str, Any]) -> KeyScope:
    """Return the scope that a route needs, by its options."""
    return KeyScope.READ if options.get(LIMITS) in READING else KeyScope.WRITE


def check_scope(scopes: Collection[str] | None, needed: KeyScope) -> None:
    """Raise the problem `key-scope` unless the scopes hold the one that is needed. None stands for all."""
    if scopes is not None and needed not in scopes:
        raise ProblemError(
            "key-scope", f"This key may not do this, which needs the scope {needed.value}. Create a key with it on /me."
        )
