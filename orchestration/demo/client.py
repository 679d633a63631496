"""The demonstration's HTTP client: searches and syncs with signed tokens, like any other program."""

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

import httpx

from orchestration.supervision.workers import SPARES
from resources import dagster_access
from resources.core.domain import SourceName
from resources.core.errors import BusyError, ConcordanceError, NotRunningError
from resources.launch import start_sync
from resources.settings import Settings
from serving.access.auth import mint

POLL_SECONDS = 0.25
SYNC_SECONDS = 1800
CONCURRENT_SYNCS = SPARES
"""One per warm worker, because another would first start Python on busy cores. The sample's first sync took about 20 s of CPU
two at a time and 40 s all at once (on two busy cores)."""
LIFETIME = timedelta(hours=1)


class Client:
    """Calls the HTTP interface as one user; a context manager."""

    def __init__(self, settings: Settings, email: str, groups: Sequence[str] = (), *, admin: bool = False) -> None:
        """Sign a token for the user; nothing is sent yet."""
        self._settings = settings
        token = mint(settings, email, groups, admin=admin, expires=LIFETIME)
        host = "127.0.0.1" if settings.http_host == "0.0.0.0" else settings.http_host  # noqa: S104 (compared, not bound)
        address = f"http://{host}:{settings.http_port}"
        self._http = httpx.Client(base_url=address, headers={"Authorization": f"Bearer {token}"}, timeout=60)

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
            raise NotRunningError(f"The HTTP interface is not responding ({error}). See: concordance status") from error

    def body(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Return the JSON body. Raises `ConcordanceError` with the detail of a problem response."""
        response = self.request(method, path, **more)
        if response.status_code >= 400:
            try:
                detail = response.json().get("detail")
            except ValueError:
                detail = None
            problem = detail or "no explanation"
            raise ConcordanceError(f"{method} {path} returned status {response.status_code}: {problem}")
        return response.json()

    def search(self, query: str, top_k: int, **more: Any) -> dict[str, Any]:
        return self.body("POST", "/api/rag/search", json={"query": query, "top_k": top_k, **more})

    def sync(
        self, sources: Sequence[SourceName], progress: Callable[[SourceName, dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        """Sync sources through Dagster and return the finished jobs; needs an admin's client.

        A scheduled sync that is already running is waited for first, since it may have listed the source too early.
        `progress` is called with each polled job. Raises `ConcordanceError` if the syncs take too long.
        """
        waiting = list(sources)
        running: dict[SourceName, tuple[str, bool]] = {}
        done: dict[SourceName, dict[str, Any]] = {}
        deadline = time.monotonic() + SYNC_SECONDS
        while len(done) < len(sources):
            while waiting and len(running) < CONCURRENT_SYNCS:
                source = waiting.pop(0)
                running[source] = self._start(source)
            for source, (job_id, ours) in list(running.items()):
                job = self.body("GET", f"/api/sync/status/{job_id}")
                progress(source, job)
                if job["status"] != "running":
                    del running[source]
                    if ours:
                        done[source] = job
                    else:
                        waiting.insert(0, source)
            if time.monotonic() > deadline:
                raise ConcordanceError(
                    f"The sync did not end within {SYNC_SECONDS} s. See {dagster_access.link(self._settings, path='/runs')}"
                )
            if running:
                time.sleep(POLL_SECONDS)
        return [done[source] for source in sources]

    def _start(self, source: SourceName) -> tuple[str, bool]:
        try:
            return start_sync(self._settings, source, partitions=None, full=False, requested_by="demo").job_id, True
        except BusyError as error:
            return error.job_id, False
