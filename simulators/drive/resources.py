"""JSON resources of items, permissions and drives, as the API shows them to the account. Only requested fields are built.

Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files and .../guides/shared-drives-diffs
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from simulators.drive.exports import links
from simulators.drive.fields import Mask, pick
from simulators.drive.state import DriveState
from simulators.drive.tree import (
    DOCUMENT,
    PRESENTATION,
    RANKS,
    SHORTCUT,
    SPREADSHEET,
    DriveComment,
    DriveFile,
    DriveGrant,
    SharedDrive,
    permission_id,
)

_EDITORS = {DOCUMENT: "document", SPREADSHEET: "spreadsheets", PRESENTATION: "presentation"}


def timestamp(at: datetime) -> str:
    """Return a time in the API's format: UTC, in milliseconds."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def user(world: DriveState, email: str) -> dict[str, Any]:
    return {
        "kind": "drive#user",
        "displayName": _display_name(email),
        "me": email == world.access.viewer,
        "permissionId": _id(world, DriveGrant(f"user:{email}", "", "")),
        "emailAddress": email,
    }


def comment(found: DriveComment) -> dict[str, Any]:
    """Return a comment. Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/comments"""
    shape: dict[str, Any] = {
        "kind": "drive#comment",
        "author": {"displayName": _display_name(found.author), "me": False},
        "content": found.content,
        "deleted": False,
        "resolved": found.resolved,
        "replies": [
            {
                "kind": "drive#reply",
                "author": {"displayName": _display_name(one.author), "me": False},
                "content": one.content,
                "deleted": False,
            }
            for one in found.replies
        ],
    }
    return (
        shape if found.quote is None else shape | {"quotedFileContent": {"mimeType": "text/html", "value": found.quote}}
    )


def shared_drive(drive: SharedDrive) -> dict[str, Any]:
    return {"kind": "drive#drive", "id": drive.id, "name": drive.name, "createdTime": timestamp(drive.created)}


def may_share(world: DriveState, file: DriveFile) -> bool:
    """Return True if the account may change a file's sharing; otherwise it cannot see who else has access."""
    role = world.access.role(file)
    return role is not None and RANKS[role] >= RANKS["writer"]


def permissions(world: DriveState, file: DriveFile) -> list[dict[str, Any]]:
    """Return every permission on an item: its own, inherited ones, and those disabled by a limited-access folder."""
    shared = bool(world.drive_of(file.id))
    found = [_permission(world, file, held, shared) for held in world.access.grants(file).values()]
    for grant in world.access.hidden(file):
        turned_off = _permission(world, file, (grant,), shared)
        found.append(turned_off | {"role": "reader", "view": "metadata", "inheritedPermissionsDisabled": True})
    return found


def file_resource(world: DriveState, file: DriveFile, chosen: Mask) -> dict[str, Any]:
    """Return an item's resource with the fields that the mask selects and that apply to it."""
    found: dict[str, Any] = {}
    for name in _FIELDS if chosen is None else chosen:
        make = _FIELDS.get(name)
        value = None if make is None else make(world, file)
        if value is not None:
            below = None if chosen is None else chosen[name]
            found[name] = value if below is None else pick(value, below)
    return found


def _id(world: DriveState, grant: DriveGrant) -> str:
    return permission_id(grant, world.workspace.identity(grant.name) if grant.kind == "user" else grant.name)


def _permission(world: DriveState, file: DriveFile, held: tuple[DriveGrant, ...], shared: bool) -> dict[str, Any]:
    strongest = held[0]
    found: dict[str, Any] = {
        "kind": "drive#permission",
        "id": _id(world, strongest),
        "type": strongest.kind,
        "role": strongest.role,
        "permissionDetails": [_detail(file, grant, shared) for grant in held],
    }
    if strongest.kind in ("user", "group"):
        found |= {"emailAddress": strongest.name, "displayName": _display_name(strongest.name), "deleted": False}
    else:
        found["allowFileDiscovery"] = any(grant.discoverable for grant in held)
    if strongest.kind == "domain":
        found |= {"domain": strongest.name, "displayName": strongest.name}
    if strongest.expires is not None:
        found["expirationTime"] = timestamp(strongest.expires)
    return found


