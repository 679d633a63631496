"""Calls to a Kinto server. Its errors become Concordance's here, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from concordance_kinto import KintoSettings
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    LostPartitionError,
    RateLimitedError,
    RetryLaterError,
)
from resources.core.retrying import Tally, call_with_retry

BATCH = 25
"""Requests in one batch. Source: https://docs.kinto-storage.org/en/stable/configuration/settings.html, batch_max_requests"""


class Client:
    """A Kinto server, read as one account. Thread-safe."""

    def __init__(
        self, settings: KintoSettings, waits: Sequence[float], transport: httpx.BaseTransport | None = None
    ) -> None:
        root = (settings.url or "").rstrip("/")
        auth = (settings.user, settings.password.get_secret_value())
        self._http = httpx.Client(base_url=root, auth=auth, timeout=30, transport=transport)
        self._waits = waits
        self.tally = Tally()

    def get(self, path: str, **query: str | int) -> tuple[Any, str | None, int]:
        """Return the body, the address of the next page if there is one, and the timestamp of what was read."""
        response = self._call("GET", path, params=query or None)
        timestamp = int(response.headers.get("ETag", '"0"').strip('"'))
        return response.json(), response.headers.get("Next-Page"), timestamp

    def pages(self, path: str, **query: str | int) -> Iterator[dict[str, Any]]:
        """Yield the objects of all pages of a list."""
        body, following, _ = self.get(path, **query)
        yield from body["data"]
        while following:
            body, following, _ = self.get(following)
            yield from body["data"]

    def records(self, paths: Sequence[str]) -> list[dict[str, Any] | None]:
        """Return the objects at these paths, each with its permissions; None for one that does not exist."""
        found: list[dict[str, Any] | None] = []
        for start in range(0, len(paths), BATCH):
            requests = [{"path": path} for path in paths[start : start + BATCH]]
            body = self._call("POST", "/batch", json={"defaults": {"method": "GET"}, "requests": requests}).json()
            for path, one in zip(paths[start:], body["responses"], strict=False):
                if one["status"] not in (200, 404):
                    raise RetryLaterError(f"Kinto answered {one['status']} for {path}.")
                found.append(one["body"] if one["status"] == 200 else None)
        return found

    def _call(self, method: str, path: str, **options: Any) -> httpx.Response:
        return call_with_retry(lambda: self._once(method, path, **options), self.tally, waits=self._waits)

    def _once(self, method: str, path: str, **options: Any) -> httpx.Response:
        self.tally.call(f"{method} {path.partition('?')[0].rpartition('/')[2]}")
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise RetryLaterError(f"Kinto does not answer at {self._http.base_url}: {error}") from error
        status, after = response.status_code, response.headers.get("Retry-After", "")
        if status == 401:
            raise AuthorizationError(
                "Kinto refuses the account: correct CONCORDANCE_KINTO_USER and CONCORDANCE_KINTO_PASSWORD."
            )
        if status in (403, 404):
            raise LostPartitionError(f"Kinto answered {status} for {path}: the account may not read it, or it is gone.")
        if status == 429:
            raise RateLimitedError("Kinto limits the rate of requests.", float(after) if after.isdigit() else None)
        if status >= 500:
            raise RetryLaterError(f"Kinto answered {status} for {path}.", float(after) if after.isdigit() else None)
        if status >= 400:
            raise AbortSyncError(f"Kinto answered {status} for {path}: {response.text[:200]}")
        return response
