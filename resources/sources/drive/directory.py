"""Client for the Directory API of Google's Admin SDK: the users of a Workspace, its groups and their direct members.

It uses Drive's credentials with scopes of its own, so a service account needs these delegated, in the name of someone who may read
users and groups in the Admin console (CONCORDANCE_GOOGLE_SUBJECT). Source:
https://developers.google.com/workspace/admin/directory/reference/rest/v1
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from resources.core import permissions
from resources.core.errors import AuthorizationError, InvalidRequestError
from resources.core.json import object_of
from resources.core.retrying import Tally
from resources.core.texts import storable
from resources.settings import Settings
from resources.sources.drive.auth import Authority
from resources.sources.drive.client import Api, DriveClient
from resources.sources.drive.faults import ForbiddenError, NotFoundError

GOOGLE = "https://admin.googleapis.com"
_SCOPE = "https://www.googleapis.com/auth/admin.directory"
SCOPES = (f"{_SCOPE}.user.readonly", f"{_SCOPE}.group.readonly", f"{_SCOPE}.group.member.readonly")
"""Read-only. Source: https://developers.google.com/workspace/admin/directory/v1/guides/authorizing"""
DIRECTORY = Api(
    "admin",
    "directory_v1",
    "Google's directory",
    SCOPES,
    ("groups", "members", "users"),
    per_minute=2400,  # Source: https://developers.google.com/workspace/admin/directory/v1/limits
)
_CUSTOMER = "my_customer"
"""The Workspace of the account that reads."""
_USERS, _GROUPS = 500, 200
"""Largest pages. Source: the reference of users.list, groups.list and members.list"""


class GoogleUser(msgspec.Struct, frozen=True, kw_only=True):
    """An account of the Workspace."""

    id: str
    email: str
    """Primary address in normal form; empty if it has none."""
    name: str | None
    suspended: bool
    archived: bool
    org_unit: str
    """Path of its organisational unit, such as `/Sales`."""

    @property
    def active(self) -> bool:
        return not self.suspended and not self.archived


class GoogleMember(msgspec.Struct, frozen=True):
    """A direct member of a group."""

    type: str
    """`USER`, `GROUP`, or `CUSTOMER`: everyone in the Workspace. `EXTERNAL` may stand for someone outside."""
    email: str
    """In normal form; empty for `CUSTOMER`."""


class GoogleDirectory:
    """The calls, each over all pages. Thread-safe. Raises `AuthorizationError`, `ConfigurationError` and `RetryLaterError`."""

    def __init__(
        self, settings: Settings, tally: Tally | None = None, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self.tally = tally or Tally()
        self._authority = Authority(settings, self.tally, SCOPES)
        root = settings.google_directory_api_url or GOOGLE
        self._client = DriveClient(settings, self._authority, self.tally, sleep=sleep, api=DIRECTORY, root=root)

    def users(self) -> Iterator[GoogleUser]:
        """Yield every account, suspended and archived ones included."""
        fields = "nextPageToken,users(id,primaryEmail,name(fullName),suspended,archived,orgUnitPath)"
        for user in self._listed("users", maxResults=_USERS, fields=fields):
            yield GoogleUser(
                id=str(user.get("id", "")),
                email=_address(user["primaryEmail"]),
                name=storable(str(object_of(user.get("name")).get("fullName") or "")) or None,
                suspended=user.get("suspended") is True,
                archived=user.get("archived") is True,
                org_unit=str(user.get("orgUnitPath") or "/"),
            )

    def groups(self) -> Iterator[str]:
        """Yield the address of every group, in normal form."""
        for group in self._listed("groups", maxResults=_GROUPS, fields="nextPageToken,groups(email)"):
            yield _address(group["email"])

    def members(self, group: str) -> list[GoogleMember]:
        """Return the direct members of a group; none if it no longer exists.

        Raises `ForbiddenError` if the account may not read this group.
        """
        fields = "nextPageToken,members(type,email)"
        try:
            found = list(
                self._client.pages("members.list", "members", groupKey=group, maxResults=_GROUPS, fields=fields)
            )
        except NotFoundError:
            return []
        except ForbiddenError:
            raise ForbiddenError("Google does not let the account that reads list its members.") from None
        return [GoogleMember(str(one.get("type", "USER")), _address(one.get("email"))) for one in found]

    def _listed(self, kind: str, **parameters: Any) -> Iterator[dict[str, Any]]:
        try:
            yield from self._client.pages(f"{kind}.list", kind, customer=_CUSTOMER, **parameters)
        except (ForbiddenError, NotFoundError) as error:
            raise AuthorizationError(
                f"Google does not let the account that reads list the {kind} of the Workspace ({error}). Set "
                "CONCORDANCE_GOOGLE_SUBJECT to someone who may read users and groups in the Admin console."
            ) from None


def _address(text: Any) -> str:
    """Return an address in normal form; empty if it is none."""
    try:
        return permissions.email(str(text)) if text else ""
    except InvalidRequestError:
        return ""
