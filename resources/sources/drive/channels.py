"""Notification channels: Google is asked to send word of changes in each feed, for as long as there is an address to send it to.

Enter: the feeds that syncs read, each with its partitions. Leave: one live channel a feed, in the registry. A message says only
that something has changed; what it was, a sync reads. So a channel that cannot be made costs nothing but time.
Source: https://developers.google.com/workspace/drive/api/guides/push
"""

from __future__ import annotations

import hashlib
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from resources.domain import SourceName
from resources.errors import AuthorizationError, ConcordanceError, ServiceUnavailableError
from resources.logging import logger
from resources.postgres import session
from resources.settings import Settings
from resources.sources.drive.auth import GOOGLE
from resources.sources.drive.client import DriveClient
from resources.sources.drive.feeds import Feeds
from sql import queries

PATH = "/api/drive/notifications"
LIFE = timedelta(days=7)
"""Longest life of a channel on a change feed. Source: as above, "Renew notification channels"."""
ABANDONED = timedelta(hours=1)
"""After this time, a channel that was to be made and of which nothing is known was never made, or its sync was killed."""
SOURCE = SourceName.GOOGLE_DRIVE.value

log = logger("sync")
registry = queries("events")


def address(settings: Settings) -> str | None:
    """Return where Google is to send messages; None without a public address that Google accepts, which is one over https."""
    url = settings.base_url
    secure = url.startswith("https://") or (settings.public_url is not None and settings.drive_api_url != GOOGLE)
    return f"{url}{PATH}" if secure else None


class Channels:
    """The channels of one account."""

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
        """Make, renew and stop channels, so that each feed (empty: the account's) has one and nothing else has.

        Raises `AuthorizationError` and `ServiceUnavailableError`; every other fault is kept with the channel and tried again by the
        next sync.
        """
        with session(self._settings.postgres_dsn, autocommit=True) as connection:
            kept: set[str] = set()
            rows: list[dict[str, Any]] = list(registry.channels(connection, source=SOURCE))
            for feed, partitions in wanted.items() if self._address is not None else ():
                good = next((row for row in rows if row["feed"] == feed and self._is_good(row)), None)
                if good is None:
                    made = self._make(connection, feed, partitions)
                    kept |= {made} if made is not None else self._usable(rows, feed)
                else:
                    kept.add(good["channel_id"])
                    if sorted(good["partitions"]) != sorted(partitions):
                        registry.cover(connection, channel_id=good["channel_id"], partitions=sorted(partitions))
            for row in rows:
                if row["channel_id"] not in kept:
                    self._stop(connection, row)

    def _is_good(self, row: Mapping[str, Any]) -> bool:
        """Return True unless a channel has to be replaced: it is for somebody else, or has lived half of its life."""
        if row["expires_at"] is None or (row["account"], row["address"]) != (self._account, self._address):
            return False
        return self._now() < row["created_at"] + (row["expires_at"] - row["created_at"]) / 2

    def _usable(self, rows: Sequence[Mapping[str, Any]], feed: str) -> set[str]:
        """Return the channels of a feed that still live, for as long as no other can be made."""
        return {
            row["channel_id"]
            for row in rows
            if row["feed"] == feed and row["address"] == self._address and row["account"] == self._account
            if row["expires_at"] is not None and row["expires_at"] > self._now()
        }

    def _make(self, connection: Any, feed: str, partitions: Sequence[str]) -> str | None:
        """Make a channel and return its id; None when Google refused it, and the reason is kept."""
        channel_id, token = str(uuid.uuid4()), secrets.token_urlsafe(32)
        registry.add_channel(
            connection,
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
            registry.drop_channel(connection, channel_id=channel_id)
            raise
        except ConcordanceError as error:
            log.warning("drive_not_watched", feed=feed or "account", reason=str(error))
            registry.made_channel(
                connection, channel_id=channel_id, resource_id=None, expires_at=None, error=str(error)
            )
            return None
        until = datetime.fromtimestamp(int(made.get("expiration") or expires.timestamp() * 1000) / 1000, UTC)
        resource = str(made["resourceId"])
        registry.made_channel(connection, channel_id=channel_id, resource_id=resource, expires_at=until, error=None)
        log.info("drive_watched", feed=feed or "account", until=until.isoformat())
        return channel_id

    def _stop(self, connection: Any, row: Mapping[str, Any]) -> None:
        """Stop a channel and forget it. One that cannot be stopped ends by itself, and its messages are refused until then."""
        if row["expires_at"] is None and row["error"] is None and self._now() < row["created_at"] + ABANDONED:
            return  # another process may be making it
        registry.drop_channel(connection, channel_id=row["channel_id"])
        if row["resource_id"] is None or row["expires_at"] is None or row["expires_at"] <= self._now():
            return
        try:
            self._client.call("channels.stop", body={"id": row["channel_id"], "resourceId": row["resource_id"]})
        except ConcordanceError as error:
            log.info("drive_not_stopped", channel=row["channel_id"], reason=str(error))
