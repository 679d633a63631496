"""`GET /api/me`."""

from typing import Any

import msgspec
from litestar import Request, get
from litestar.di import NamedDependency

from resources.core.domain import Access
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.identity import api_keys
from serving.identity.authentication import credential_of, origin_of
from serving.identity.principals import Identity, SignedInCaller, identity_of
from serving.identity.service import IdentityServices
from sql.serving import WebReads


@get(
    "/api/me",
    operation_id="me",
    tags=["access"],
    summary="Who am I?",
    opt=limited("read")
    | described(
        example={
            "email": "ann@acme.com",
            "active": True,
            "admin": False,
            "groups_are_managed": True,
            "groups_omitted": False,
            "principals": [
                {"principal": "ann@acme.com", "origin": "email", "through": None, "read_at": None, "counts": True},
                {
                    "principal": "group:eng@acme.com",
                    "origin": "google_directory",
                    "through": "leads@acme.com",
                    "read_at": "2026-11-23T10:00:04Z",
                    "counts": True,
                },
            ],
            "client": "203.0.113.7",
            "forwarded": 1,
        }
    ),
)
async def me(request: Request[Access, Any, Any], identity: NamedDependency[IdentityServices]) -> SignedInCaller:
    """Return the caller's own principals, where each comes from, and the address that the request comes from."""
    found = await own_identity(identity, request.user, credential_of(request))
    forwarded = ",".join(request.headers.getall("x-forwarded-for", [])).split(",")
    return SignedInCaller(
        **msgspec.structs.asdict(found),
        client=origin_of(identity, request.client) or None,
        forwarded=sum(bool(one.strip()) for one in forwarded),
    )


async def own_identity(identity: IdentityServices, access: Access, credential: str) -> Identity:
    """Return who the caller is. `credential` is the token or key of the request, empty for a session."""
    kind = "key" if credential.startswith(api_keys.PREFIX) else "token"
    return identity_of(
        access.email,
        await WebReads(identity.http.database).identity(email=access.email),
        now=identity.http.clock(),
        max_age=identity.http.acl_max_age,
        managed=identity.directory.groups_are_managed,
        admin=access.admin,
        credential=kind if credential else "session",
        held=access.principals,
        groups_omitted=access.groups_omitted,
    )
