"""Source events that wait for a sync, and the partitions that they concern."""

from datetime import datetime
from typing import NamedTuple

from resources.core.domain import SourceName
from resources.stores.postgres import Connection
from sql.sources import Channels, Events

PLAIN_SECONDS = 60.0
"""Longest wait of new messages for a sync; edits, deletions and other changes are synced earlier."""
REQUESTED_BY = "events"
KEPT_DAYS = 7
"""Events are kept for longer than sources redeliver them."""


class Waiting(NamedTuple):
    """Events, and the partitions that they concern (None: the whole source)."""

    event_ids: list[str]
    received: list[datetime]
    """When each event came."""
    partitions: list[str] | None


def waiting(connection: Connection, source: SourceName, seconds: float = PLAIN_SECONDS) -> Waiting | None:
    """Return what a sync of the source should cover now, or None."""
    events = Events(connection).waiting(source=source.value, seconds=seconds)
    if not events:
        return None
    named = {one.partition for one in events if one.partition is not None}
    whole = any(one.partition is None for one in events)
    received = [one.received_at for one in events]
    return Waiting([one.event_id for one in events], received, None if whole else sorted(named))


def changed(connection: Connection, source: SourceName, channel_id: str, number: str, partitions: list[str]) -> None:
    """Record changed partitions from a message of a notification channel. Idempotent."""
    channels = Channels(connection)
    channels.notified(channel_id=channel_id)
    channels.changed(event_id=f"{source.value}:{channel_id}:{number}", source=source.value, partitions=partitions)


def mark_requested(connection: Connection, found: Waiting) -> None:
    """Record that the sync was requested, and delete old events."""
    events = Events(connection)
    events.mark_requested(event_ids=found.event_ids, received=found.received)
    events.forget(days=KEPT_DAYS)
