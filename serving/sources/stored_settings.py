"""`PATCH /api/sources/{source}/settings`: store credentials and choices of a source, so that it is connected without the environment."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, patch
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from resources.core.errors import ConfigurationError
from resources.settings import Settings
from resources.sources import stored
from resources.sources.spec import SourceSpec
from resources.stores.postgres import Connection
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.sources.check import Value, tried_source
from serving.sources.service import SourceServices
from sql.serving import WebSession
from sql.source_settings import StoredSettings


class ChangedSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a source to store or to forget."""

    settings: Annotated[dict[Annotated[str, Meta(max_length=100)], Value | None], Meta(max_length=10)]
    """Values by setting, named as for `POST /api/sources/{source}/check`. Null forgets a setting, and settings that are not named stay.
    Secrets are encrypted, and never returned or logged."""


class StoredNames(msgspec.Struct, frozen=True):
    """Settings of the source that are stored."""

    stored: list[str]
    """Their names, without their values."""


@patch(
    "/api/sources/{source:str}/settings",
    operation_id="storeSourceSettings",
    tags=["sync"],
    summary="Store credentials of a source",
    guards=[NeedsRole(Role.ADMINISTRATOR)],
    opt=limited("write")
    | described(
        problems=("unknown-source", "set-by-environment", "invalid-request"),
        parameters={"source": "slack"},
        request={"settings": {"slack_bot_token": "xoxb-1234-abcd"}},
        example={"stored": ["slack_bot_token"]},
    ),
)
async def store_settings(
    request: Request[Access, Any, Any],
    source: Annotated[str, PathParameter(description="`google_drive` or `slack`.")],
    data: JSONBody[ChangedSettings],
    source_services: NamedDependency[SourceServices],
) -> StoredNames:
    """Store settings of a source, unless the environment sets it up. Its next sync uses them. For administrators."""
    spec, _ = tried_source(source)
    settings, by = source_services.http.settings, request.user.email
    if spec.configured(settings):
        raise ProblemError(
            "set-by-environment", f"{spec.label} is set up in the environment of Concordance; change it there."
        )
    try:
        names = await source_services.http.database.in_thread(partial(_store, settings, spec, data.settings, by))
    except ConfigurationError as error:
        raise ProblemError("invalid-request", str(error)) from None
    detail = msgspec.json.encode({"source": spec.name.value, "changed": sorted(data.settings), "stored": names})
    await source_services.http.audit.record(AuditEvent(email=by, action="source_settings", detail=detail.decode()))
    return StoredNames(names)


def _store(
    settings: Settings, spec: SourceSpec, values: dict[str, str | None], by: str, connection: Connection
) -> list[str]:
    stored.save(connection, settings, spec, values, by)
    WebSession(connection).source_resume(source=spec.name.value)
    return [row.name for row in StoredSettings(connection).stored_settings() if row.source == spec.name.value]
