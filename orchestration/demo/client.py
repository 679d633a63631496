"""What the demonstration asks of a running set, over HTTP and with signed tokens as any program would.

Enter: settings and a person. Leave: search results, and the end of a sync that was asked for.
"""

from __future__ import annotations

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
AT_ONCE = SPARES
"""Syncs that run side by side: for each there is a warm worker. A third would first start Python, on cores that are busy.
The first sync of the sample took some 20 s of CPU by two and 40 all at once (two busy cores, two and three runs)."""
LIFETIME = timedelta(hours=1)


class Client:
    """The HTTP interface in one person's name; a context manager."""

    def __init__(self, settings: Settings, email: str, groups: Sequence[str] = (), *, admin: bool = False) -> None:
        """Sign a token for the person; nothing is sent yet."""
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
        """Return the response, whatever its status. Raises `NotRunningError` when nothing answers."""
        try:
            return self._http.request(method, path, **more)
        except httpx.HTTPError as error:
            raise NotRunningError(f"The HTTP interface does not answer ({error}). See: concordance status") from error

    def body(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        """Return the JSON body. Raises `ConcordanceError` in the words of the problem that came back."""
        response = self.request(method, path, **more)
        if response.status_code >= 400:
            try:
                detail = response.json().get("detail")
            except ValueError:
                detail = None
            problem = detail or "no explanation"
            raise ConcordanceError(f"{method} {path} gave status {response.status_code}: {problem}")
        return response.json()

    def search(self, query: str, top_k: int, **more: Any) -> dict[str, Any]:
        """Return the response to a search."""
        return self.body("POST", "/api/rag/search", json={"query": query, "top_k": top_k, **more})

    def sync(
        self, sources: Sequence[SourceName], tell: Callable[[SourceName, dict[str, Any]], None]
    ) -> list[dict[str, Any]]:
        """Bring sources up to date through Dagster and return the finished jobs; needs an admin's client.

        A sync that began by itself is waited for first, since it may have listed the source before all was there.
        `tell` gets each job's state whenever it was looked at. Raises `ConcordanceError` when the syncs take too long.
        """
        waiting = list(sources)
        running: dict[SourceName, tuple[str, bool]] = {}
        done: dict[SourceName, dict[str, Any]] = {}
        deadline = time.monotonic() + SYNC_SECONDS
        while len(done) < len(sources):
            while waiting and len(running) < AT_ONCE:
                source = waiting.pop(0)
                running[source] = self._start(source)
            for source, (job_id, ours) in list(running.items()):
                job = self.body("GET", f"/api/sync/status/{job_id}")
                tell(source, job)
                if job["status"] != "running":
                    del running[source]
                    if ours:
                        done[source] = job
                    else:
                        waiting.insert(0, source)
            if time.monotonic() > deadline:
                raise ConcordanceError(
                    f"The sync has not ended in {SYNC_SECONDS} s. Look at {dagster_access.link(self._settings, path='/runs')}"
                )
            if running:
                time.sleep(POLL_SECONDS)
        return [done[source] for source in sources]

    def _start(self, source: SourceName) -> tuple[str, bool]:
        """Return the id of a sync that runs, and whether it is ours."""
        try:
            return start_sync(self._settings, source, partitions=None, full=False, requested_by="demo").job_id, True
        except BusyError as error:
            return error.job_id, False
