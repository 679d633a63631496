"""Routes that neither require a caller nor are in the OpenAPI document: signing in, OAuth, static files."""

from collections.abc import Sequence
from typing import Any, TypeVar

from litestar import get, post

from serving.http.request_limits import limited

Method = TypeVar("Method", get, post)


def open_route(
    method: type[Method],
    path: str | Sequence[str],
    operation_id: str,
    limits: str,
    options: dict[str, Any] | None = None,
    *,
    status: int | None = None,
    thread: bool | None = None,
) -> Method:
    """Return the decorator of a handler that requires no caller and is not in the OpenAPI document.

    `options` are added to its `opt`. `thread` says whether a handler that is not async runs in a thread.
    """
    return method(
        path,
        operation_id=operation_id,
        include_in_schema=False,
        exclude_from_auth=True,
        status_code=status,
        sync_to_thread=thread,
        opt=limited(limits) | (options or {}),
    )
