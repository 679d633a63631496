from collections.abc import Callable
from typing import Any

from googleapiclient.errors import HttpError

class BatchHttpRequest:
    def __init__(
        self, callback: Callable[[str, Any, HttpError | None], None] | None = ..., batch_uri: str | None = ...
    ) -> None: ...
    def add(self, request: Any, *, request_id: str | None = ...) -> None: ...
    def execute(self, http: Any = ...) -> None: ...  # whatever has the method `request` of `httplib2.Http`
