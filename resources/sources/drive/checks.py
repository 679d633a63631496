"""Findings of `concordance doctor` about connected Google accounts and Google's notifications of changes."""

from collections.abc import Iterator

from resources.core.domain import SourceName
from resources.core.errors import AuthorizationError
from resources.settings import Settings
from resources.sources.drive.auth import is_by_consent
from resources.sources.spec import Check
from resources.stores import credentials
from resources.stores.postgres import Connection, session
from sql.sources import Channels

NAME = "drive notifications"
ACCOUNTS = "google account"


def checks(settings: Settings) -> Iterator[Check]:
    """Report the accounts by which Drive is read, and for each change feed whether Google sends notifications."""
    with session(settings.postgres_dsn) as connection:
        if is_by_consent(settings):
            yield from _accounts(connection, settings)
        channels = Channels(connection).channels(source=SourceName.GOOGLE_DRIVE.value)
    for channel in {row.feed: row for row in reversed(channels)}.values():
        feed = f"shared drive {channel.feed}" if channel.feed else "the account's feed"
        if channel.error is not None:
            remedy = "Only scheduled syncs find changes; see docs/drive.md, Notifications."
            yield Check(NAME, False, f"{feed}: {channel.error}", remedy)
        elif channel.expires_at is not None:
            last = f"{channel.notified_at:%Y-%m-%d %H:%M} UTC" if channel.notified_at else "never"
            until = f"{channel.expires_at:%Y-%m-%d %H:%M} UTC"
            yield Check(NAME, True, f"{feed}: notifications until {until}; last received: {last}")


def _accounts(connection: Connection, settings: Settings) -> Iterator[Check]:
    for one in credentials.accounts(connection, credentials.GOOGLE):
        try:
            credentials.load(connection, settings, credentials.GOOGLE, one.account)
        except AuthorizationError as error:
            yield Check(ACCOUNTS, False, f"{one.account}: its token cannot be decrypted", str(error))
        else:
            when = f"{one.connected_at:%Y-%m-%d %H:%M} UTC"
            yield Check(ACCOUNTS, True, f"{one.account}: connected {when} by {one.updated_by}")
