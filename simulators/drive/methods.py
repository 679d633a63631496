"""The methods of the Drive API that a read-only client calls.

Each takes the parameters as text and returns a JSON body, or `Media` for bytes. Raises `ApiError`.
Source: https://developers.google.com/workspace/drive/api/reference/rest/v3
"""

from collections.abc import Callable
from typing import Any

import msgspec

from simulators.drive.changes import changes_list, changes_start
from simulators.drive.errors import ApiError, bad_parameter, file_not_found, insufficient_permissions
from simulators.drive.exports import convert, export
from simulators.drive.fields import mask, pick
from simulators.drive.parameters import FILE_FIELDS, Parameters, page_size, true, with_next
from simulators.drive.resources import comment, file_resource, may_share, permissions, shared_drive, user
from simulators.drive.searching import files_list
from simulators.drive.state import DriveState
from simulators.drive.tree import DriveFile


class Media(msgspec.Struct):
    """A response of bytes instead of JSON."""

    content: bytes
    content_type: str
    ranges: bool
    """True if range requests are supported."""


def about_get(world: DriveState, parameters: Parameters) -> Any:
    if "fields" not in parameters:
        raise bad_parameter("fields", "The 'fields' parameter is required for this method.", "required")
    body = {"kind": "drive#about", "user": user(world, world.access.viewer)}
    return pick(body, mask(parameters["fields"], "About"))


def files_get(world: DriveState, parameters: Parameters) -> Any:
    """Return one file: its metadata, or its bytes with `alt=media`."""
    file = find(world, parameters)
    if parameters.get("alt") != "media":
        return file_resource(world, file, mask(parameters.get("fields", FILE_FIELDS), "File"))
    _check_readable(world, file)
    if not file.is_binary:
        message = "Only files with binary content can be downloaded. Use Export with Docs Editors files."
        raise ApiError(403, "fileNotDownloadable", message, location="alt")
    return Media(file.content, file.mime_type, ranges=True)


def files_export(world: DriveState, parameters: Parameters) -> Any:
    file = find(world, {**parameters, "supportsAllDrives": "true"})
    if not parameters.get("mimeType"):
        raise bad_parameter("mimeType", "Required parameter: mimeType", "required")
    _check_readable(world, file)
    return Media(export(file, parameters["mimeType"]), parameters["mimeType"], ranges=False)


def files_export_links(world: DriveState, parameters: Parameters) -> Any:
    """Answer at the address that a file's `exportLinks` give: without a limit on the size."""
    file = find(world, {**parameters, "supportsAllDrives": "true"})
    _check_readable(world, file)
    return Media(convert(file, parameters["mimeType"]), parameters["mimeType"], ranges=False)


def comments_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the comments on a file, in pages of 20 by default and 100 at most; `fields` must be given."""
    if "fields" not in parameters:
        raise bad_parameter("fields", "The 'fields' parameter is required for this method.", "required")
    chosen = mask(parameters["fields"], "CommentList")
    file = find(world, {**parameters, "supportsAllDrives": "true"})
    _check_readable(world, file)
    numbers = [str(number) for number in range(len(file.comments))]
    question = ("comments", file.id)
    token = parameters.get("pageToken") or world.listings.begin(question, numbers)
    some, following = world.listings.page(token, question, page_size(parameters, 20, 100))
    body: dict[str, Any] = {
        "kind": "drive#commentList",
        "comments": [comment(file.comments[int(number)]) for number in some if int(number) < len(file.comments)],
    }
    return pick(with_next(body, following), chosen)


def permissions_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the permissions on a file, in pages. In a shared drive a page has at most 100."""
    chosen = mask(parameters.get("fields", "kind,nextPageToken,permissions(kind,id,type,role)"), "PermissionList")
    file = _shared_with(world, parameters)
    found = {permission["id"]: permission for permission in permissions(world, file)}
    question = ("permissions", file.id)
    token = parameters.get("pageToken") or world.listings.begin(question, list(found))
    default = 100 if world.drive_of(file.id) else max(1, len(found))
    ids, following = world.listings.page(token, question, page_size(parameters, default, 100))
    body: dict[str, Any] = {
        "kind": "drive#permissionList",
        "permissions": [found[permission] for permission in ids if permission in found],
    }
    return pick(with_next(body, following), chosen)


def drives_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the shared drives that the account is a member of, in pages."""
    chosen = mask(parameters.get("fields", "kind,nextPageToken,drives(kind,id,name)"), "DriveList")
    mine = [drive for drive in world.drives if world.access.readable(world.items[drive])]
    token = parameters.get("pageToken") or world.listings.begin("drives", mine)
    ids, following = world.listings.page(token, "drives", page_size(parameters, 10, 100))
    body: dict[str, Any] = {
        "kind": "drive#driveList",
        "drives": [shared_drive(world.drives[drive]) for drive in ids if drive in mine],
    }
    return pick(with_next(body, following), chosen)


def find(world: DriveState, parameters: Parameters) -> DriveFile:
    """Return the file of a call. Raises `ApiError` 404 if the account does not see it."""
    file_id = parameters["fileId"]
    file = world.items.get(world.my_drive if file_id == "root" else file_id)
    if file is None or not world.access.visible(file):
        raise file_not_found(file_id)
    if world.drive_of(file.id) and not true(parameters, "supportsAllDrives"):
        raise file_not_found(file_id)
    return file


def _shared_with(world: DriveState, parameters: Parameters) -> DriveFile:
    file = find(world, parameters)
    if not world.drive_of(file.id) and not may_share(world, file):
        raise insufficient_permissions()
    _check_readable(world, file)
    return file


def _check_readable(world: DriveState, file: DriveFile) -> None:
    if not world.access.readable(file):
        raise insufficient_permissions()
    if file.download_forbidden:
        raise ApiError(403, "cannotDownloadFile", "This file cannot be downloaded by the user.")


METHODS: dict[str, Callable[[DriveState, Parameters], Any]] = {
    "about.get": about_get,
    "files.list": files_list,
    "files.get": files_get,
    "files.export": files_export,
    "files.exportLinks": files_export_links,
    "comments.list": comments_list,
    "permissions.list": permissions_list,
    "drives.list": drives_list,
    "changes.getStartPageToken": changes_start,
    "changes.list": changes_list,
}
