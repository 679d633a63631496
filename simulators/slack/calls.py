"""One call of the Web API: typed access to its arguments, with Slack's errors.

Cursors name the next item (an id, a time) and not a position: pages stay correct while items are added or removed.
Source: https://docs.slack.dev/apis/web-api/pagination and the error tables of the methods' pages.
"""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from simulators.slack.model import SimulatedChannel, Workspace
from simulators.slack.records import to_micros

T = TypeVar("T")
FOREVER = 10**18
"""Later than any message, in microseconds."""


class RefusalError(Exception):
    """An error response: `{"ok": false, "error": code, ...}` with status 200."""

    def __init__(self, code: str, **more: Any) -> None:
        super().__init__(code)
        self.code = code
        self.more = more


@dataclass(slots=True, frozen=True)
class MethodCall:
    """The arguments of a call; `base` is the URL under which the client reached us."""

    workspace: Workspace
    arguments: Mapping[str, str]
    base: str

    def get(self, name: str, default: str = "") -> str:
        """Return an argument; empty ones count as missing."""
        return self.arguments.get(name) or default

    def required(self, name: str) -> str:
        value = self.get(name)
        if not value:
            message = f"[ERROR] missing required field: {name}"
            raise RefusalError("invalid_arguments", response_metadata={"messages": [message]})
        return value

    def flag(self, name: str) -> bool:
        return self.get(name).lower() in {"1", "true", "t", "yes"}

    def limit(self, default: int, most: int) -> int:
        """Return the page size; rejects what isn't a number from 1 to `most` (0 means the default)."""
        text = self.get("limit", "0")
        if not text.isascii() or not text.isdigit() or int(text) > most:
            raise RefusalError("invalid_limit")
        return int(text) or default

    def demand(self, scope: str) -> None:
        """Raise an error unless the token has the scope."""
        if scope not in self.workspace.scopes:
            raise RefusalError("missing_scope", needed=scope, provided=",".join(sorted(self.workspace.scopes)))

    def channel(self, *, history: bool) -> SimulatedChannel:
        """Return the requested channel if the bot may see it and, with `history`, read its messages."""
        found = self.workspace.channels.get(self.required("channel"))
        inside = found is not None and self.workspace.bot in found.members
        if found is None or (found.private and not inside):
            raise RefusalError("channel_not_found")
        if found.denied:
            raise RefusalError(found.denied)
        self.demand(
            ("im:" if found.direct else "groups:" if found.private else "channels:")
            + ("history" if history else "read")
        )
        if history and not inside:
            raise RefusalError("not_in_channel")
        return found

    def range(self) -> tuple[int, int]:
        """Return `oldest` and `latest` as a half-open range of microseconds; both are excluded unless `inclusive`."""
        edge = 1 if self.flag("inclusive") else 0
        low, high = self._time("oldest", 0), self._time("latest", FOREVER)
        return (low + 1 - edge if self.get("oldest") else 0), high + edge

    def at_time(self) -> int | None:
        """Return the microseconds in the cursor."""
        place = self._cursor("next_ts")
        if place is None:
            return None
        if not place.isdigit():
            raise RefusalError("invalid_cursor")
        return int(place)

    def page(self, kind: str, items: Sequence[T], ids: Sequence[str], limit: int) -> tuple[Sequence[T], dict[str, str]]:
        """Return a page of items sorted by id, and its `response_metadata`."""
        place = self._cursor(kind)
        start = next((index for index, id_ in enumerate(ids) if id_ >= place), len(ids)) if place is not None else 0
        end = start + limit
        return items[start:end], {"next_cursor": cursor(kind, ids[end]) if end < len(ids) else ""}

    def _time(self, name: str, default: int) -> int:
        text = self.get(name)
        if not text or text == "now":
            return default
        try:
            return to_micros(text)
        except ValueError as error:
            raise RefusalError(f"invalid_ts_{name}") from error

    def _cursor(self, kind: str) -> str | None:
        text = self.get("cursor")
        if not text:
            return None
        try:
            found, _, place = base64.b64decode(text, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise RefusalError("invalid_cursor") from error
        if found != kind or not place:
            raise RefusalError("invalid_cursor")
        return place


def cursor(kind: str, place: object) -> str:
    """Return a cursor in Slack's format, e.g. `next_ts:1484678290517091` in base64."""
    return base64.b64encode(f"{kind}:{place}".encode()).decode()


def time_of(call: MethodCall) -> int:
    """Return the microseconds of the argument `ts`; an invalid one is rejected as an unknown thread."""
    try:
        return to_micros(call.required("ts"))
    except ValueError as error:
        raise RefusalError("thread_not_found") from error
