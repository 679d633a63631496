"""`RateLimit-Policy` and `RateLimit` of responses (draft-ietf-httpapi-ratelimit-headers-10), from what is known without a statement.

`RateLimit` names what is left of each rate as this machine counts it: requests to other machines can make it less.
"""

from __future__ import annotations

import math
import re
from contextvars import ContextVar
from typing import NamedTuple

from litestar.types import Message, Scope

POLICY, LEFT = b"ratelimit-policy", b"ratelimit"


class Spent(NamedTuple):
    """What a request has used of a rate."""

    name: str
    most: int
    seconds: int
    """The window: `most` requests within it, all at once or evenly."""
    left: int
    """Requests that are left now."""
    wait: float
    """Seconds until another is left, or until all are."""


_SPENT: ContextVar[list[Spent]] = ContextVar("spent")


def begin() -> None:
    """Forget what was spent before: a request begins."""
    _SPENT.set([])


def spend(spent: Spent) -> None:
    """Record what the request has used. Does nothing outside of a request."""
    found = _SPENT.get(None)
    if found is not None:
        found.append(spent)


async def add(message: Message, scope: Scope) -> None:
    """Add the headers to a response to a request that is limited, errors included."""
    spent = _SPENT.get(None)
    if scope["type"] != "http" or message["type"] != "http.response.start" or not spent:
        return
    policies = ", ".join(f'"{_key(one.name)}";q={one.most};w={one.seconds}' for one in spent)
    left = ", ".join(f'"{_key(one.name)}";r={one.left};t={math.ceil(one.wait)}' for one in spent)
    message["headers"] = [*message.get("headers", []), (POLICY, policies.encode()), (LEFT, left.encode())]


def _key(name: str) -> str:
    return re.sub("[^a-z]+", "-", name)
