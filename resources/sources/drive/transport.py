"""The transport of Google's libraries, which expect httplib2: its interface over a client that uses the environment's proxies.

httplib2 itself knows a proxy only with PySocks, and no networks in NO_PROXY.
"""

from collections.abc import Mapping
from typing import Any

import httplib2
import httpx

from resources import http_clients


class Transport:
    """Connections to Google. Thread-safe. A request that fails raises `httpx.HTTPError`."""

    def __init__(self, timeout: float) -> None:
        self._client = http_clients.outward(timeout=timeout, follow_redirects=True)

    def request(
        self, uri: str, method: str = "GET", body: Any = None, headers: dict[str, str] | None = None, **_: Any
    ) -> tuple[Any, bytes]:
        """Send a request with the signature of `httplib2.Http.request`."""
        answer = self._client.request(method, uri, content=body, headers=headers)
        return response_of(answer), answer.content

    def open(self, uri: str, headers: Mapping[str, str]) -> httpx.Response:
        """Return the response to a GET request with its body unread, for the caller to close."""
        return self._client.send(self._client.build_request("GET", uri, headers=headers), stream=True)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()


def response_of(answer: httpx.Response) -> Any:
    """Return status and headers of a response as Google's libraries know them."""
    response: Any = httplib2.Response({**answer.headers, "status": str(answer.status_code)})
    response.reason = answer.reason_phrase
    return response
