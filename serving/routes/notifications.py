"""`POST /api/drive/notifications`: Google's word that something in Drive has changed. Open; the channel's secret stands in for a token."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency

from resources.core.domain import SourceName
from resources.logging import logger
from resources.stores.waiting import changed
from serving.deps import Services
from serving.errors import ProblemError

CHANNEL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NUMBER = re.compile(r"[0-9]{1,20}")
ESTABLISHED = "sync"
"""State of the first message over a channel, which says that it was made. Source: https://developers.google.com/workspace/drive/api/guides/push"""

UNKNOWN = bytes(32)
"""No secret has this hash."""

log = logger("serving")


@post(
    "/api/drive/notifications",
    operation_id="driveNotifications",
    status_code=204,
    tags=["sync"],
    summary="Notifications of Google Drive",
    exclude_from_auth=True,
)
async def drive_notifications(request: Request[Any, Any, Any], services: NamedDependency[Services]) -> None:
    """Note that the feed of a channel has changed, and ask for a sync of it. The body is not read."""
    channel_id, token, number, state = (
        request.headers.get(f"x-goog-{name}", "")
        for name in ("channel-id", "channel-token", "message-number", "resource-state")
    )
    source = SourceName.GOOGLE_DRIVE
    rows = []
    if CHANNEL.fullmatch(channel_id):
        rows = await services.database.fetch("notification_channel", {"channel_id": channel_id, "source": source.value})
    expected = bytes(rows[0]["token_hash"]) if rows else UNKNOWN
    if not hmac.compare_digest(expected, hashlib.sha256(token.encode()).digest()) or not NUMBER.fullmatch(number):
        raise ProblemError("not-found", "There is no such channel.")
    partitions = [] if state == ESTABLISHED else list(rows[0]["partitions"])
    await services.database.in_thread(lambda connection: changed(connection, source, channel_id, number, partitions))
    log.info("drive_notification", channel=channel_id, state=state[:20], partitions=len(partitions))
    if partitions:
        services.sync_requests.ask(source)