def _detail(file: DriveFile, grant: DriveGrant, shared: bool) -> dict[str, Any]:
    inherited = grant.on != file.id
    kind = "member" if grant.member else "file"
    found: dict[str, Any] = {"permissionType": kind, "role": grant.role, "inherited": inherited}
    return found | {"inheritedFrom": grant.on} if inherited and shared else found


def _parents(world: DriveState, file: DriveFile) -> list[str] | None:
    if file.parent is None or not world.access.visible(world.items[file.parent]):
        return None
    return [file.parent]


def _view_link(file: DriveFile) -> str:
    if file.is_folder:
        return f"https://drive.google.com/drive/folders/{file.id}"
    editor = _EDITORS.get(file.mime_type)
    if editor is not None:
        return f"https://docs.google.com/{editor}/d/{file.id}/edit?usp=drivesdk"
    return f"https://drive.google.com/file/d/{file.id}/view?usp=drivesdk"


def _size(file: DriveFile) -> str | None:
    if file.is_folder or file.mime_type == SHORTCUT:
        return None
    if file.sheets is not None:
        return str(sum(len(str(cell)) for rows in file.sheets.values() for row in rows for cell in row))
    return str(len(file.content))


def _display_name(email: str) -> str:
    return email.partition("@")[0].replace(".", " ").title()


def _in_my_drive(make: Callable[[DriveState, DriveFile], Any]) -> Callable[[DriveState, DriveFile], Any]:
    """Return a field builder that leaves out items in shared drives."""
    return lambda world, file: None if world.drive_of(file.id) else make(world, file)


def _shortcut(_: DriveState, file: DriveFile) -> dict[str, Any] | None:
    if file.target is None:
        return None
    return {"targetId": file.target, "targetMimeType": file.target_mime_type}


def _capabilities(world: DriveState, file: DriveFile) -> dict[str, Any]:
    return {
        "canListChildren": file.is_folder and world.access.readable(file),
        "canDownload": not file.download_forbidden,
        "canReadLabels": not file.labels_hidden,
    }


def _label_info(world: DriveState, file: DriveFile) -> dict[str, Any] | None:
    """Return the labels that the call asks for; none by default, and none that the account may not read."""
    if not world.include_labels or file.labels_hidden:
        return None
    shown = [{"kind": "drive#label", "id": label} for label in file.labels if label in world.include_labels]
    return {"labels": shown} if shown else {}


_FIELDS: dict[str, Callable[[DriveState, DriveFile], Any]] = {
    "kind": lambda _world, _file: "drive#file",
    "id": lambda _, file: file.id,
    "name": lambda _, file: file.name,
    "mimeType": lambda _, file: file.mime_type,
    "description": lambda _, file: file.description,
    "trashed": lambda world, file: world.access.trashed(file),
    "trashedTime": lambda world, file: (
        timestamp(file.trashed_at) if file.trashed_at and world.drive_of(file.id) else None
    ),
    "parents": _parents,
    "createdTime": lambda _, file: timestamp(file.created),
    "modifiedTime": lambda _, file: timestamp(file.modified),
    "lastModifyingUser": lambda world, file: user(world, file.modified_by),
    "owners": _in_my_drive(lambda world, file: [user(world, file.owner)] if file.owner else None),
    "driveId": lambda world, file: world.drive_of(file.id) or None,
    "capabilities": _capabilities,
    "inheritedPermissionsDisabled": lambda _, file: file.limited,
    "permissionIds": lambda world, file: [_id(world, held[0]) for held in world.access.grants(file).values()],
    "hasAugmentedPermissions": lambda world, file: (
        bool(file.grants) if world.drive_of(file.id) and file.parent is not None else None
    ),
    "permissions": _in_my_drive(lambda world, file: permissions(world, file) if may_share(world, file) else None),
    "exportLinks": lambda world, file: links(file, world.base) if world.access.readable(file) else None,
    "webViewLink": lambda _, file: _view_link(file),
    "version": lambda _, file: str(file.version),
    "size": lambda _, file: _size(file),
    "md5Checksum": lambda _, file: file.md5 if file.is_binary else None,
    "headRevisionId": lambda _, file: f"0B{file.id[1:17]}{file.revision:06d}" if file.is_binary else None,
    "labelInfo": _label_info,
    "shortcutDetails": _shortcut,
    "viewedByMe": lambda world, file: (world.access.viewer, file.id) in world.access.opened,
}
"""The fields that the connector reads."""
