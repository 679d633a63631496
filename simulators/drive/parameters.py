"""Parsing of common request parameters: switches, page sizes, shared drives."""

from collections.abc import Mapping
from typing import Any

from simulators.drive.errors import bad_parameter, drive_not_found
from simulators.drive.fields import Mask
from simulators.drive.state import DriveState

Parameters = Mapping[str, str]

FILE_FIELDS = "kind,id,name,mimeType"
"""Fields of a file that are returned by default."""


def true(parameters: Parameters, name: str) -> bool:
    return parameters.get(name, "false").lower() == "true"


def page_size(parameters: Parameters, default: int, most: int) -> int:
    """Return the requested page size, at most the maximum."""
    text = parameters.get("pageSize", str(default))
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise bad_parameter("pageSize", f"Invalid value '{text}'. Values must be within the range: [1, {most}]")
    return min(int(text), most) if "pageSize" in parameters else default


def member_drive(world: DriveState, drive_id: str) -> str:
    """Return the id of a shared drive that the account is a member of. Raises `ApiError` 404."""
    if drive_id not in world.drives or not world.access.readable(world.items[drive_id]):
        raise drive_not_found(drive_id)
    return drive_id


def with_next(body: dict[str, Any], following: str | None) -> dict[str, Any]:
    """Add the token of the next page, if there is one."""
    return body if following is None else {"nextPageToken": following, **body}


def shallow(body: dict[str, Any], chosen: Mask) -> dict[str, Any]:
    """Apply the top level of a mask to a response whose inner parts were already masked."""
    return body if chosen is None else {name: body[name] for name in chosen if name in body}
