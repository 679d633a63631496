"""Identity of a person: principals with the origin of each. Pure."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

import msgspec

from resources.core import permissions
from sql.fields import Moment
from sql.serving_rows import DirectoryEntry


class PrincipalOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """One principal and its origin."""

    principal: str
    """In the form that permissions use: an email, `group:NAME@DOMAIN`, `domain:NAME`, `slack:TEAM` or `public`."""
    origin: str
    """`email`, `token`, `key`, `session` (its provider reports it), or the source that reports it, such as `google_directory`."""
    through: str | None = None
    """The member group by which a nested membership comes; null for a direct one."""
    read_at: Moment | None = None
    """When the source was read that reports it; null for what needs no source."""
    counts: bool = True
    """False if the source was read too long ago: it grants nothing then."""


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """A person as Concordance sees them."""

    email: str
    """The email, in normal form."""
    active: bool
    """False if a directory reports the account as inactive: it is refused everywhere."""
    admin: bool = False
    """True if the credential has the admin scope."""
    groups_are_managed: bool
    """True if groups come from a directory, a file or a provider; those in tokens and keys made here do not count then."""
    groups_omitted: bool = False
    """True if the provider of sign-in leaves out the groups because they are too many: what is shared with these is not found."""
    principals: list[PrincipalOrigin]
    """What may read documents in this person's name, sorted."""


class SignedInCaller(Identity, frozen=True, kw_only=True):
    """The person who sends a request, and where it comes from."""

    client: str | None
    """Address of the client, or its IPv6 network, as limits count it; null for this machine, and for a proxy that names no client."""
    forwarded: int
    """Number of addresses in the header `X-Forwarded-For` of the request."""


def identity_of(
    email: str,
    said: Iterable[DirectoryEntry],
    *,
    now: datetime,
    max_age: timedelta,
    managed: bool,
    admin: bool = False,
    credential: str | None = None,
    held: Collection[str] = (),
    groups_omitted: bool = False,
) -> Identity:
    """Return a person's identity. `held` are the principals of a request; those that no source reports come from its `credential`."""
    own = {email, f"domain:{email.rpartition('@')[2]}", permissions.PUBLIC}
    found = [PrincipalOrigin(principal=name, origin="email") for name in own]
    active = True
    for one in said:
        active = active and one.active
        if one.principal is not None:
            counts = one.read_at is not None and now - one.read_at <= max_age
            found.append(
                PrincipalOrigin(
                    principal=one.principal, origin=one.source, through=one.through, read_at=one.read_at, counts=counts
                )
            )
    reported = {one.principal for one in found if one.counts}
    found += [PrincipalOrigin(principal=name, origin=credential or "token") for name in held if name not in reported]
    found.sort(key=lambda one: (one.principal, one.origin))
    return Identity(
        email=email,
        active=active,
        admin=admin,
        groups_are_managed=managed,
        groups_omitted=groups_omitted,
        principals=found,
    )
