"""`GET /api/principals`: suggestions of people and groups to share with, while the user types."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from resources.core.domain import Access
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity.service import IdentityServices
from serving.web.formats import reader
from sql.serving import WebReads

MOST = 8
SHORTEST = 2
"""Characters from which on people are suggested."""
MAX_PREFIX = 100
_AFTER = "\U0010ffff"
"""Sorts after every other character."""


class Suggestion(msgspec.Struct, frozen=True):
    """A principal to share with."""

    principal: str
    """In the form that `share` uses: an email, `group:NAME@DOMAIN` or `domain:NAME`."""
    name: str
    """What people call it."""


class SuggestionList(msgspec.Struct, frozen=True):
    """The caller's own domain and groups first, then people of that domain."""

    principals: list[Suggestion]
    """At most 8."""


@get(
    "/api/principals",
    operation_id="listPrincipals",
    tags=["access"],
    summary="Suggest whom to share with",
    opt=limited("read")
    | described(
        parameters={"prefix": "bo"},
        example={"principals": [{"principal": "bob@acme.com", "name": "Bob Bell"}]},
    ),
)
async def list_principals(
    request: Request[Access, Any, Any],
    identity: NamedDependency[IdentityServices],
    prefix: Annotated[
        str,
        QueryParameter(
            max_length=MAX_PREFIX,
            description="What was typed so far: part of a group or domain, or the beginning of an address or name, from 2 characters on.",
        ),
    ] = "",
) -> SuggestionList:
    """Suggest the caller's domain and groups, and colleagues: people of the caller's domain whom a directory reports or who are signed in.

    Nothing is derived from documents. Only people of a directory that knows the caller are suggested; of people who are signed in, only
    those of a domain that `CONCORDANCE_OIDC_PROVIDERS` names.
    """
    access, typed = request.user, " ".join(prefix.replace("\x00", "").lower().split())
    found = [Suggestion(one, reader(one)) for one in _own(access) if typed in one or typed in reader(one).lower()]
    if len(typed) >= SHORTEST:
        found += await _colleagues(identity, access, typed)
    return SuggestionList(found[:MOST])


def _own(access: Access) -> Iterator[str]:
    """Yield the caller's domain, then the caller's groups."""
    yield f"domain:{_domain(access.email)}"
    yield from sorted(one for one in access.principals if one.startswith("group:"))


async def _colleagues(identity: IdentityServices, access: Access, typed: str) -> list[Suggestion]:
    domain = _domain(access.email)
    rows = await WebReads(identity.http.database).colleagues(
        email=access.email,
        domain=domain,
        beginning=typed,
        following=typed + _AFTER,
        accounts=any(domain in one.setting.domains for one in identity.providers.values()),
        most=MOST,
    )
    known = {row.email: row.name for row in rows}
    for one in identity.sample_people:
        if one.email != access.email and _domain(one.email) == domain and one.name.lower().startswith(typed):
            known[one.email] = one.name
    return [Suggestion(email, name or email) for email, name in known.items()]


def _domain(email: str) -> str:
    return email.rpartition("@")[2]
