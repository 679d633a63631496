"""Source events that wait for a sync, and the partitions that they concern."""

from typing import NamedTuple

from resources.core.domain import SourceName
from resources.stores.postgres import Connection
from sql import queries

PLAIN_SECONDS = 60.0
"""How long new messages may wait for a sync; edits, deletions and other changes are synced earlier."""
REQUESTED_BY = "events"
KEPT_DAYS = 7
"""Events are kept for longer than sources redeliver them."""

events = queries("events")


class Waiting(NamedTuple):
    """Events, and the partitions that they concern (None: the whole source)."""

    event_ids: list[str]
    partitions: list[str] | None


def waiting(connection: Connection, source: SourceName, seconds: float = PLAIN_SECONDS) -> Waiting | None:
    """Return what a sync of the source should cover now, or None."""
    rows = list(events.waiting(connection, source=source.value, seconds=seconds))
    if not rows:
        return None
    partitions = {row["partition"] for row in rows}
    named = None if None in partitions else sorted(partitions)
    return Waiting([row["event_id"] for row in rows], named)


def changed(connection: Connection, source: SourceName, channel_id: str, number: str, partitions: list[str]) -> None:
    """Record changed partitions from a message of a notification channel. Idempotent."""
    events.notified(connection, channel_id=channel_id)
    list(
        events.changed(
            connection, event_id=f"{source.value}:{channel_id}:{number}", source=source.value, partitions=partitions
        )
    )


def asked(connection: Connection, found: Waiting) -> None:
    """Record that the sync was requested, and delete old events."""
    events.asked(connection, event_ids=found.event_ids)
    events.forget(connection, days=KEPT_DAYS)
