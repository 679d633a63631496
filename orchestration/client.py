"""The HTTP interface as a program uses it: with a short-lived token of one user."""

from collections.abc import Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import httpx

from orchestration.supervision.run_state import remedy
from orchestration.supervision.serving import serving_address
from resources import http_clients
from resources.core.errors import ConcordanceError, InvalidRequestError, NotRunningError
from resources.core.json import object_of
from resources.settings import Settings
from serving.identity.tokens import mint

LIFETIME = timedelta(hours=1)
PATIENCE_SECONDS = 60


class Client:
    """Calls the HTTP interface as one user; a context manager."""

    def __init__(self, settings: Settings, email: str, groups: Sequence[str] = (), *, admin: bool = False) -> None:
        """Sign a token for the user; nothing is sent yet."""
        self.settings = settings
        token = mint(settings, email, groups, admin=admin, expires=LIFETIME)
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json"}
        self._http = http_clients.own(serving_address(settings), headers=headers, timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Return the response with any status. Raises `NotRunningError` if the service does not respond."""
        try:
            return self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise NotRunningError(
                f"{self._http.base_url} is not responding ({error}). {remedy(self.settings)}"
            ) from error

    def body(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Return the JSON body. Raises `InvalidRequestError` or `ConcordanceError` with the detail of a problem response."""
        response = self.request(method, path, **more)
        if response.is_success:
            return response.json()
        try:
            problem = object_of(response.json())
        except ValueError:
            problem = {}
        reason = problem.get("detail") or problem.get("title") or "no explanation"
        message = f"{method} {path} returned status {response.status_code}: {reason}"
        raise InvalidRequestError(message) if response.status_code in (400, 422) else ConcordanceError(message)

    def ask(self, question: str, **more: Any) -> dict[str, Any]:
        return self.body("POST", "/api/ask", json={"query": question, **more})

    def search(self, query: str, top_k: int, **more: Any) -> dict[str, Any]:
        return self.body("POST", "/api/rag/search", json={"query": query, "top_k": top_k, **more})
