"""Findings of `concordance doctor` about Google's notifications of changes."""

from collections.abc import Iterator

from resources.core.domain import SourceName
from resources.settings import Settings
from resources.sources.spec import Check
from resources.stores.postgres import session
from sql.sources import Channels

NAME = "drive notifications"


def checks(settings: Settings) -> Iterator[Check]:
    """Report for each change feed whether Google sends notifications."""
    with session(settings.postgres_dsn) as connection:
        channels = Channels(connection).channels(source=SourceName.GOOGLE_DRIVE.value)
    for channel in {row.feed: row for row in reversed(channels)}.values():
        feed = f"shared drive {channel.feed}" if channel.feed else "the account's feed"
        if channel.error is not None:
            remedy = "Only scheduled syncs find changes; see docs/operations.md, Drive notifications."
            yield Check(NAME, False, f"{feed}: {channel.error}", remedy)
        elif channel.expires_at is not None:
            last = f"{channel.notified_at:%Y-%m-%d %H:%M} UTC" if channel.notified_at else "never"
            until = f"{channel.expires_at:%Y-%m-%d %H:%M} UTC"
            yield Check(NAME, True, f"{feed}: notifications until {until}; last received: {last}")
