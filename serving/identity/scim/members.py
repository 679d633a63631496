"""Changes of a group's members by PATCH. Those that name ids work on a dictionary: the library compares every member with every id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from scim2_models import InvalidFilterException

from resources.core.json import Object, is_list, is_object
from serving.identity.scim.filters import as_uuid, criteria
from serving.identity.scim.models import Group, Member
from serving.identity.scim.requests import patched

_PATH = re.compile(
    rf"(?:{re.escape(str(Group.__schema__))}:)?members(?:\[(?P<filter>.*)\])?", re.IGNORECASE | re.DOTALL
)


class IdChange(NamedTuple):
    """An operation that adds or removes members by their ids."""

    adds: bool
    ids: list[str]


def named_members(body: Object) -> dict[str, bool] | None:
    """Return whether a PATCH adds or removes each of the ids that it names; None if it does anything else."""
    operations = body.get("Operations")
    changes = [_by_ids(one) for one in operations] if is_list(operations) else []
    named: dict[str, bool] = {}
    for change in changes:
        if change is None:
            return None
        named.update(dict.fromkeys(change.ids, change.adds))
    return named if changes else None


def patched_group(group: Group, body: Object) -> Group:
    """Return a copy of the group with the operations of a PATCH applied in order. Raises as `patched` does."""
    operations = body.get("Operations")
    if not is_list(operations) or not operations:
        return patched(Group, group, body)
    read = [_by_ids(one) or one for one in operations]
    for by_ids, run in groupby(read, lambda one: isinstance(one, IdChange)):
        some = list(run)
        group = _with_members(group, some) if by_ids else patched(Group, group, {**body, "Operations": some})
    return group


def _with_members(group: Group, changes: Iterable[IdChange]) -> Group:
    members = {_normal(one.value or ""): one for one in group.members or []}
    for change in changes:
        for one in change.ids:
            if change.adds:
                members.setdefault(one, Member.model_validate({"value": one}))
            else:
                members.pop(one, None)
    changed = group.model_copy()
    changed.members = list(members.values())
    return changed


def _by_ids(operation: Any) -> IdChange | None:
    """Return what an operation does if it names ids of members; what else it says of them, such as `$ref`, is not compared."""
    if not is_object(operation) or (path := _PATH.fullmatch(str(operation.get("path")))) is None:
        return None
    op, value = str(operation.get("op")).lower(), operation.get("value")
    if (selection := path["filter"]) is not None:
        return IdChange(False, ids) if op == "remove" and value is None and (ids := _selected(selection)) else None
    if op not in {"add", "remove"} or value is None:
        return None
    ids = [_id(one) for one in (value if is_list(value) else [value])]
    return None if None in ids else IdChange(op == "add", [one for one in ids if one is not None])


def _selected(selection: str) -> list[str]:
    """Return the ids that a filter compares; none if it compares anything else."""
    try:
        return [_normal(one) for one in criteria(selection, frozenset({"value"}))["value"]]
    except InvalidFilterException:
        return []


def _id(member: Any) -> str | None:
    ids = [one for name, one in member.items() if name.lower() == "value"] if is_object(member) else []
    return _normal(ids[0]) if ids and isinstance(ids[0], str) else None


def _normal(text: str) -> str:
    return as_uuid(text) or text
