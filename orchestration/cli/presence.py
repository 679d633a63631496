"""Whether Concordance is running, for a command that waits for something while it may be restarted."""

from __future__ import annotations

import time
from collections.abc import Callable

from orchestration.cli.output import note
from orchestration.supervision.run_state import read, running, supervisor
from resources.settings import Settings

RESTART_SECONDS = 120.0
"""How long a restart may take."""
LOOK_SECONDS = 0.4


class Presence:
    """The presence of a set while a command waits. A set of external services is always there."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._first = supervisor(settings)
        self._seen_at = clock()
        self.restarted = False

    def lasts(self) -> bool:
        """Return False once Concordance was stopped, or has been away for longer than a restart takes. Says so when one begins."""
        if not self._settings.embedded_postgres:
            return True
        now = supervisor(self._settings)
        if now is not None:
            self._seen_at = self._clock()
            self.restarted = self.restarted or now != self._first
            return True
        if (
            read(self._settings).supervisor is None
        ):  # it was stopped: one that only leaves its services stays in the state
            return False
        if not self.restarted:
            note("Concordance is being restarted. Waiting for it to return.")
            self.restarted = True
        return self._clock() - self._seen_at <= RESTART_SECONDS

    def wait(self) -> None:
        """Wait until every service is ready, for no longer than a restart takes."""
        deadline = self._clock() + RESTART_SECONDS
        while self._settings.embedded_postgres and not running(self._settings) and self._clock() < deadline:
            time.sleep(LOOK_SECONDS)
