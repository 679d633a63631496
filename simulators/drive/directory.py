"""The three read methods of the Admin SDK's Directory API that a synced directory needs.

Source: https://developers.google.com/workspace/admin/directory/reference/rest/v1 (users.list, groups.list, members.list)
"""

from collections.abc import Callable
from typing import Any

from simulators.drive.errors import ApiError, bad_parameter
from simulators.drive.fields import DIRECTORY, mask, pick
from simulators.drive.parameters import Parameters, with_next
from simulators.drive.state import DriveState
from simulators.drive.workspace import EVERYONE, SimulatedAccount

_CUSTOMER = "C01larkmoor"


def users_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the accounts, suspended and archived ones included, by email."""
    _check_customer(parameters)
    users = world.workspace.users
    emails, following = _page(world, parameters, "users", sorted(users), most=500, default=100)
    body = {
        "kind": "admin#directory#users",
        "users": [_user(world, users[email]) for email in emails if email in users],
    }
    return pick(with_next(body, following), _mask(parameters, "Users"))


def groups_list(world: DriveState, parameters: Parameters) -> Any:
    _check_customer(parameters)
    groups = world.workspace.groups
    emails, following = _page(world, parameters, "groups", sorted(groups))
    found = [
        {
            "kind": "admin#directory#group",
            "id": _id(email),
            "email": email,
            "name": email.partition("@")[0],
            "directMembersCount": str(len(groups[email])),
        }
        for email in emails
        if email in groups
    ]
    return pick(with_next({"kind": "admin#directory#groups", "groups": found}, following), _mask(parameters, "Groups"))


def members_list(world: DriveState, parameters: Parameters) -> Any:
    """Return the direct members of a group: accounts, outsiders, groups, or the whole Workspace."""
    key = parameters["groupKey"].lower()
    members = world.workspace.groups.get(key)
    if members is None:
        raise ApiError(404, "notFound", "Resource Not Found: groupKey")
    names, following = _page(world, parameters, f"members {key}", list(members))
    body: dict[str, Any] = {"kind": "admin#directory#members"}
    if names:  # Google leaves out an empty list
        body["members"] = [_member(world, name) for name in names]
    return pick(with_next(body, following), _mask(parameters, "Members"))


def _user(world: DriveState, account: SimulatedAccount) -> dict[str, Any]:
    return {
        "kind": "admin#directory#user",
        "id": _id(world.workspace.identity(account.email)),
        "primaryEmail": account.email,
        "name": {"fullName": account.name},
        "suspended": account.suspended,
        "archived": account.archived,
        "orgUnitPath": account.org_unit,
    }


def _member(world: DriveState, name: str) -> dict[str, Any]:
    kind = {"kind": "admin#directory#member", "role": "MEMBER"}
    if name == EVERYONE:
        return {**kind, "id": _CUSTOMER, "type": "CUSTOMER"}
    if name in world.workspace.groups:
        return {**kind, "id": _id(name), "type": "GROUP", "email": name}
    member = {**kind, "id": _id(world.workspace.identity(name)), "type": "USER", "email": name}
    account = world.workspace.users.get(name)
    return member if account is None else {**member, "status": "SUSPENDED" if account.suspended else "ACTIVE"}


def _page(
    world: DriveState, parameters: Parameters, question: str, found: list[str], *, most: int = 200, default: int = 200
) -> tuple[list[str], str | None]:
    size = parameters.get("maxResults", str(default))
    if not size.isascii() or not size.isdigit() or int(size) < 1:
        raise bad_parameter("maxResults", f"Invalid value '{size}'. Values must be within the range: [1, {most}]")
    token = parameters.get("pageToken") or world.listings.begin(question, found)
    return world.listings.page(token, question, min(int(size), most))


def _mask(parameters: Parameters, schema: str) -> Any:
    return mask(parameters.get("fields", "*"), schema, DIRECTORY)


def _check_customer(parameters: Parameters) -> None:
    if not parameters.get("customer") and not parameters.get("domain"):
        raise ApiError(400, "badRequest", "Bad Request")


def _id(email: str) -> str:
    return str(int.from_bytes(email.encode()[:12].ljust(12, b"0")) % 10**21)


DIRECTORY_METHODS: dict[str, Callable[[DriveState, Parameters], Any]] = {
    "users.list": users_list,
    "groups.list": groups_list,
    "members.list": members_list,
}
