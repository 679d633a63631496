"""JSON resources of items, permissions and drives, as the API shows them to the account. Only requested fields are built.

Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/files and .../guides/shared-drives-diffs
"""

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any

from resources.sources.drive.simulator.exports import FORMATS
from resources.sources.drive.simulator.fields import Mask, pick
from resources.sources.drive.simulator.state import World
from resources.sources.drive.simulator.tree import (
    DOCUMENT,
    PRESENTATION,
    RANKS,
    SHORTCUT,
    SPREADSHEET,
    DriveFile,
    DriveGrant,
    SharedDrive,
)
from resources.sources.drive.simulator.tree import permission_id as id_of

_EDITORS = {DOCUMENT: "document", SPREADSHEET: "spreadsheets", PRESENTATION: "presentation"}


def timestamp(at: datetime) -> str:
    """Return a time in the API's format: UTC, in milliseconds."""
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03d}Z"


def user(world: World, email: str) -> dict[str, Any]:
    return {
        "kind": "drive#user",
        "displayName": _display_name(email),
        "me": email == world.account,
        "permissionId": id_of(DriveGrant(f"user:{email}", "", "")),
        "emailAddress": email,
    }


def shared_drive(world: World, drive: SharedDrive) -> dict[str, Any]:
    rank = RANKS.get(world.access.role(world.items[drive.id]) or "", 0)
    return {
        "kind": "drive#drive",
        "id": drive.id,
        "name": drive.name,
        "colorRgb": "#0f9d58",
        "createdTime": timestamp(drive.created),
        "hidden": False,
        "capabilities": {
            "canListChildren": rank > 0,
            "canDownload": rank > 0,
            "canReadRevisions": rank > 0,
            "canEdit": rank >= RANKS["writer"],
            "canAddChildren": rank >= RANKS["writer"],
            "canShare": rank >= RANKS["fileOrganizer"],
            "canManageMembers": rank >= RANKS["organizer"],
        },
        "restrictions": {
            "adminManagedRestrictions": False,
            "copyRequiresWriterPermission": False,
            "domainUsersOnly": False,
            "driveMembersOnly": False,
        },
    }


def may_share(world: World, file: DriveFile) -> bool:
    """Return True if the account may change a file's sharing; otherwise it cannot see who else has access."""
    role = world.access.role(file)
    return role is not None and RANKS[role] >= RANKS["writer"]


def permissions(world: World, file: DriveFile) -> list[dict[str, Any]]:
    """Return every permission on an item: its own, inherited ones, and those disabled by a limited-access folder."""
    shared = bool(world.drive_of(file.id))
    found = [_permission(file, held, shared) for held in world.access.grants(file).values()]
    for grant in world.access.hidden(file):
        turned_off = _permission(file, (grant,), shared)
        found.append(turned_off | {"role": "reader", "view": "metadata", "inheritedPermissionsDisabled": True})
    return found


def file_resource(world: World, file: DriveFile, chosen: Mask) -> dict[str, Any]:
    """Return an item's resource with the fields that the mask selects and that apply to it."""
    found: dict[str, Any] = {}
    for name in _FIELDS if chosen is None else chosen:
        make = _FIELDS.get(name)
        value = None if make is None else make(world, file)
        if value is not None:
            below = None if chosen is None else chosen[name]
            found[name] = value if below is None else pick(value, below)
    return found


def _permission(file: DriveFile, held: tuple[DriveGrant, ...], shared: bool) -> dict[str, Any]:
    strongest = held[0]
    found: dict[str, Any] = {
        "kind": "drive#permission",
        "id": id_of(strongest),
        "type": strongest.kind,
        "role": strongest.role,
        "permissionDetails": [_detail(file, grant, shared) for grant in held],
    }
    if strongest.kind in ("user", "group"):
        found |= {
            "emailAddress": strongest.name,
            "displayName": _display_name(strongest.name),
            "deleted": False,
            "pendingOwner": False,
        }
    else:
        found["allowFileDiscovery"] = any(grant.discoverable for grant in held)
    if strongest.kind == "domain":
        found |= {"domain": strongest.name, "displayName": strongest.name}
    if strongest.expires is not None:
        found["expirationTime"] = timestamp(strongest.expires)
    return found


def _detail(file: DriveFile, grant: DriveGrant, shared: bool) -> dict[str, Any]:
    inherited = grant.on != file.id
    found: dict[str, Any] = {
        "permissionType": "member" if grant.member else "file",
        "role": grant.role,
        "inherited": inherited,
    }
    if inherited and shared:
        found["inheritedFrom"] = grant.on
    return found


def _capabilities(world: World, file: DriveFile) -> dict[str, Any]:
    readable = world.access.readable(file)
    rank = RANKS[world.access.role(file) or "reader"] if readable else 0
    edits, folder = rank >= RANKS["writer"], file.is_folder
    return {
        "canListChildren": readable and folder,
        "canAddChildren": edits and folder,
        "canDownload": readable and not folder,
        "canCopy": readable and not folder,
        "canReadRevisions": readable and not folder,
        "canEdit": edits,
        "canComment": rank >= RANKS["commenter"],
        "canRename": edits,
        "canModifyContent": edits,
        "canShare": readable and may_share(world, file),
        "canTrash": rank >= RANKS["fileOrganizer"],
        "canDelete": rank >= RANKS["organizer"],
        "canDisableInheritedPermissions": folder and not file.limited and rank >= RANKS["organizer"],
        "canEnableInheritedPermissions": folder and file.limited and rank >= RANKS["organizer"],
    }


