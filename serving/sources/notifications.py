"""`POST /api/drive/notifications`: receives Google's change notifications. Authenticated by the channel's secret instead of a token."""

import hashlib
import hmac
import re
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency

from resources.core.domain import SourceName
from resources.logging import logger
from resources.stores.waiting import changed
from serving.http.errors import ProblemError
from serving.http.openapi.describe import Answer, described
from serving.http.origins import accepts
from serving.http.request_limits import limited
from serving.sources.service import SourceServices
from sql.serving import WebReads

CHANNEL = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
NUMBER = re.compile(r"[0-9]{1,20}")
ESTABLISHED = "sync"
"""State of a channel's first message, which confirms its creation. Source: https://developers.google.com/workspace/drive/api/guides/push"""

NO_HASH = bytes(32)
"""Compared for unknown channels, so that they take as long; no secret has this hash."""

log = logger("serving")


@post(
    "/api/drive/notifications",
    operation_id="driveNotifications",
    status_code=204,
    tags=["sync"],
    summary="Notifications of Google Drive",
    exclude_from_auth=True,
    opt=limited("event")
    | accepts(None)
    | described(
        problems=("not-found", "service-unavailable", "storage-full", "storage-read-only"),
        answers={204: Answer("The notification is recorded.")},
        headers={
            "X-Goog-Channel-ID": "ID of the channel.",
            "X-Goog-Channel-Token": "The channel's secret.",
            "X-Goog-Message-Number": "Number of the message in the channel.",
            "X-Goog-Resource-State": "`sync` for the first message of a channel, otherwise `change`.",
        },
    ),
)
async def drive_notifications(
    request: Request[Any, Any, Any], source_services: NamedDependency[SourceServices]
) -> None:
    """Record that the feed of a channel has changed, and request a sync. The body is not read."""
    channel_id, token, number, state = (
        request.headers.get(f"x-goog-{name}", "")
        for name in ("channel-id", "channel-token", "message-number", "resource-state")
    )
    source = SourceName.GOOGLE_DRIVE
    channel = None
    if CHANNEL.fullmatch(channel_id):
        statements = WebReads(source_services.http.database)
        channel = await statements.notification_channel(channel_id=channel_id, source=source.value)
    expected = channel.token_hash if channel is not None else NO_HASH
    if not hmac.compare_digest(expected, hashlib.sha256(token.encode()).digest()) or not NUMBER.fullmatch(number):
        raise ProblemError("not-found", "There is no such channel.")
    partitions = [] if channel is None or state == ESTABLISHED else channel.partitions
    await source_services.http.database.in_thread(
        lambda connection: changed(connection, source, channel_id, number, partitions)
    )
    log.info("drive_notification", channel=channel_id, state=state[:20], partitions=len(partitions))
    if partitions:
        source_services.sync_requests.request(source)
