"""`POST /api/sources/{source}/check`: try credentials of a source before they are set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter
from msgspec import Meta

from resources.core.domain import Access, Role
from resources.core.errors import ConcordanceError, InvalidRequestError
from resources.sources import find, names
from resources.sources.spec import Reach, SourceSpec, Trial
from serving.http.audit import AuditEvent
from serving.http.errors import ProblemError
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole
from serving.sources.estimates import FirstSync, first_sync
from serving.sources.service import SourceServices

SECONDS = 40.0
"""Longer than any trial, whose calls have deadlines of their own."""
SHOWN = 10
"""Names of drives or channels in the response."""
Found = TypeVar("Found")
Value = Annotated[str, Meta(max_length=16_384)]


class Credentials(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Values of settings to try. They are not stored, logged or returned."""

    settings: Annotated[dict[Annotated[str, Meta(max_length=100)], Value], Meta(max_length=10)]
    """Values by setting, in lower case and without the prefix: `slack_bot_token`; `google_service_account_key` (the content of
    the key file) and `google_subject`; `google_client_id` and `google_client_secret`. `drive_roots` limits the count to these drives and
    folders. Without any credential, those that are configured are tried."""


class CheckedScope(msgspec.Struct, frozen=True):
    """A permission that the source needs."""

    name: str
    """Its name, as the vendor writes it."""
    purpose: str
    """What it is for."""
    required: bool
    """False if the source also works without it."""
    granted: bool
    """True if the credentials have it."""


class SourceCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Documents and places that a source would read with the credentials."""

    ok: bool
    """True if the credentials work and have all required scopes."""
    problem: str | None
    """What is wrong and what to do; null if they work."""
    account: str | None
    """Whom the credentials belong to; null if they do not work."""
    scopes: list[CheckedScope]
    """What the source needs; empty if the vendor did not say what is granted."""
    places: list[str]
    """Names of up to ten drives or channels that would be read."""
    place_count: int
    """Number of all of them."""
    complete: bool
    """False if there are more drives, channels or documents than were counted."""
    first_sync: FirstSync | None
    """What the first sync would take; null if the source does not count documents."""
    notes: list[str]
    """Limitations, each with what to do about it."""


@post(
    "/api/sources/{source:str}/check",
    operation_id="checkSource",
    status_code=200,
    tags=["sync"],
    summary="Try credentials of a source",
    guards=[NeedsRole(Role.OPERATOR)],
    opt=limited("check")
    | described(
        problems=("unknown-source",),
        parameters={"source": "slack"},
        request={"settings": {"slack_bot_token": "xoxb-…"}},
        example={
            "ok": True,
            "problem": None,
            "account": "Acme (https://acme.slack.com/)",
            "scopes": [{"name": "channels:read", "purpose": "public channels", "required": True, "granted": True}],
            "places": ["#general"],
            "place_count": 1,
            "complete": True,
            "first_sync": None,
            "notes": ["Slack does not count messages, so the time of the first sync cannot be estimated."],
        },
    ),
)
async def check_source(
    request: Request[Access, Any, Any],
    source: Annotated[str, PathParameter(description="`google_drive`, `slack`, or another source that can be tried.")],
    data: JSONBody[Credentials],
    source_services: NamedDependency[SourceServices],
) -> SourceCheck:
    """Return what a source would read with these credentials. Only the vendor's address in the settings is asked. For operators."""
    spec, trial = tried_source(source)
    settings = await source_services.settings()
    found, problem = await attempt(
        source_services, spec.label, partial(trial.run, settings, given(trial, data.settings))
    )
    detail = msgspec.json.encode({"source": spec.name.value, "worked": found is not None}).decode()
    await source_services.http.audit.record(AuditEvent(email=request.user.email, action="source_check", detail=detail))
    return _failed(problem) if found is None else _report(spec, source_services, found)


def tried_source(source: str) -> tuple[SourceSpec, Trial]:
    """Return a source whose credentials can be tried. Raises the problem `unknown-source`."""
    spec = find(source)
    if spec is None or spec.trial is None:
        raise ProblemError("unknown-source", f"{source!r} cannot be tried. Sources: {', '.join(names())}.")
    return spec, spec.trial


def given(trial: Trial, values: Mapping[str, str]) -> dict[str, str]:
    """Return the values of settings. Raises `InvalidRequestError` for one that the trial does not know, such as a misspelled one."""
    for name in values:
        if name not in trial.fields:
            raise InvalidRequestError(
                f"settings.{name}: is not a setting that can be tried. These can: {', '.join(trial.fields)}."
            )
    return {name: value.strip() for name, value in values.items()}


async def attempt(source_services: SourceServices, label: str, run: Callable[[], Found]) -> tuple[Found | None, str]:
    """Return what a call to the source finds, or what is wrong."""
    try:
        async with asyncio.timeout(SECONDS):
            return await source_services.vendor_threads.run(run), ""
    except TimeoutError:
        return None, f"{label} did not answer in time. Try again."
    except ConcordanceError as error:
        return None, str(error)


def _failed(problem: str) -> SourceCheck:
    return SourceCheck(
        ok=False, problem=problem, account=None, scopes=[], places=[], place_count=0, complete=True, first_sync=None,
        notes=[],
    )  # fmt: skip


def _report(spec: SourceSpec, source_services: SourceServices, found: Reach) -> SourceCheck:
    granted = found.granted
    scopes = (
        []
        if granted is None
        else [CheckedScope(one.name, one.purpose, one.required, one.name in granted) for one in spec.scopes]
    )
    missing = [one.name for one in scopes if one.required and not one.granted]
    problem = (
        f"These scopes are missing: {', '.join(missing)}. Add them and install the app again." if missing else None
    )
    return SourceCheck(
        ok=not missing,
        problem=problem,
        account=found.account,
        scopes=scopes,
        places=list(found.places[:SHOWN]),
        place_count=len(found.places),
        complete=found.complete,
        first_sync=None if found.documents is None else first_sync(found.documents, found.size, source_services),
        notes=list(found.notes),
    )
