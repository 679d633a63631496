"""Processes Slack events received over HTTP (`events.py`) or Socket Mode (`slack_socket.py`)."""

from collections.abc import Callable

from resources.core.domain import SourceName
from resources.logging import logger
from resources.sources.slack.envelope import Envelope
from resources.sources.slack.events import record, record_rating
from resources.sources.slack.questions import Interaction
from serving.http.database import Database
from serving.identity.withholding import Withholding

log = logger("serving")


class SlackEvents:
    """Stores events, hides the documents that they concern, and requests syncs with `request_sync`, if given.

    Questions and ratings are stored too; `serving.assistant` answers them.
    """

    def __init__(
        self, database: Database, withholding: Withholding, request_sync: Callable[[SourceName], None] | None = None
    ) -> None:
        self._database = database
        self._withholding = withholding
        self._request_sync = request_sync

    async def process(self, envelope: Envelope) -> str:
        """Store an event, hide the documents that it concerns, and return the outcome. A repeated event has no effect.

        Raises `RegistryDownError`, `OverloadedError` and `TemporaryError` when the event could not be stored.
        """
        recorded = await self._database.in_thread(lambda connection: record(connection, envelope, self._withholding))
        log.info("slack_event", event_id=envelope.event_id, outcome=recorded.outcome, hidden=len(recorded.hidden))
        if recorded.outcome == "recorded" and self._request_sync is not None:
            self._request_sync(SourceName.SLACK)
        return recorded.outcome

    async def rate(self, interaction: Interaction) -> str:
        """Store a click on a button below an answer, and return the outcome. Raises like `process`."""
        recorded = await self._database.in_thread(lambda connection: record_rating(connection, interaction))
        log.info("slack_interaction", outcome=recorded.outcome)
        return recorded.outcome
