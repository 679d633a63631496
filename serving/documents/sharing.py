"""Restrictions on the sharing and tags of uploads.

Anyone may upload, so an upload must not pass for an official document: it is shared within the owner's domain and groups only, unless
the settings or an administrator allow more, and tags that state a document's origin are reserved for managed sources.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from resources.core.permissions import PUBLIC
from resources.settings import Settings
from serving.http.errors import ProblemError

PROVENANCE = ("source", "tenant", "dataset")
"""Tags of managed sources, by which users filter for official documents."""


def check_share(settings: Settings, access: Access, share: Iterable[str]) -> None:
    """Raise the problem `sharing-not-allowed` if the caller may not share with one of these normalised principals."""
    if access.admin or PUBLIC in settings.upload_share_domains:
        return
    domains = {access.email.rpartition("@")[2], *settings.upload_share_domains}
    for principal in share:
        if principal in access.principals and principal != PUBLIC:
            continue
        kind, colon, name = principal.partition(":")
        domain = name if kind == "domain" else principal.rpartition("@")[2]
        if principal == PUBLIC or (colon and kind == "slack") or domain not in domains:
            raise ProblemError(
                "sharing-not-allowed",
                f"share: {principal} is outside of your domain and groups. Ask an administrator to share it, or to add the "
                "domain to CONCORDANCE_LIMITS__UPLOAD_SHARE_DOMAINS.",
            )


def check_provenance(access: Access, tags: Mapping[str, Any], reserved: Iterable[str] = PROVENANCE) -> None:
    """Raise `InvalidRequestError` for a tag that only administrators may give an upload."""
    for name in reserved if not access.admin else ():
        if name in tags:
            raise InvalidRequestError(
                f"tags.{name}: is reserved for managed sources; only an administrator may set it on an upload. Leave it out."
            )


def check_tenant(settings: Settings, access: Access, tenant: str) -> None:
    """Raise `InvalidRequestError` for the tenant of a file root that the caller may not read."""
    roots = [root for root in settings.file_roots if root.tenant == tenant]
    if roots and not access.admin and all(access.principals.isdisjoint(root.permissions) for root in roots):
        raise InvalidRequestError(
            f"tags.tenant: {tenant!r} belongs to a file root that you may not read. Use a tenant of your own, or ask an administrator."
        )
