"""`changes.list`: the feed of the account or of a shared drive, each entry with the current state of its item.

Source: https://developers.google.com/workspace/drive/api/guides/about-changes
"""

from typing import Any

from simulators.drive.errors import bad_parameter
from simulators.drive.feeds import FeedEntry
from simulators.drive.fields import Mask, mask, pick
from simulators.drive.parameters import FILE_FIELDS, Parameters, member_drive, page_size, shallow, true
from simulators.drive.resources import file_resource, shared_drive, timestamp
from simulators.drive.state import DriveState


def changes_start(world: DriveState, parameters: Parameters) -> Any:
    chosen = mask(parameters.get("fields", "kind,startPageToken"), "StartPageToken")
    body = {
        "kind": "drive#startPageToken",
        "startPageToken": world.feeds[world.own_feed(feed_of(world, parameters))].token(),
    }
    return pick(body, chosen)


def changes_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the changes since a token, in pages; the last page has the token for the next call."""
    listed = f"kind,removed,file({FILE_FIELDS}),fileId,time,changeType,driveId,drive(kind,id,name)"
    chosen = mask(parameters.get("fields", f"kind,nextPageToken,newStartPageToken,changes({listed})"), "ChangeList")
    if not parameters.get("pageToken"):
        raise bad_parameter("pageToken", "Required parameter: pageToken", "required")
    name = feed_of(world, parameters)
    feed, size = world.feeds[world.own_feed(name)], page_size(parameters, 100, 1_000)
    below: Mask = None if chosen is None else chosen.get("changes", {})
    body: dict[str, Any] = {"kind": "drive#changeList", "changes": []}
    for entry in feed.since(parameters["pageToken"]):
        if len(body["changes"]) == size:
            body["nextPageToken"] = str(entry.number)
            break
        change = _change(world, name, entry, parameters, below)
        if change is not None:
            body["changes"].append(change)
    else:
        body["newStartPageToken"] = feed.token()
    return shallow(body, chosen)


def feed_of(world: DriveState, parameters: Parameters) -> str:
    """Return the feed that a call is about: the id of a shared drive, or nothing for the account's. Raises `ApiError`."""
    drive = parameters.get("driveId")
    if drive is None:
        return ""
    if not true(parameters, "supportsAllDrives"):
        raise bad_parameter(
            "supportsAllDrives", "The supportsAllDrives parameter must be true when driveId is specified."
        )
    return member_drive(world, drive)


def _change(
    world: DriveState, feed: str, entry: FeedEntry, parameters: Parameters, chosen: Mask
) -> dict[str, Any] | None:
    """Return a feed entry with the current state of its item, or None if the call excludes it."""
    shared = true(parameters, "includeItemsFromAllDrives")
    if entry.kind == "drive":
        return _drive_change(world, entry, chosen) if shared else None
    item = world.items.get(entry.id)
    if item is not None and not world.access.visible(item):
        item = None
    drive = "" if item is None else world.drive_of(item.id)
    elsewhere = drive != feed if feed else bool(drive) and not shared
    if elsewhere and item is not None and not feed and not item.mine:
        return None
    gone = item is None or elsewhere
    change: dict[str, Any] = {
        "kind": "drive#change",
        "removed": gone,
        "fileId": entry.id,
        "time": timestamp(entry.at),
        "changeType": "file",
    }
    if item is not None and not gone and not world.bare_changes:
        change["file"] = file_resource(world, item, None if chosen is None else chosen.get("file", {}))
    return shallow(change, chosen)


def _drive_change(world: DriveState, entry: FeedEntry, chosen: Mask) -> dict[str, Any]:
    gone = not world.access.readable(world.items[entry.id])
    change: dict[str, Any] = {
        "kind": "drive#change",
        "removed": gone,
        "driveId": entry.id,
        "time": timestamp(entry.at),
        "changeType": "drive",
    }
    if not gone:
        change["drive"] = shared_drive(world.drives[entry.id])
    return pick(change, chosen)
