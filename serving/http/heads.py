"""`HEAD`: each route answers it as it answers `GET`, and the server leaves out the body."""

from typing import Any

from litestar import Request
from litestar.types import Scope

_HEAD = "concordance.head"


def as_get(scope: Scope) -> Scope:
    """Return the scope of a `HEAD` request as that of a `GET`."""
    return {**scope, "method": "GET", _HEAD: True}  # type: ignore[typeddict-item]


def is_head(request: Request[Any, Any, Any]) -> bool:
    """Return True if nobody gets the body, so that a route that reads or records much may leave it out."""
    return _HEAD in request.scope
