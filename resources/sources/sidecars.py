"""Metadata of files: from the sidecar `<file>.meta.json`, the root's defaults and the path.

The precedence, highest first: request > sidecar > path > defaults. Permissions are not merged: if the sidecar names them it
decides, otherwise the root, otherwise no one may read the file. An invalid sidecar hides its document: its intention may have
been "not for everyone".

A sidecar is a JSON object. `title`, `description`, `owner` (an email), `author`, `permissions` (a list of principals),
`created_at`, `modified_at` (ISO 8601) and `tags` (an object) have a meaning; any other key is a tag, unless it looks
like a misspelt `permissions` or `owner`.

The path gives `tenant` and `dataset` if the root has `*` for one or both: with both, the first folder is the tenant and the
second the dataset; with one, the first folder is that one. A value given in the root takes precedence.
"""

import difflib
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any, cast

import msgspec

from resources.core import moments, permissions
from resources.core.errors import InvalidRequestError, SkipDocumentError
from resources.settings import FileRoot

SUFFIX = ".meta.json"
MAX_BYTES = 1024 * 1024
"""A sidecar larger than this is not read."""
MAX_TAGS = 50
MAX_TAG_NAME = 200
MAX_TAG_BYTES = 16 * 1024
"""All tags of a document together, as JSON: every search result carries them."""
FROM_PATH = "*"
REQUIRED = ("tenant", "dataset")

_GRANTS = ("permissions", "owner", "access", "acl", "readers", "allowed", "groups", "users", "principals", "visibility")


class Sidecar(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a sidecar; None for missing fields. Principals are in normal form, times aware UTC."""

    title: str | None = None
    description: str | None = None
    owner: str | None = None
    author: str | None = None
    permissions: tuple[str, ...] | None = None
    created_at: datetime | None = None
    modified_at: datetime | None = None
    tags: dict[str, Any] = {}


SILENT = Sidecar()


def parse(data: bytes) -> Sidecar:
    """Parse a sidecar; raises `SkipDocumentError` with the fault if any part of it is invalid."""
    try:
        content: Any = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _broken(f"it is not valid JSON ({error})") from error
    if not isinstance(content, dict):
        raise _broken("it must hold a JSON object")
    fields = cast("dict[str, Any]", content)
    try:
        return Sidecar(
            title=_text(fields, "title"),
            description=_text(fields, "description"),
            author=_text(fields, "author"),
            owner=_owner(fields),
            permissions=_permissions(fields),
            created_at=_time(fields, "created_at"),
            modified_at=_time(fields, "modified_at"),
            tags=_tags(fields),
        )
    except InvalidRequestError as error:
        raise _broken(str(error).rstrip(".")) from error


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tags from several layers, the highest first: the first layer with a tag decides its value."""
    merged: dict[str, Any] = {}
    for layer in reversed(layers):
        merged.update(layer)
    return merged


def path_tags(root: FileRoot, folders: tuple[str, ...]) -> dict[str, str]:
    """Return `tenant` and `dataset` from the folders above a file, where the root leaves them to the path."""
    wanted = [name for name, value in zip(REQUIRED, (root.tenant, root.dataset), strict=True) if value == FROM_PATH]
    return dict(zip(wanted, folders, strict=False))


def root_tags(root: FileRoot) -> dict[str, Any]:
    """Return a root's default tags, including its `tenant` and `dataset` if it gives them."""
    named = {name: value for name, value in (("tenant", root.tenant), ("dataset", root.dataset)) if value != FROM_PATH}
    return {"source": "files", **root.tags, **named}


def check_required(tags: Mapping[str, Any]) -> None:
    """Raise `SkipDocumentError` if a document has no tenant or no dataset."""
    for name in REQUIRED:
        value = tags.get(name)
        if not isinstance(value, str) or not value.strip():
            raise SkipDocumentError(
                f"It has no {name}: name it in the sidecar's tags, or in the root, or put the file in a {name} folder."
            )


def _broken(fault: str) -> SkipDocumentError:
    return SkipDocumentError(f"Its sidecar ({SUFFIX}) is invalid, so no one may see it: {fault}. Fix the sidecar.")


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or "\0" in value:
        raise InvalidRequestError(f"{name} must be text")
    return value.strip() or None


def _owner(fields: Mapping[str, Any]) -> str | None:
    text = _text(fields, "owner")
    return None if text is None else permissions.email(text)


def _permissions(fields: Mapping[str, Any]) -> tuple[str, ...] | None:
    if "permissions" not in fields:
        return None
    value: Any = fields["permissions"]
    if not isinstance(value, list) or not all(isinstance(text, str) for text in cast("list[Any]", value)):
        raise InvalidRequestError("permissions must be a list of principals")
    return permissions.normalize(cast("list[str]", value))


def _time(fields: Mapping[str, Any], name: str) -> datetime | None:
    text = _text(fields, name)
    if text is None:
        return None
    try:
        return moments.bounded(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidRequestError(f"{name} must be a date and time such as 2025-11-10T09:30:00Z") from error


def _tags(fields: Mapping[str, Any]) -> dict[str, Any]:
    inner: Any = fields.get("tags", {})
    if not isinstance(inner, dict):
        raise InvalidRequestError("tags must be an object")
    known = set(Sidecar.__struct_fields__)
    others = {name: value for name, value in fields.items() if name not in known}
    for name in others:
        near = difflib.get_close_matches(name.lower(), _GRANTS, n=1, cutoff=0.8)
        if near:
            raise InvalidRequestError(
                f"the key {name!r} has no meaning here; write permissions or owner, or a tag under tags"
            )
    tags = {**others, **cast("dict[str, Any]", inner)}
    check_plain(tags)
    return tags


def check_plain(tags: Mapping[str, Any]) -> None:
    """Raise `InvalidRequestError` for a tag that Postgres or Qdrant can't store, and for tags over the size limits."""
    if len(tags) > MAX_TAGS:
        raise InvalidRequestError(f"there are {len(tags)} tags; the limit is {MAX_TAGS}")
    for name, value in tags.items():
        flat = cast("list[Any]", value) if isinstance(value, list) else [value]
        if "\0" in name or not all(_is_plain(part) for part in flat):
            shown = name[:MAX_TAG_NAME]
            raise InvalidRequestError(f"the tag {shown!r} must be a text, a number, true or false, or a list of these")
        if len(name) > MAX_TAG_NAME:
            raise InvalidRequestError(
                f"the tag {name[:MAX_TAG_NAME]!r}… has a name of more than {MAX_TAG_NAME} characters"
            )
        if name in {*REQUIRED, *permissions.PROTECTING} and not isinstance(value, str):
            raise InvalidRequestError(f"the tag {name!r} must be a text")
    size = len(msgspec.json.encode(dict(tags)))
    if size > MAX_TAG_BYTES:
        raise InvalidRequestError(f"the tags have {size} bytes together; the limit is {MAX_TAG_BYTES}")


def _is_plain(value: Any) -> bool:
    """Return True if Postgres and Qdrant can both store a value unchanged: no NUL, no integer over 64 bits, no infinity."""
    if isinstance(value, str):
        return "\0" not in value
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and -(2**63) <= value < 2**63
