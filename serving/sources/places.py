"""`POST /api/sources/{source}/places`: the drives, folders or channels to choose from, a level at a time."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.sources.check import Value, attempt, given, tried_source
from serving.sources.service import SourceServices


class Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Places to list, and the credentials to list them with."""

    settings: Annotated[dict[Annotated[str, Meta(max_length=100)], Value], Meta(max_length=10)] = {}
    """Credentials as for `POST /api/sources/{source}/check`. Empty: those that are configured. They are not stored, logged or returned."""
    inside: Annotated[str, Meta(max_length=200)] | None = None
    """ID of the place to open; null for the top."""


class SourcePlace(msgspec.Struct, frozen=True):
    """A drive, folder or channel."""

    id: str
    """Its ID at the source, `my_drive` or `shared_drives`."""
    name: str
    """Its name."""
    opens: bool
    """True if it may contain further places."""
    readable: bool
    """False if the source must first let the credentials in: a channel without the app."""


class SourcePlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Places to choose from."""

    problem: str | None
    """Why they cannot be listed and what to do; null if they can."""
    places: list[SourcePlace]
    """Up to 500 drives or folders by name, or 1000 channels, those that are readable first."""
    complete: bool
    """False if there are more."""


@post(
    "/api/sources/{source:str}/places",
    operation_id="browseSource",
    status_code=200,
    tags=["sync"],
    summary="Browse drives, folders or channels",
    guards=[NeedsRole(Role.OPERATOR)],
    opt=limited("browse")
    | described(
        problems=("unknown-source",),
        parameters={"source": "google_drive"},
        request={"inside": "shared_drives"},
        example={
            "problem": None,
            "places": [{"id": "0ACompanyDrive", "name": "Company", "opens": True, "readable": True}],
            "complete": True,
        },
    ),
)
async def browse_source(
    request: Request[Access, Any, Any],
    source: Annotated[str, PathParameter(description="`google_drive`, `slack`, or another source with places.")],
    data: JSONBody[Wanted],
    source_services: NamedDependency[SourceServices],
) -> SourcePlaces:
    """Return the places directly inside one, as the source shows them to these credentials. For operators."""
    spec, trial = tried_source(source)
    if trial.browse is None:
        raise ProblemError("unknown-source", f"{spec.label} has no places to choose.")
    run = partial(trial.browse, await source_services.settings(), given(trial, data.settings), data.inside)
    found, problem = await attempt(source_services, spec.label, run)
    detail = msgspec.json.encode({"source": spec.name.value, "inside": data.inside, "worked": found is not None})
    await source_services.http.audit.record(
        AuditEvent(email=request.user.email, action="source_browse", detail=detail.decode())
    )
    if found is None:
        return SourcePlaces(problem=problem, places=[], complete=True)
    places = [SourcePlace(one.id, one.name, one.opens, one.readable) for one in found.found]
    return SourcePlaces(problem=None, places=places, complete=found.complete)
