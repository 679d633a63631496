"""The names of people whose addresses a page shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from resources.core.domain import Access
from serving.identity.service import IdentityServices
from sql.serving import WebReads

MOST = 500
"""Addresses that are looked up for a page; further ones are shown as they are."""


async def names_of_people(identity: IdentityServices, access: Access, shown: Iterable[str | None]) -> Mapping[str, str]:
    """Return the names of those of the shown people whom the caller may know, by address.

    `shown` may contain names and principals, which are left out. Only people of a directory that knows the caller are named; others are
    shown by their address, which the caller sees in any case.
    """
    emails = sorted({one for one in shown if one and "@" in one and ":" not in one})[:MOST]
    if not emails:
        return {}
    domain = access.email.rpartition("@")[2]
    sample = {one.email: one.name for one in identity.sample_people if one.email.rpartition("@")[2] == domain}
    found = await WebReads(identity.http.database).names_of_people(email=access.email, emails=emails)
    return {one: sample[one] for one in emails if one in sample} | {one.email: one.name for one in found}
