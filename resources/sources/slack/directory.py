"""The users of a workspace: their names, for what they wrote, and their emails, for what they may read.

An email counts only if Slack reports it as confirmed, and only for accounts of this workspace: users of connected workspaces
and bots read nothing here. Pure except for `load`.
"""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from resources.core import permissions
from resources.core.errors import AbortSyncError, AuthorizationError, InvalidRequestError, RetryLaterError
from resources.core.json import list_of, object_of
from resources.sources.slack.client import LIST_LIMIT, MissingScopeError, SlackClient

BOTS = frozenset({"USLACKBOT"})
MOST_STRANGERS = 1000
"""Authors from connected workspaces that one sync asks Slack for."""


class SlackAccount(msgspec.Struct, frozen=True, kw_only=True):
    """An account. `email` is None for accounts that may not read by it."""

    id: str
    name: str
    email: str | None = None
    guest: bool = False
    own: bool = False
    """True if the account belongs to this workspace, including guests and bots."""


class SlackPeople:
    """All users that Slack lists, by id."""

    def __init__(self, team: str, accounts: Iterable[dict[str, Any]]) -> None:
        self._people = {account["id"]: _person(team, account) for account in accounts}
        self.guests = any(person.guest and person.email for person in self._people.values())
        """True if there is any guest: only then the members of public channels matter."""

    def name(self, user: str) -> str | None:
        person = self._people.get(user)
        return person.name if person else None

    def own_name(self, user: str) -> str | None:
        """Return the name of an account of this workspace; None for users of other workspaces."""
        person = self._people.get(user)
        return person.name if person and person.own else None

    def members(self) -> list[str]:
        """Return the emails of the workspace's full members, sorted: those who may read every public channel."""
        return sorted({person.email for person in self._people.values() if person.email and not person.guest})

    def accounts(self) -> list[tuple[str, str]]:
        """Return (account, address) of everyone who may read by an address."""
        return [(person.id, person.email) for person in self._people.values() if person.email]

    def emails(self, users: Iterable[str], *, guests_only: bool = False) -> list[str]:
        found = (self._people.get(user) for user in users)
        return sorted({one.email for one in found if one and one.email and (one.guest or not guests_only)})


def load(client: SlackClient, team: str) -> SlackPeople:
    """Load all users from Slack. Raises `AuthorizationError` if it returns no emails."""
    accounts = list(client.pages("users.list", "members", limit=LIST_LIMIT))
    humans = [account for account in accounts if _active_human(account) and _of_team(team, account)]
    if humans and not any(object_of(account.get("profile")).get("email") for account in humans):
        raise AuthorizationError(
            "Slack's users.list needs the scope users:read.email: without emails no one could be shown anything. "
            "Add it to the app and install the app again (docs/slack.md)."
        )
    return SlackPeople(team, accounts)


def is_of_workspace(team: str, account: dict[str, Any]) -> bool:
    """Return True if an account reads no more than the workspace's full members do: one of them, a bot, or a deactivated account."""
    if account.get("deleted"):
        return True
    guest = account.get("is_restricted") or account.get("is_ultra_restricted") or account.get("is_stranger")
    return not guest and (account.get("id") in BOTS or _of_team(team, account))


def usergroups(client: SlackClient) -> list[dict[str, Any]] | None:
    """Return the user groups that are enabled, with their users; None without the scope, or on a plan that has none.

    Raises `AbortSyncError` or `RetryLaterError`. Source: https://docs.slack.dev/reference/methods/usergroups.list
    """
    try:
        answer = client.call("usergroups.list", include_users="true", include_disabled="false")
    except MissingScopeError:
        return None
    except AbortSyncError as error:
        if "plan_upgrade_required" in str(error):
            return None
        raise
    return [group for group in map(object_of, list_of(answer.get("usergroups"))) if not group.get("date_delete")]


def group_names(groups: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the handles of user groups by id, which all members of the workspace and its guests see."""
    return {str(group.get("id")): str(group["handle"]) for group in groups if group.get("handle")}


class Strangers:
    """Names of authors whom `users.list` leaves out: users of connected workspaces. Each is asked for once in a sync. Thread-safe.

    Source: https://docs.slack.dev/apis/slack-connect/using-slack-connect-api
    """

    def __init__(self, client: SlackClient, warn: Callable[[str], None]) -> None:
        self._client = client
        self._warn = warn
        self._names: dict[str, str | None] = {}
        self._lock = threading.Lock()
        self._failed = False

    def name(self, user: str) -> str | None:
        """Return the name of a user whose message was read; None if Slack does not tell it."""
        with self._lock:
            if user not in self._names:
                self._names[user] = self._ask(user) if len(self._names) < MOST_STRANGERS else None
            return self._names[user]

    def _ask(self, user: str) -> str | None:
        if self._failed:
            return None
        try:
            account = object_of(self._client.call("users.info", user=user).get("user"))
        except (AuthorizationError, RetryLaterError) as error:
            self._failed = True
            self._warn(f"Some authors from connected workspaces are shown without their names. {error}")
            return None
        except AbortSyncError:  # user_not_found, user_not_visible
            return None
        return _person("", {"id": user, **account}).name if account else None


def memberships(people: SlackPeople, groups: Iterable[dict[str, Any]], domain: str) -> list[tuple[str, str]]:
    """Return (email, `group:HANDLE@DOMAIN`) of the full members of user groups. Groups whose handle is no address are left out."""
    members = set(people.members())
    found: list[tuple[str, str]] = []
    for group in groups:
        try:
            principal = permissions.principal(f"group:{group.get('handle') or ''}@{domain}")
        except InvalidRequestError:
            continue
        emails = people.emails(str(user) for user in list_of(group.get("users")))
        found += [(email, principal) for email in emails if email in members]
    return found


def _person(team: str, account: dict[str, Any]) -> SlackAccount:
    profile: dict[str, Any] = account.get("profile") or {}
    shown = profile.get("display_name") or profile.get("real_name") or account.get("real_name") or account.get("name")
    reads = _active_human(account) and _of_team(team, account) and account.get("is_email_confirmed") is not False
    return SlackAccount(
        id=account["id"],
        name=" ".join(str(shown or account["id"]).split()),
        email=_email(profile.get("email")) if reads else None,
        guest=bool(account.get("is_restricted") or account.get("is_ultra_restricted")),
        own=not account.get("is_stranger") and (account["id"] in BOTS or _of_team(team, account)),
    )


def _active_human(account: dict[str, Any]) -> bool:
    strange = (
        account.get("deleted") or account.get("is_bot") or account.get("is_stranger") or account.get("is_invited_user")
    )
    return not strange and account["id"] not in BOTS


def _of_team(team: str, account: dict[str, Any]) -> bool:
    """Return True if the account belongs to this workspace; an organisation's account lists its workspaces."""
    teams = list_of(object_of(account.get("enterprise_user")).get("teams"))
    return account.get("team_id") == team or team in teams


def _email(text: Any) -> str | None:
    try:
        return permissions.email(str(text)) if text else None
    except InvalidRequestError:
        return None
