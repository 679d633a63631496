"""Notification channels: Google is asked to announce changes in each feed, if there is a public URL to announce them to.

The registry has one live channel per feed that syncs read, with the partitions concerned. A message only says that something has
changed; the next sync reads what. So a channel that cannot be created only costs time.
Source: https://developers.google.com/workspace/drive/api/guides/push
"""

import hashlib
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from resources.core.domain import SourceName
from resources.core.errors import AuthorizationError, ConcordanceError, ServiceUnavailableError
from resources.core.moments import of_seconds
from resources.logging import logger
from resources.settings import Settings
from resources.sources.drive.addresses import GOOGLE
from resources.sources.drive.client import DriveClient
from resources.sources.drive.feeds import Feeds
from resources.stores.postgres import session
from sql.sources import Channels, NotificationChannel

PATH = "/api/drive/notifications"
LIFE = timedelta(days=7)
"""Maximum lifetime of a channel on a change feed. Source: as above, "Renew notification channels"."""
ABANDONED = timedelta(hours=1)
"""After this time, a channel whose creation was never confirmed is considered failed, or its sync was killed."""
SOURCE = SourceName.GOOGLE_DRIVE.value

log = logger("sync")


def address(settings: Settings) -> str | None:
    """Return the URL for messages, or None without a public URL that Google accepts, which must use https."""
    url = settings.base_url
    secure = url.startswith("https://") or (settings.public_url is not None and settings.drive_api_url != GOOGLE)
    return f"{url}{PATH}" if secure else None


class DriveChannels:
    def __init__(
        self, settings: Settings, client: DriveClient, feeds: Feeds, account: str, now: Callable[[], datetime]
    ) -> None:
        self._settings = settings
        self._client = client
        self._feeds = feeds
        self._account = account
        self._now = now
        self._address = address(settings)

    def ensure(self, wanted: Mapping[str, Sequence[str]]) -> None:
        """Create, renew and stop channels, so that exactly the given feeds (empty: the account's) have one each.

        Raises `AuthorizationError` and `ServiceUnavailableError`; every other fault is stored with the channel and the next sync
        retries.
        """
        with session(self._settings.postgres_dsn, autocommit=True) as connection:
            kept: set[str] = set()
            registry = Channels(connection)
            rows = registry.channels(source=SOURCE)
            for feed, partitions in wanted.items() if self._address is not None else ():
                good = next((row for row in rows if row.feed == feed and self._is_good(row)), None)
                if good is None:
                    made = self._make(registry, feed, partitions)
                    kept |= {made} if made is not None else self._usable(rows, feed)
                else:
                    kept.add(good.channel_id)
                    if sorted(good.partitions) != sorted(partitions):
                        registry.cover(channel_id=good.channel_id, partitions=sorted(partitions))
            for row in rows:
                if row.channel_id not in kept:
                    self._stop(registry, row)

    def _is_good(self, row: NotificationChannel) -> bool:
        """Return True unless a channel must be replaced: it belongs to another account, or half of its lifetime is over."""
        if row.expires_at is None or (row.account, row.address) != (self._account, self._address):
            return False
        return self._now() < row.created_at + (row.expires_at - row.created_at) / 2

    def _usable(self, rows: Sequence[NotificationChannel], feed: str) -> set[str]:
        """Return the channels of a feed that are still alive, for use while no new one can be created."""
        return {
            row.channel_id
            for row in rows
            if row.feed == feed and row.address == self._address and row.account == self._account
            if row.expires_at is not None and row.expires_at > self._now()
        }

    def _make(self, registry: Channels, feed: str, partitions: Sequence[str]) -> str | None:
        """Create a channel and return its id; None if Google refused it, in which case the reason is stored."""
        channel_id, token = str(uuid.uuid4()), secrets.token_urlsafe(32)
        registry.add_channel(
            channel_id=channel_id,
            source=SOURCE,
            feed=feed,
            partitions=sorted(partitions),
            account=self._account,
            address=self._address,
            token_hash=hashlib.sha256(token.encode()).digest(),
        )
        expires = self._now() + LIFE
        body = {
            "id": channel_id,
            "type": "web_hook",
            "address": self._address,
            "token": token,
            "expiration": str(int(expires.timestamp() * 1000)),
        }
        try:
            made = self._client.call(
                "changes.watch",
                pageToken=self._feeds.start(feed or None),
                driveId=feed or None,
                includeItemsFromAllDrives=True,
                supportsAllDrives=True,
                body=body,
            )
        except (AuthorizationError, ServiceUnavailableError):
            registry.drop_channel(channel_id=channel_id)
            raise
        except ConcordanceError as error:
            log.warning("drive_not_watched", feed=feed or "account", reason=str(error))
            registry.made_channel(channel_id=channel_id, resource_id=None, expires_at=None, error=str(error))
            return None
        until = of_seconds(int(made.get("expiration") or expires.timestamp() * 1000) / 1000) or expires
        resource = str(made["resourceId"])
        registry.made_channel(channel_id=channel_id, resource_id=resource, expires_at=until, error=None)
        log.info("drive_watched", feed=feed or "account", until=until.isoformat())
        return channel_id

    def _stop(self, registry: Channels, row: NotificationChannel) -> None:
        """Stop a channel and forget it. One that cannot be stopped expires by itself, and its messages are refused until then."""
        if row.expires_at is None and row.error is None and self._now() < row.created_at + ABANDONED:
            return  # another process may be creating it
        registry.drop_channel(channel_id=row.channel_id)
        if row.resource_id is None or row.expires_at is None or row.expires_at <= self._now():
            return
        try:
            self._client.call("channels.stop", body={"id": row.channel_id, "resourceId": row.resource_id})
        except ConcordanceError as error:
            log.info("drive_not_stopped", channel=row.channel_id, reason=str(error))
