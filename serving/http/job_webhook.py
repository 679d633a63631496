"""Tell the webhook of jobs which syncs have ended. One process of each set of serving processes does this."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

import psycopg

from resources.alerts.jobs import job_webhook, tell
from resources.core.errors import TemporaryError
from resources.logging import logger
from serving.http.periodic import Repeated

if TYPE_CHECKING:
    from resources.settings import Settings
    from serving.http.database import Database

INTERVAL_SECONDS = 5.0

log = logger("alerts")


class ToldJobs(Repeated):
    """The task that tells, if a webhook is set."""

    def __init__(self, settings: Settings, database: Database, clock: Callable[[], datetime]) -> None:
        super().__init__("job-webhook", INTERVAL_SECONDS, self.look)
        self._webhook = job_webhook(settings)
        self._database = database
        self._clock = clock

    def start(self) -> None:
        if self._webhook is not None:
            super().start()

    async def look(self) -> None:
        """Tell of what is due."""
        if self._webhook is None:
            return
        try:
            await tell(self._webhook, self._database.in_thread, self._clock)
        except (TemporaryError, psycopg.Error) as error:
            log.warning("jobs_not_told", reason=str(error))
