"""What we use of `google-auth-httplib2`, which has no types."""

from collections.abc import Mapping
from typing import Any

import httplib2
from google.auth.transport import Request as _Request

class Request(_Request):
    def __init__(self, http: httplib2.Http) -> None: ...
    def __call__(
        self,
        url: str,
        method: str = ...,
        body: bytes | None = ...,
        headers: Mapping[str, str] | None = ...,
        timeout: float | None = ...,
        **kwargs: Any,
    ) -> Any: ...
