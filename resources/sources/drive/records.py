"""Convert Drive's file metadata to an `Item` or a `Refusal`. Pure."""

from datetime import datetime
from typing import Any

from resources.core import moments
from resources.core.domain import Folder, Item, Refusal
from resources.core.errors import SkipDocumentError
from resources.settings import Settings
from resources.sources.drive import labels, readers
from resources.sources.drive.client import JSON
from resources.sources.drive.kinds import DOCUMENT, SLIDES, WITH_COMMENTS, kind_of
from resources.sources.drive.permissions import FileGrant
from resources.sources.drive.tree import Trail
from resources.sources.tree import EMPTY, too_large

FILE_FIELDS = (
    "id,name,mimeType,description,parents,driveId,trashed,trashedTime,createdTime,modifiedTime,version,size,md5Checksum,"
    "headRevisionId,webViewLink,owners(emailAddress,displayName),lastModifyingUser(emailAddress,displayName),"
    f"permissions({readers.FIELDS}),permissionIds,shortcutDetails(targetId,targetMimeType),"
    f"inheritedPermissionsDisabled,capabilities(canListChildren,canReadLabels),{labels.FIELDS}"
)
"""Requested fields: by default Drive returns only four."""


def describe(
    file: JSON, trail: Trail, folders: tuple[Folder, ...], grant: FileGrant, settings: Settings
) -> Item | Refusal:
    """Return the document, or a refusal if there is a reason for one; `folders` are those of the trail."""
    name = str(file["name"])
    size = _whole_number(file.get("size"))
    try:
        kind = kind_of(name, str(file["mimeType"]))
    except SkipDocumentError as error:
        return refuse(file, trail, str(error))
    if (reason := labels.refusal(file, settings.drive_labels)) is not None:
        return refuse(file, trail, reason)
    if kind.way == "media" and size is not None and not 0 < size <= settings.max_file_bytes:
        return refuse(file, trail, too_large(size, settings.max_file_bytes) if size else EMPTY)
    owner = readers.owner_of(file)
    commented = settings.drive_comments and file["mimeType"] == DOCUMENT
    return Item(
        source_id=file["id"],
        partition=trail.partition,
        title=name,
        path="/".join((*trail.names, name)),
        mime_type=kind.mime_type,
        version=version_of(file, commented=commented),
        permissions=tuple(sorted(grant.principals)),
        owner=owner,
        author=owner or _author(file),
        url=file.get("webViewLink"),
        # for Google's own formats Drive reports the storage used, not the size of an export
        size=size if kind.way == "media" else None,
        created_at=moment(file.get("createdTime")),
        modified_at=moment(file.get("modifiedTime")),
        collection_ids=trail.folders,
        folders=folders,
        tags={"sharing": grant.sharing, **labels.tags(file, settings.drive_labels)},
        description=file.get("description") or None,
        locator=WITH_COMMENTS if commented else kind.way,
    )


def refuse(file: JSON, trail: Trail, reason: str) -> Refusal:
    name = str(file["name"])
    return Refusal(
        source_id=file["id"],
        partition=trail.partition,
        title=name,
        path="/".join((*trail.names, name)),
        reason=reason,
        version=version_of(file),
        owner=readers.owner_of(file),
        collection_ids=trail.folders,
    )


def version_of(file: JSON, *, commented: bool = False) -> str:
    """Return a value that changes whenever the bytes may have: Google's own formats have neither a checksum nor a revision id.

    It names the format of an export that used to be another one. A comment changes none of these, only the number of all changes.
    """
    if commented:
        return f"{file.get('modifiedTime') or ''} {file.get('version') or ''}"
    if file.get("mimeType") == SLIDES:
        return f"{file.get('modifiedTime') or ''} pptx"
    return str(file.get("md5Checksum") or file.get("headRevisionId") or file.get("modifiedTime") or "")


def moment(text: Any) -> datetime | None:
    """Return a time of Drive's (RFC 3339) in UTC, None if it cannot be stored."""
    return moments.parsed(text) if isinstance(text, str) else None


def _author(file: JSON) -> str | None:
    """Return the last editor: files in shared drives have no owner."""
    person: JSON = file.get("lastModifyingUser") or {}
    return person.get("emailAddress") or person.get("displayName")


def _whole_number(value: Any) -> int | None:
    return int(value) if isinstance(value, str | int) and str(value).isdigit() else None
