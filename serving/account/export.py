"""`GET /api/me/export`: what is stored about the caller."""

from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.di import NamedDependency

from resources.core.domain import Access
from serving.account.service import AccountServices
from serving.answers.history import questions_of
from serving.http.audit import AuditEvent
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.authentication import credential_of
from serving.identity.me import own_identity
from serving.identity.own_keys import own_keys_of
from serving.identity.passkeys import own_passkeys_of
from serving.identity.principals import Identity
from serving.search.saved import saved_searches_of
from sql.fields import Moment
from sql.own_keys import OwnKey
from sql.passkeys import OwnPasskey
from sql.saved_searches import SavedSearch
from sql.serving import WebReads
from sql.serving_rows import Asked, ExportedUpload

MOST = 10_000
"""Entries of each list."""


class ExportedEvent(msgspec.Struct, frozen=True):
    """An event of the audit log, without IDs of documents, which the caller may no longer know."""

    at: Moment
    """When it happened."""
    action: str
    """What was done, such as `search` or `open`."""
    query: str | None
    """The query; null if there is none or it was redacted."""
    documents: int
    """Number of documents found, opened or changed."""


class Export(msgspec.Struct, frozen=True):
    """Data stored about the caller: the latest 10,000 entries of each list, newest first."""

    exported_at: Moment
    """When this was read."""
    identity: Identity
    """The caller's principals, as `GET /api/me` returns them."""
    uploads: list[ExportedUpload]
    """Uploads that are not deleted."""
    saved_searches: list[SavedSearch]
    """Saved searches, as `GET /api/saved-searches` returns them."""
    keys: list[OwnKey]
    """API keys, as `GET /api/keys` returns them."""
    passkeys: list[OwnPasskey]
    """Passkeys, as `/me` shows them."""
    questions: list[Asked]
    """Questions, as `GET /api/answers` returns them, without the answers: these quote documents."""
    events: list[ExportedEvent]
    """Events of the audit log under the caller's email."""


@get(
    "/api/me/export",
    operation_id="exportMe",
    tags=["access"],
    summary="Export what is stored about me",
    opt=limited("write")
    | described(
        example={
            "exported_at": "2026-11-23T10:00:04Z",
            "identity": {
                "email": "ann@acme.com",
                "active": True,
                "admin": False,
                "groups_are_managed": True,
                "groups_omitted": False,
                "principals": [],
            },
            "uploads": [],
            "saved_searches": [],
            "keys": [],
            "passkeys": [],
            "questions": [
                {
                    "answer_id": "6c5d0c3a-1f0e-4f6d-9d0b-0f6a6b4b6f11",
                    "created_at": "2026-11-20T09:00:00Z",
                    "query": "When is tea served?",
                    "found": True,
                    "mode": "extractive",
                    "shared_at": None,
                }
            ],
            "events": [],
        }
    ),
)
async def export_me(request: Request[Access, Any, Any], account: NamedDependency[AccountServices]) -> Response[Export]:
    """Return what is stored about the caller, as a file to be saved: uploads, questions and audit events. Recorded (`export`)."""
    access, reads = request.user, WebReads(account.http.database)
    uploads = await reads.uploads_of(email=access.email, most=MOST)
    events = await reads.audit_events(
        email=access.email, action=None, since=None, until=None, before_at=None, before_id=None, most=MOST
    )
    await account.http.audit.record(AuditEvent(email=access.email, action="export"))
    exported = Export(
        account.http.clock(),
        await own_identity(account.identity, access, credential_of(request)),
        uploads,
        await saved_searches_of(account.answers.search, access),
        await own_keys_of(account.identity, access, account.http.clock()),
        await own_passkeys_of(account.identity, access),
        (await questions_of(account.answers, access, MOST, None)).answers,
        [ExportedEvent(one.at, one.action, one.query, len(one.doc_ids)) for one in events],
    )
    return Response(exported, headers={"Content-Disposition": 'attachment; filename="concordance-export.json"'})
