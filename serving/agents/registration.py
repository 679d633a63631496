"""The metadata of a client that registers, of which the server replaces what it does not support. Source: RFC 7591 2."""

from __future__ import annotations

from typing import Any, cast

from serving.agents.clients import MAX_REDIRECT, MAX_REDIRECTS, acceptable

GRANTS = ["authorization_code", "refresh_token"]
PUBLIC = "none"
"""How clients authenticate at the token endpoint: not at all, since a secret that an application ships is none."""
TOO_MANY = f"Register 1 to {MAX_REDIRECTS} redirect URIs."
NOT_ACCEPTABLE = (
    "None of the redirect URIs is accepted: use https, http with a loopback address, or the private-use scheme of an application (a domain "
    f"name in reverse, such as com.example.app:), without a fragment or user, of at most {MAX_REDIRECT} characters."
)


def replace(metadata: dict[str, Any]) -> str | None:
    """Replace what is not supported of a client's metadata, and drop redirect URIs that are not acceptable.

    Return what is wrong with the redirect URIs if none is left, and None otherwise. Values of a wrong type stay: they are refused later.
    """
    metadata["token_endpoint_auth_method"] = PUBLIC
    grants = metadata.get("grant_types")
    if isinstance(grants, list):
        metadata["grant_types"] = [one for one in cast("list[object]", grants) if one in GRANTS]
    found = metadata.get("redirect_uris")
    if not isinstance(found, list):
        return None
    given = cast("list[object]", found)
    if not 1 <= len(given) <= MAX_REDIRECTS:
        return TOO_MANY
    metadata["redirect_uris"] = kept = acceptable(one for one in given if isinstance(one, str))
    return None if kept else NOT_ACCEPTABLE
