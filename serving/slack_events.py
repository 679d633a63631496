"""Takes in an event of Slack, however it came: over HTTP (`routes/events.py`) or over a socket (`slack_socket.py`)."""

from __future__ import annotations

from collections.abc import Callable

from resources.core.domain import SourceName
from resources.logging import logger
from resources.sources.slack.events import Envelope, record
from serving.access.rights import Rights
from serving.database import Database

log = logger("serving")


class SlackEvents:
    """Stores events, hides what they concern, and has syncs started with `ask`, if given."""

    def __init__(self, database: Database, rights: Rights, ask: Callable[[SourceName], None] | None = None) -> None:
        self._database = database
        self._rights = rights
        self._ask = ask

    async def take(self, envelope: Envelope) -> str:
        """Store an event and return what became of it. A repeated event does nothing.

        Once this returns, the event is stored and what it concerns is hidden. Raises `RegistryDownError`, `OverloadedError` and
        `TemporaryError` when the event could not be stored.
        """
        recorded = await self._database.in_thread(lambda connection: record(connection, envelope, self._rights))
        log.info("slack_event", event_id=envelope.event_id, outcome=recorded.outcome, hidden=len(recorded.hidden))
        if recorded.outcome == "recorded" and self._ask is not None:
            self._ask(SourceName.SLACK)
        return recorded.outcome
