"""Users: each change is kept and its consequences for sign-in and groups take effect in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scim2_models import NotFoundException, UniquenessException

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.core.json import Object
from resources.stores.offboarding import offboard
from resources.stores.postgres import Connection
from serving.identity.scim import filters
from serving.identity.scim.models import User
from serving.identity.scim.requests import (
    Caller,
    listed,
    page_of,
    parameters_of,
    patched,
    resource_of,
    short,
    with_meta,
)
from sql.scim import Offboarding, ProvisionedUser, Scim

ATTRIBUTES = frozenset({"id", "username", "externalid", "emails", "active"})
SCHEMA = str(User.__schema__)


class Users:
    """The users of SCIM, for one request. Changes take the lock of SCIM until the transaction ends."""

    def __init__(self, connection: Connection, caller: Caller) -> None:
        self._connection = connection
        self._caller = caller
        self._statements = Scim(connection)

    def page(self, query: Mapping[str, str]) -> Object:
        """Return the list response for a query."""
        page = page_of(query)
        wanted = filters.criteria(query["filter"], ATTRIBUTES) if query.get("filter") else {}
        active = filters.states(wanted.get("active"))
        chosen: dict[str, Any] = {
            "ids": filters.uuids(wanted.get("id")),
            "user_names": filters.lower(wanted.get("username")),
            "external_ids": filters.exact(wanted.get("externalid")),
            "emails": filters.lower(wanted.get("emails")),
            "active": next(iter(active)) if active is not None and len(active) == 1 else None,
        }
        if active is not None and not active:
            chosen["ids"] = []
        rows = self._statements.users(**chosen, skip=page.skip, most=page.most)
        total = self._statements.count_users(**chosen)
        return listed(User, [self._shown(row) for row in rows], total, page, query)

    def get(self, user_id: str, query: Mapping[str, str]) -> Object:
        return self._shown(self._stored(user_id)).model_dump(**parameters_of(User, query))

    def create(self, body: Object, query: Mapping[str, str]) -> tuple[str, Object]:
        """Create a user, who is active unless the request says otherwise. Return its address and the response.

        Raises `UniquenessException`.
        """
        self._statements.lock()
        user = resource_of(User, body)
        emails = self._checked(None, user)
        if user.active is None:
            user.active = True
        active = user.active
        user_id = self._statements.insert_user(
            user_name=user.user_name or "",
            external_id=user.external_id,
            emails=emails,
            active=active,
            resource=_kept(user),
        )
        self._take_effect(user_id, user, [], emails, active=active, was_active=False)
        self._record("scim_create", user_id, user, emails)
        return self._caller.location("Users", user_id), self.get(user_id, query)

    def replace(self, user_id: str, body: Object, query: Mapping[str, str]) -> Object:
        """Replace a user's attributes by those of a PUT; what it leaves out is removed, except `active`, which stays."""
        self._statements.lock()
        stored = self._stored(user_id)
        user = resource_of(User, body, replacing=True)
        if user.active is None:
            user.active = stored.active
        return self._change(stored, user, query)

    def patch(self, user_id: str, body: Object, query: Mapping[str, str]) -> Object:
        """Change a user. Removing `active` neither activates nor deactivates."""
        self._statements.lock()
        stored = self._stored(user_id)
        return self._change(stored, patched(User, self._shown(stored), body), query)

    def delete(self, user_id: str) -> None:
        """Delete a user, whose addresses are refused from now on."""
        self._statements.lock()
        stored = self._stored(user_id)
        user = self._shown(stored)
        self._statements.delete_user(user_id=stored.id)
        self._statements.refresh(user_ids=[], emails=stored.emails)
        self._statements.end_people(emails=stored.emails)
        offboard(self._connection, dict.fromkeys(stored.emails, "deleted by SCIM"), self._caller.email)
        self._record("scim_delete", stored.id, user, stored.emails)

    def _change(self, stored: ProvisionedUser, user: User, query: Mapping[str, str]) -> Object:
        emails = self._checked(stored.id, user)
        active = stored.active if user.active is None else user.active
        kept = _kept(user)
        if (kept, emails, active) != (stored.resource, stored.emails, stored.active):
            self._statements.update_user(
                user_id=stored.id,
                user_name=user.user_name or "",
                external_id=user.external_id,
                emails=emails,
                active=active,
                resource=kept,
            )
            self._take_effect(stored.id, user, stored.emails, emails, active=active, was_active=stored.active)
            ended = stored.active and not active
            self._record("scim_deactivate" if ended else "scim_change", stored.id, user, emails)
        return self.get(stored.id, query)

    def _take_effect(
        self, user_id: str, user: User, before: list[str], emails: list[str], *, active: bool, was_active: bool
    ) -> None:
        """Let sign-in and groups follow: `people`, `directory`, and the keys of addresses that ended."""
        name = user.display_name or (user.name.formatted if user.name else None)
        self._statements.put_people(emails=emails, external_id=user_id, name=name, active=active)
        gone = [email for email in before if email not in emails]
        self._statements.end_people(emails=gone)
        ended = dict.fromkeys(gone, "no longer an address of the user in SCIM")
        if not active:
            new = [email for email in emails if was_active or email not in before]
            ended |= dict.fromkeys(new, "deactivated by SCIM")
        offboard(self._connection, ended, self._caller.email)
        self._statements.refresh(user_ids=[user_id], emails=before)

    def _stored(self, user_id: str) -> ProvisionedUser:
        known = filters.as_uuid(user_id)
        rows = self._statements.users(
            ids=[known] if known else [],
            user_names=None,
            external_ids=None,
            emails=None,
            active=None,
            skip=0,
            most=1,
        )
        if not rows:
            raise NotFoundException(detail=f"There is no user {user_id!r}.")
        return rows[0]

    def _shown(self, row: ProvisionedUser) -> User:
        user = User.model_validate({"schemas": [SCHEMA], **row.resource})
        return with_meta(user, row, "User", self._caller)

    def _checked(self, user_id: str | None, user: User) -> list[str]:
        """Return the addresses of a user. Raises `UniquenessException` if another user has one of them, or the name."""
        short(userName=user.user_name, externalId=user.external_id)
        emails = addresses(user)
        if self._statements.taken(user_id=user_id, user_name=(user.user_name or "").lower(), emails=emails):
            raise UniquenessException(detail="Another user has this userName or address.")
        return emails

    def _record(self, action: str, user_id: str, user: User, emails: list[str]) -> None:
        detail = {"user": user_id, "user_name": user.user_name, "emails": emails, "active": user.active}
        Offboarding(self._connection).record(email=self._caller.email, action=action, detail=detail)


def addresses(user: User) -> list[str]:
    """Return the addresses that sign in as this user: the primary one (else the work one, else the only one) and `userName`."""
    emails = [email for email in user.emails or [] if email.value]
    chosen = (
        next((email for email in emails if email.primary), None)
        or next((email for email in emails if (email.type or "").lower() == "work"), None)
        or (emails[0] if len(emails) == 1 else None)
    )
    found = {one for text in (user.user_name, chosen.value if chosen else None) if text and (one := _address(text))}
    return sorted(found)


def _address(text: str) -> str | None:
    """Return an email in normal form; None for a text that is no email, such as a `userName` without a domain."""
    try:
        return permissions.email(text)
    except InvalidRequestError:
        return None


def _kept(user: User) -> Object:
    """Return the attributes to store."""
    return user.model_dump(exclude={"schemas", "id", "meta"})
