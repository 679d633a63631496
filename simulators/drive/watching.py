"""`changes.watch` and `channels.stop`: what each takes, refuses and answers.

Source: https://developers.google.com/workspace/drive/api/guides/push
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from simulators.drive.changes import feed_of
from simulators.drive.channels import Channel, uri
from simulators.drive.errors import ApiError, bad_parameter
from simulators.drive.parameters import Parameters
from simulators.drive.state import DriveState

DEFAULT = timedelta(hours=1)
MOST_ID, MOST_TOKEN = 64, 256


def changes_watch(world: DriveState, parameters: Parameters, body: dict[str, Any]) -> Any:
    if not parameters.get("pageToken"):
        raise bad_parameter("pageToken", "Required parameter: pageToken", "required")
    feed = world.own_feed(feed_of(world, parameters))
    world.feeds[feed].since(parameters["pageToken"])
    channel_id, token, address = str(body.get("id") or ""), body.get("token"), str(body.get("address") or "")
    if not channel_id:
        raise bad_parameter("resource.id", "Required", "required")
    if len(channel_id) > MOST_ID or len(token or "") > MOST_TOKEN:
        raise bad_parameter("resource.id" if len(channel_id) > MOST_ID else "resource.token")
    if body.get("type") not in ("web_hook", "webhook"):
        raise ApiError(400, "push.channelTypeUnsupported", f"Channel type not supported: {body.get('type')}")
    if channel_id in world.channels.live:
        raise ApiError(400, "channelIdNotUnique", f"Channel id {channel_id} not unique")
    if not _is_secure(address):
        raise ApiError(400, "push.webhookUrlNotHttps", f"WebHook callback must be HTTPS: {address}")
    if world.channels.refused:
        raise ApiError(401, "push.webhookUrlUnauthorized", f"{world.channels.refused}: {address}")
    now = world.now()
    wanted = body.get("expiration")
    until = datetime.fromtimestamp(int(wanted) / 1000, UTC) if wanted else now + DEFAULT
    if until <= now:
        raise bad_parameter("resource.expiration")
    resource = f"resource-of-{feed or 'account'}"
    channel = Channel(channel_id, feed, resource, address, token, min(until, now + world.channels.longest))
    world.channels.add(channel)
    made = {
        "kind": "api#channel",
        "id": channel_id,
        "resourceId": resource,
        "resourceUri": uri(channel),
        "expiration": str(int(channel.expires.timestamp() * 1000)),
    }
    return made if token is None else made | {"token": token}


def channels_stop(world: DriveState, parameters: Parameters, body: dict[str, Any]) -> None:  # noqa: ARG001 - as every method
    world.channels.stop(str(body.get("id") or ""), str(body.get("resourceId") or ""))


def _is_secure(address: str) -> bool:
    """Return True for https, and for this machine, which has no certificates."""
    parts = urlsplit(address)
    try:
        return parts.scheme == "https" or ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


POSTS: dict[str, Callable[[DriveState, Parameters, dict[str, Any]], Any]] = {
    "changes.watch": changes_watch,
    "channels.stop": channels_stop,
}
"""Methods that take a body."""
