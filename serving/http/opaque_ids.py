"""Ids in paths that may be any text: the router neither splits them at slashes nor takes them for another route's name.

A server decodes a path before it is routed, so that `wiki/a%2Fb` and `wiki/a/b` look alike, and the router drops slashes at the ends. For
routes that end with such an id, the path is replaced by one whose last part is the id as it was sent, encoded again behind a mark.
"""

import re
from typing import cast
from urllib.parse import quote, unquote_to_bytes

from litestar.datastructures import Headers
from litestar.types import Scope

from resources.core.errors import InvalidRequestError

_SENT = re.compile(rb"(/api/documents/[^/]+)/(.+)")
_METHODS = {"PUT", "DELETE"}


def routed(scope: Scope) -> Scope:
    """Return the scope with the path that its request is routed by."""
    if scope["type"] != "http":
        return scope
    method: str = scope["method"]
    if method == "OPTIONS":  # the preflight request of a page for another one
        method = Headers.from_scope(scope).get("access-control-request-method", "")
    if method not in _METHODS:
        return scope
    match = _SENT.fullmatch(scope["raw_path"])
    if match is None:
        return scope
    path = f"{match[1].decode('latin-1')}/={quote(unquote_to_bytes(match[2]), safe='')}"
    return cast("Scope", {**scope, "path": path})


def opaque_id(text: str) -> str:
    """Return the id in the last part of a routed path. Raises `InvalidRequestError` for one that is not UTF-8."""
    try:
        return unquote_to_bytes(text.removeprefix("=")).decode()
    except UnicodeDecodeError:
        raise InvalidRequestError("id: is not UTF-8.") from None
