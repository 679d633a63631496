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
    stored_settings,
    sync,
)

MODULES = (check, consent, dagster, events, held_deletions, notifications, pages, places, states, stored_settings, sync)
