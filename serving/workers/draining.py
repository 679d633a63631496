"""uvicorn's server as the only process behind its port: on SIGTERM it first tells load balancers that it ends."""

from __future__ import annotations

import signal
import time
from types import FrameType

import uvicorn
from litestar import Litestar

from resources.servers.shared import Shared
from resources.settings import Settings
from serving.services import Services
from serving.workers.uvicorn_config import config


class DrainingServer(uvicorn.Server):
    """Serves for `seconds` after SIGTERM, without being ready; a second signal ends that time. Then finishes what is in progress."""

    def __init__(self, app: Litestar, settings: Settings, shared: Shared, seconds: float) -> None:
        super().__init__(config(app, settings, shared))
        self._services: Services = app.state.services
        self._seconds = seconds
        self._ends_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to drain, or to end."""
        if sig == signal.SIGTERM and self.started and self._seconds and self._ends_at is None:
            self._ends_at = time.monotonic() + self._seconds
            self._services.http.draining = True
            return
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """End once the time is over."""
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self.should_exit = True
        return await super().on_tick(counter)
