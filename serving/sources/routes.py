"""The routes of this room, module by module."""

from serving.sources import (
    check,
    consent,
    dagster,
    events,
    held_deletions,
    notifications,
    pages,
    places,
    states,
    sync,
)

MODULES = (check, consent, dagster, events, held_deletions, notifications, pages, places, states, sync)