def _parents(world: World, file: DriveFile) -> list[str] | None:
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


def _always(value: Any) -> Callable[[World, DriveFile], Any]:
    return lambda *_: value


def _digest(name: str) -> Callable[[World, DriveFile], str | None]:
    return lambda _, file: hashlib.new(name, file.content).hexdigest() if file.is_binary else None


def _display_name(email: str) -> str:
    return email.partition("@")[0].replace(".", " ").title()


def _in_my_drive(make: Callable[[World, DriveFile], Any]) -> Callable[[World, DriveFile], Any]:
    """Return a field builder that leaves out items in shared drives."""
    return lambda world, file: None if world.drive_of(file.id) else make(world, file)


def _in_shared_drive(make: Callable[[World, DriveFile], Any]) -> Callable[[World, DriveFile], Any]:
    """Return a field builder that leaves out items outside shared drives."""
    return lambda world, file: make(world, file) if world.drive_of(file.id) else None


def _shortcut(_: World, file: DriveFile) -> dict[str, Any] | None:
    if file.target is None:
        return None
    return {"targetId": file.target, "targetMimeType": file.target_mime_type}


def _export_links(_: World, file: DriveFile) -> dict[str, str] | None:
    base = f"https://docs.google.com/feeds/download/{_EDITORS.get(file.mime_type)}s/export/Export?id={file.id}"
    return {kind: f"{base}&exportFormat={kind}" for kind in FORMATS.get(file.mime_type, ())} or None


_FIELDS: dict[str, Callable[[World, DriveFile], Any]] = {
    "kind": _always("drive#file"),
    "id": lambda _, file: file.id,
    "name": lambda _, file: file.name,
    "mimeType": lambda _, file: file.mime_type,
    "description": lambda _, file: file.description,
    "starred": lambda _, file: file.starred,
    "trashed": lambda world, file: world.access.trashed(file),
    "explicitlyTrashed": lambda _, file: file.trashed_at is not None,
    "trashedTime": _in_shared_drive(lambda _, file: file.trashed_at and timestamp(file.trashed_at)),
    "trashingUser": _in_shared_drive(lambda world, file: file.trashed_at and user(world, world.account)),
    "parents": _parents,
    "spaces": _always(["drive"]),
    "version": lambda _, file: str(file.version),
    "createdTime": lambda _, file: timestamp(file.created),
    "modifiedTime": lambda _, file: timestamp(file.modified),
    "modifiedByMe": lambda world, file: file.modified_by == world.account,
    "lastModifyingUser": lambda world, file: user(world, file.modified_by),
    "owners": _in_my_drive(lambda world, file: [user(world, file.owner)] if file.owner else None),
    "ownedByMe": _in_my_drive(lambda world, file: file.owner == world.account),
    "shared": _in_my_drive(lambda world, file: len(world.access.grants(file)) > 1),
    "sharedWithMeTime": _in_my_drive(lambda _, file: file.shared_at and timestamp(file.shared_at)),
    "driveId": lambda world, file: world.drive_of(file.id) or None,
    "teamDriveId": lambda world, file: world.drive_of(file.id) or None,
    "hasAugmentedPermissions": _in_shared_drive(lambda _, file: bool(file.grants)),
    "capabilities": _capabilities,
    "writersCanShare": _in_my_drive(_always(True)),
    "copyRequiresWriterPermission": _always(False),
    "viewersCanCopyContent": _always(True),
    "inheritedPermissionsDisabled": lambda _, file: file.limited,
    "permissionIds": lambda world, file: [id_of(held[0]) for held in world.access.grants(file).values()],
    "permissions": _in_my_drive(lambda world, file: permissions(world, file) if may_share(world, file) else None),
    "webViewLink": lambda _, file: _view_link(file),
    "webContentLink": lambda _, file: (
        f"https://drive.google.com/uc?id={file.id}&export=download" if file.is_binary else None
    ),
    "iconLink": lambda _, file: f"https://drive-thirdparty.googleusercontent.com/16/type/{file.mime_type}",
    "hasThumbnail": _always(False),
    "thumbnailVersion": _always("0"),
    "isAppAuthorized": _always(True),
    "size": lambda _, file: _size(file),
    "quotaBytesUsed": lambda _, file: _size(file) or "0",
    "md5Checksum": lambda _, file: file.md5 if file.is_binary else None,
    "sha1Checksum": _digest("sha1"),
    "sha256Checksum": _digest("sha256"),
    "headRevisionId": lambda _, file: f"0B{file.id[1:17]}{file.revision:06d}" if file.is_binary else None,
    "originalFilename": lambda _, file: file.name if file.is_binary else None,
    "fileExtension": lambda _, file: PurePosixPath(file.name).suffix[1:] if file.is_binary else None,
    "fullFileExtension": lambda _, file: "".join(PurePosixPath(file.name).suffixes)[1:] if file.is_binary else None,
    "exportLinks": _export_links,
    "shortcutDetails": _shortcut,
}
