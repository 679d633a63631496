"""The transport of Google's libraries, which expect httplib2: its interface over a client that uses the environment's proxies.

httplib2 itself knows a proxy only with PySocks, and no networks in NO_PROXY.
"""

from typing import Any

import httplib2

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
        response: Any = httplib2.Response({**answer.headers, "status": str(answer.status_code)})
        response.reason = answer.reason_phrase
        return response, answer.content

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
