"""`PATCH /api/documents/{doc_id}`: change title, description, tags and sharing of an upload without uploading it again."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from litestar import Request, patch
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import UNSET, Meta, UnsetType

from resources.core.domain import Access, SourceName
from resources.core.errors import InvalidRequestError
from resources.core.permissions import normalize
from resources.stores.postgres import Connection
from resources.stores.uploads import Revised, revise
from serving.documents.files import checked_tags, clean_description, one_line
from serving.documents.intake import OWN_ID_TAG
from serving.documents.receiver import launch_upload_sync, message_for
from serving.documents.service import DocumentServices
from serving.documents.sharing import PROVENANCE, check_share
from serving.http.audit import AuditEvent
from serving.http.errors import not_found
from serving.http.fields import DocumentId, Name, NewTags, parse_id
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from sql.fields import Tags
from sql.serving import WebSession
from sql.sources import OwnUpload

KEPT = (*PROVENANCE, OWN_ID_TAG)
"""Tags that stay as they are unless an administrator changes them."""
_LARGEST_EXACT = 2**53 - 1
"""Largest whole number that a script reads exactly. Source: ECMA-262, Number.MAX_SAFE_INTEGER"""


class DocumentChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """New metadata of an upload. What is left out stays as it is."""

    title: Annotated[str, Meta(max_length=500)] | UnsetType | None = UNSET
    """Title of the document. Null: the name of the file."""
    description: Annotated[str, Meta(max_length=10_000)] | UnsetType | None = UNSET
    """Description of the document. Null: none."""
    tags: NewTags | UnsetType = UNSET
    """All tags of the document. Reserved tags (`source`, `tenant`, `dataset`, `external_id`) stay, whether or not they are sent."""
    share: Annotated[list[Name], Meta(max_length=200)] | UnsetType = UNSET
    """All principals who may read the document besides you, such as `domain:acme.com`. Empty: only you."""


class ChangeResponse(msgspec.Struct, frozen=True, kw_only=True):
    """The metadata of the upload after the change. Readers who were left out have lost access when this is sent."""

    doc_id: str
    """ID of the document."""
    status: Literal["updated"]
    """The change is stored."""
    message: str
    """What happens next, in words."""
    job_id: str | None
    """The sync that indexes the change; null if nothing changed, or if none could be started and a later one does it."""
    title: str
    """Title of the document."""
    description: str | None
    """Description of the document; null if it has none."""
    tags: Tags
    """Tags of the document."""
    share: list[str]
    """Principals who may read the document besides you."""


def _changed(documents: DocumentServices, access: Access, data: DocumentChange, upload: OwnUpload) -> OwnUpload:
    """Return the upload with the changes. Raises `InvalidRequestError`, and the problem `sharing-not-allowed` for a new reader."""
    changes: dict[str, Any] = {}
    if data.title is not UNSET:
        changes["title"] = one_line(data.title or "", 500) or upload.file_name
    if data.description is not UNSET:
        changes["description"] = clean_description(data.description)
    if data.tags is not UNSET:
        changes["tags"] = _tags(access, data.tags, upload.tags)
    if data.share is not UNSET:
        permissions = normalize([upload.owner, *data.share])
        check_share(documents.http.settings, access, set(permissions) - set(upload.permissions))
        changes["permissions"] = list(permissions)
    return msgspec.structs.replace(upload, **changes)


def _tags(access: Access, wanted: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    for name in KEPT:
        if name in wanted and wanted[name] != before.get(name) and not (access.admin and name != OWN_ID_TAG):
            raise InvalidRequestError(f"tags.{name}: is reserved and cannot be changed. Leave it out.")
    kept = {name: before[name] for name in KEPT if name in before}
    return checked_tags(kept | {name: _numbers(value, before.get(name)) for name, value in wanted.items()}, "tags")


def exact(value: Any) -> Any:
    """Return whole numbers that a script would round as texts, in lists too."""
    if isinstance(value, list):
        return [exact(part) for part in cast("list[Any]", value)]
    return str(value) if isinstance(value, int) and abs(value) > _LARGEST_EXACT else value


def _numbers(value: Any, before: Any) -> Any:
    """Return the value of a tag with the numbers that it had before, if it has come back from our page as `exact` gave it."""
    return before if exact(before) != before and value == exact(before) else value


@patch(
    "/api/documents/{doc_id:str}",
    operation_id="changeDocument",
    status_code=200,
    tags=["documents"],
    summary="Change title, tags and sharing of an upload",
    opt=limited("write")
    | described(
        repeatable=True,
        problems=("not-found", "sharing-not-allowed"),
        parameters={"doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb"},
        request={"title": "Tea", "tags": {"topic": "kitchen"}, "share": ["domain:acme.com"]},
        example={
            "doc_id": "b01b2115-b591-5686-a292-6e3ca11e28cb",
            "status": "updated",
            "message": "Changed, indexing in progress",
            "job_id": "3e363157-6a0c-4a3e-9d55-1f0e7a9f2d10",
            "title": "Tea",
            "description": None,
            "tags": {"topic": "kitchen"},
            "share": ["domain:acme.com"],
        },
    ),
)
async def change_document(
    request: Request[Access, Any, Any],
    data: JSONBody[DocumentChange],
    documents: NamedDependency[DocumentServices],
    doc_id: DocumentId,
) -> ChangeResponse:
    """Change the metadata of an upload or a pushed document of the caller.

    Fewer readers take effect at once; everything else with the sync that this starts. Nothing is embedded again.
    Sent again, the same change does nothing.
    """
    doc_id, access = parse_id(doc_id, not_found()), request.user

    def store(connection: Connection) -> Revised | None:
        with connection.transaction():
            revised = revise(
                connection,
                doc_id=doc_id,
                owner=access.email,
                change=lambda upload: _changed(documents, access, data, upload),
            )
            if revised is not None and (fields := _differences(revised)):
                before, after = set(revised.before.permissions), set(revised.after.permissions)
                detail = json.dumps(
                    {
                        "fields": fields,
                        "permissions": revised.after.permissions,
                        "added": sorted(after - before),
                        "removed": sorted(before - after),
                    }
                )
                event = AuditEvent(email=access.email, action="change", doc_ids=[doc_id], detail=detail)
                WebSession(connection).audit_insert(**event.row())
                documents.identity.withholding.documents(connection, [doc_id])
        return revised

    revised = await documents.http.database.in_thread(store)
    if revised is None:
        raise not_found()
    job_id, message = None, "Nothing changed"
    if _differences(revised):
        job_id = await launch_upload_sync(documents, access.email, SourceName(revised.after.source))
        message = message_for(job_id, "Changed")
    upload = revised.after
    return ChangeResponse(
        doc_id=doc_id,
        status="updated",
        message=message,
        job_id=job_id,
        title=upload.title,
        description=upload.description,
        tags=upload.tags,
        share=[one for one in upload.permissions if one != upload.owner],
    )


def _differences(revised: Revised) -> list[str]:
    """Return the names of the fields that changed."""
    before, after = (msgspec.structs.asdict(one) for one in (revised.before, revised.after))
    return [name for name in before if before[name] != after[name]]
