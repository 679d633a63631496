"""Groups: members gain and lose the group's principal in the transaction of each change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from scim2_models import InvalidValueException, NotFoundException, UniquenessException

from resources.core import permissions
from resources.core.errors import InvalidRequestError
from resources.core.json import Object
from resources.stores.postgres import Connection
from serving.identity.scim import filters
from serving.identity.scim.members import named_members, patched_group
from serving.identity.scim.models import Group, Member
from serving.identity.scim.requests import (
    Caller,
    listed,
    page_of,
    parameters_of,
    resource_of,
    short,
    with_meta,
)
from sql.scim import GroupMember, Offboarding, ProvisionedGroup, Scim

ATTRIBUTES = frozenset({"id", "displayname", "externalid", "members"})
SCHEMA = str(Group.__schema__)
MOST_NAMED = 100
"""Members that one row of the audit log names; it has the number of all."""


class Groups:
    """The groups of SCIM, for one request. Changes take the lock of SCIM until the transaction ends."""

    def __init__(self, connection: Connection, caller: Caller) -> None:
        self._connection = connection
        self._caller = caller
        self._statements = Scim(connection)

    def page(self, query: Mapping[str, str]) -> Object:
        """Return the list response for a query."""
        page = page_of(query)
        wanted = filters.criteria(query["filter"], ATTRIBUTES) if query.get("filter") else {}
        chosen: dict[str, Any] = {
            "ids": filters.uuids(wanted.get("id")),
            "names": filters.lower(wanted.get("displayname")),
            "external_ids": filters.exact(wanted.get("externalid")),
            "members": filters.uuids(wanted.get("members")),
        }
        rows = self._statements.groups(**chosen, skip=page.skip, most=page.most)
        total = self._statements.count_groups(**chosen)
        return listed(Group, self._shown(rows, query), total, page, query)

    def get(self, group_id: str, query: Mapping[str, str]) -> Object:
        return self._shown([self._stored(group_id)], query)[0].model_dump(**parameters_of(Group, query))

    def create(self, body: Object, query: Mapping[str, str]) -> tuple[str, Object]:
        """Create a group. Return its address and the response. Raises `UniquenessException`."""
        self._statements.lock()
        group = resource_of(Group, body)
        principal = self._principal(None, group)
        group_id = self._statements.insert_group(
            display_name=group.display_name or "", external_id=group.external_id, principal=principal
        )
        self._set_members(group_id, set(), _ids(group))
        self._record("scim_group_create", group_id, group, principal, added=_ids(group))
        return self._caller.location("Groups", group_id), self.get(group_id, query)

    def replace(self, group_id: str, body: Object, query: Mapping[str, str]) -> Object:
        self._statements.lock()
        stored = self._stored(group_id)
        return self._change(stored, resource_of(Group, body, replacing=True), query)

    def patch(self, group_id: str, body: Object, query: Mapping[str, str]) -> Object | None:
        """Change a group. Other members than those that a change names are not read, nor returned: None, unless `attributes` asks."""
        self._statements.lock()
        stored = self._stored(group_id)
        if (named := named_members(body)) is None:
            return self._change(stored, patched_group(self._shown([stored], {})[0], body), query)
        known = [one for one in named if filters.as_uuid(one)]
        before = set(self._statements.members_among(group_id=stored.id, ids=known))
        after = _checked(one for one, added in named.items() if added)
        if before != after:
            group = Group(display_name=stored.display_name, external_id=stored.external_id)
            self._update(stored, group, stored.principal, before, after)
        return self.get(stored.id, query) if query.get("attributes") else None

    def delete(self, group_id: str) -> None:
        """Delete a group, whose members lose its principal."""
        self._statements.lock()
        stored = self._stored(group_id)
        within = self._statements.users_within(group_ids=[stored.id])
        self._statements.delete_group(group_id=stored.id)
        self._statements.refresh(user_ids=within, emails=[])
        self._record("scim_group_delete", stored.id, Group(display_name=stored.display_name), stored.principal)

    def _change(self, stored: ProvisionedGroup, group: Group, query: Mapping[str, str]) -> Object:
        same = (group.display_name, group.external_id) == (stored.display_name, stored.external_id)
        principal = stored.principal if same else self._principal(stored.id, group)
        before = {member.id for member in self._statements.members(group_ids=[stored.id])}
        after = _ids(group)
        if not same or before != after:
            self._update(stored, group, principal, before, after)
        return self.get(stored.id, query)

    def _update(
        self, stored: ProvisionedGroup, group: Group, principal: str, before: set[str], after: set[str]
    ) -> None:
        """Store a change of a group; `before` and `after` need not have members that stay."""
        self._statements.update_group(
            group_id=stored.id,
            display_name=group.display_name or "",
            external_id=group.external_id,
            principal=principal,
        )
        self._set_members(stored.id, before, after)
        if principal != stored.principal:
            within = self._statements.users_within(group_ids=[stored.id])
            self._statements.refresh(user_ids=within, emails=[])
        self._record("scim_group_change", stored.id, group, principal, added=after - before, removed=before - after)

    def _set_members(self, group_id: str, before: set[str], after: set[str]) -> None:
        """Add and remove members, and let the directory follow for all users whom this concerns."""
        changed = sorted(before ^ after)
        if not changed:
            return
        known = {member.id: member.subgroup for member in self._statements.known(ids=changed)}
        added = after - before
        if missing := added - known.keys():
            raise InvalidValueException(
                detail=f"members: there is no user or group {min(missing)!r}. Create it before adding it."
            )
        if group_id in added:
            raise InvalidValueException(detail="members: a group cannot be a member of itself.")
        self._statements.remove_members(group_id=group_id, ids=sorted(before - after))
        self._statements.add_members(
            group_id=group_id,
            user_ids=sorted(one for one in added if not known[one]),
            subgroup_ids=sorted(one for one in added if known[one]),
        )
        users = {one for one, subgroup in known.items() if not subgroup}
        subgroups = [one for one, subgroup in known.items() if subgroup]
        users.update(self._statements.users_within(group_ids=subgroups))
        self._statements.refresh(user_ids=sorted(users), emails=[])

    def _stored(self, group_id: str) -> ProvisionedGroup:
        known = filters.as_uuid(group_id)
        rows = self._statements.groups(
            ids=[known] if known else [], names=None, external_ids=None, members=None, skip=0, most=1
        )
        if not rows:
            raise NotFoundException(detail=f"There is no group {group_id!r}.")
        return rows[0]

    def _shown(self, rows: list[ProvisionedGroup], query: Mapping[str, str]) -> list[Group]:
        """Return groups with their members, which are not read if the query excludes them, as Entra ID's does."""
        excluded = {name.strip().lower() for name in query.get("excludedAttributes", "").split(",")}
        members: dict[str, list[Member]] = {}
        if "members" not in excluded:
            for one in self._statements.members(group_ids=[row.id for row in rows]):
                members.setdefault(one.group_id, []).append(_member(one, self._caller))
        return [self._resource(row, members.get(row.id)) for row in rows]

    def _resource(self, row: ProvisionedGroup, members: list[Member] | None) -> Group:
        group = Group.model_validate(
            {"schemas": [SCHEMA], "displayName": row.display_name, "externalId": row.external_id}
        )
        group.members = members
        return with_meta(group, row, "Group", self._caller)

    def _principal(self, group_id: str | None, group: Group) -> str:
        """Return the principal of a group. Raises `UniquenessException` if another group has it."""
        short(displayName=group.display_name, externalId=group.external_id)
        found = principal_of(group.display_name or "", group.external_id, self._caller.domain)
        if self._statements.principal_taken(group_id=group_id, principal=found):
            raise UniquenessException(detail=f"Another group is {found} here. Give this one another displayName.")
        return found

    def _record(
        self,
        action: str,
        group_id: str,
        group: Group,
        principal: str,
        *,
        added: Collection[str] = (),
        removed: Collection[str] = (),
    ) -> None:
        detail = {
            "group": group_id,
            "name": group.display_name,
            "principal": principal,
            "added": len(added),
            "removed": len(removed),
            "added_ids": sorted(added)[:MOST_NAMED],
            "removed_ids": sorted(removed)[:MOST_NAMED],
        }
        Offboarding(self._connection).record(email=self._caller.email, action=action, detail=detail)


def principal_of(display_name: str, external_id: str | None, domain: str) -> str:
    """Return the principal of a group: of its `externalId` if that is an email, else as `permissions.named_group` names it.

    Raises `InvalidValueException` for a name without letters or digits.
    """
    try:
        return permissions.principal(f"group:{external_id or ''}")
    except InvalidRequestError:
        pass
    try:
        return permissions.named_group(display_name, domain)
    except InvalidRequestError:
        raise InvalidValueException(
            detail="displayName: must contain letters or digits, at most 200, to name a group."
        ) from None


def _ids(group: Group) -> set[str]:
    return _checked(member.value or "" for member in group.members or [])


def _checked(ids: Iterable[str]) -> set[str]:
    """Return ids in normal form. Raises `InvalidValueException` for one that is none."""
    found: set[str] = set()
    for one in ids:
        known = filters.as_uuid(one)
        if known is None:
            raise InvalidValueException(detail=f"members: there is no user or group {one!r}.")
        found.add(known)
    return found


def _member(one: GroupMember, caller: Caller) -> Member:
    kind = "Group" if one.subgroup else "User"
    location = caller.location(f"{kind}s", one.id)
    return Member.model_validate({"value": one.id, "$ref": location, "type": kind})
