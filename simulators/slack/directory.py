"""The users and groups of a simulated Slack workspace, its bot's token and scopes, and its clock.

The methods are what administrators do. Nothing here knows about messages.
"""

import functools
import random
import string
import threading
import time
from collections.abc import Callable, Iterable
from typing import Concatenate, ParamSpec, TypeVar

from simulators.slack.records import SLACKBOT, SimulatedUser, UserGroup

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound="SimulatedDirectory")

SCOPES = frozenset(
    {
        "channels:history",
        "channels:read",
        "files:read",
        "groups:history",
        "groups:read",
        "usergroups:read",
        "users:read",
        "users:read.email",
    }
)
"""Default scopes of the bot's token. Source: https://docs.slack.dev/reference/scopes"""

_ALPHABET = string.ascii_uppercase + string.digits
_OTHER_TEAM = "T0ELSEWHERE"


def locked(action: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Run a method under the workspace's lock."""

    @functools.wraps(action)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock:
            return action(self, *args, **kwargs)

    return run


class SimulatedDirectory:
    """The user side of a workspace. Thread-safe; ids are the same for the same seed; `clock` returns seconds since 1970."""

    def __init__(self, name: str, team: str, domain: str, clock: Callable[[], float] | None, seed: int) -> None:
        self.name, self.team, self.domain = name, team, domain
        self.lock = threading.RLock()
        self.token = "xoxb-simulator"  # noqa: S105 - the double's own
        self.app_token = "xapp-simulator"  # noqa: S105 - the double's own, for Socket Mode
        self.signing_secret = "simulator"  # noqa: S105 - the double's own, for events over HTTP
        self.revoked: set[str] = set()
        self.scopes: set[str] = set(SCOPES)
        self.throttle = False
        self.users: dict[str, SimulatedUser] = {}
        self.usergroups: dict[str, UserGroup] = {}
        self._clock = clock or time.time
        self._dice = random.Random(seed)  # noqa: S311 - ids, not secrets
        self.bot, bot_id, self.app_id = self.new_id("U"), self.new_id("B"), self.new_id("A")
        self.users[SLACKBOT] = SimulatedUser(SLACKBOT, "Slackbot", None, team, self.now())
        self.users[self.bot] = SimulatedUser(self.bot, "concordance", None, team, self.now(), bot_id=bot_id)

    @locked
    def user(
        self,
        name: str,
        email: str | None,
        *,
        guest: bool = False,
        external: bool = False,
        listed: bool = True,
        deactivated: bool = False,
        bot: bool = False,
        tz: str = "Europe/London",
    ) -> str:
        """Add a user and return the id: a member, a guest, or (`external`) a user of a connected workspace.

        `users.list` leaves out those who are not `listed`.
        """
        made = SimulatedUser(self.new_id("U"), name, email, _OTHER_TEAM if external else self.team, self.now(), tz=tz)
        made.guest, made.external, made.deactivated, made.listed = guest, external, deactivated, listed
        made.bot_id = self.new_id("B") if bot else None
        self.users[made.id] = made
        return made.id

    def deactivate(self, user: str) -> None:
        """Deactivate an account; its name remains on what it wrote."""
        self._update(user, deactivated=True)

    def reactivate(self, user: str) -> None:
        self._update(user, deactivated=False)

    def set_name(self, user: str, name: str) -> None:
        self._update(user, name=name)

    def set_guest(self, user: str, guest: bool = True) -> None:
        self._update(user, guest=guest)

    @locked
    def usergroup(self, handle: str, users: Iterable[str] = ()) -> str:
        """Create a user group, or replace its members, and return its id."""
        known = next((group for group in self.usergroups.values() if group.handle == handle), None)
        group = known or UserGroup(self.new_id("S"), handle, self.now())
        group.users = [self.find_user(user).id for user in users]
        self.usergroups[group.id] = group
        return group.id

    @locked
    def disable_usergroup(self, group: str, on: bool = True) -> None:
        """Disable a user group, which keeps its members, or enable it again."""
        self.usergroups[group].deleted = self.now() if on else 0

    @locked
    def _update(self, user: str, **facts: object) -> None:
        found = self.find_user(user)
        for name, value in facts.items():
            setattr(found, name, value)
        found.updated = self.now()

    @locked
    def revoke(self) -> None:
        """Revoke the token: calls with it get `token_revoked`."""
        self.revoked.add(self.token)

    @locked
    def renew(self, token: str | None = None) -> str:
        """Issue a token (the same one unless another is given) and return it."""
        self.token = token or self.token
        self.revoked.discard(self.token)
        return self.token

    @locked
    def set_scopes(self, scopes: Iterable[str]) -> None:
        self.scopes = set(scopes)

    @locked
    def set_throttle(self, on: bool = True) -> None:
        """Turn enforcement of Slack's published rate limits on or off."""
        self.throttle = on

    def now(self) -> int:
        """Return the time in microseconds since 1970."""
        return round(self._clock() * 1_000_000)

    def find_user(self, user: str) -> SimulatedUser:
        if user in self.users:
            return self.users[user]
        for found in self.users.values():
            if user in {found.email, found.name}:
                return found
        raise LookupError(f"there is no user {user!r}: use an id, email or name")

    def new_id(self, prefix: str) -> str:
        """Return an id that looks like Slack's: C for channels, F files, U users."""
        return prefix + "0" + "".join(self._dice.choices(_ALPHABET, k=9))
