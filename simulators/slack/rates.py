"""Slack's published rate limits.

Slack publishes calls per minute for each method, workspace and app, with bursts "tolerated". Here a minute begins with a
method's first call and allows exactly what the tier guarantees: the least that a client may rely on.
Source: https://docs.slack.dev/apis/web-api/rate-limits and each method's page.
"""

import math
from collections.abc import Callable

PER_MINUTE: dict[str, int] = {
    "apps.connections.open": 1,
    "auth.test": 300,  # "special": hundreds a minute
    "bots.info": 50,
    "chat.postEphemeral": 100,
    "chat.postMessage": 60,  # one a second in a channel; here for the workspace
    "chat.update": 50,
    "conversations.history": 50,  # 1 (of 15 messages) for apps sold outside the Marketplace; internal apps keep tier 3
    "conversations.info": 50,
    "conversations.list": 20,
    "conversations.members": 100,
    "conversations.replies": 50,
    "files.info": 100,
    "usergroups.list": 20,
    "users.info": 100,
    "users.list": 20,
}
"""Calls per minute by method: tier 1 is 1, tier 2 is 20, tier 3 is 50, tier 4 is 100."""

_WINDOW = 60.0


class Rates:
    """Counts calls by method; `timer` is a monotonic clock in seconds."""

    def __init__(self, timer: Callable[[], float]) -> None:
        self._timer = timer
        self._windows: dict[str, tuple[float, int]] = {}

    def wait(self, method: str) -> int | None:
        """Count a call and return None, or return the whole seconds to wait before making it."""
        now = self._timer()
        start, calls = self._windows.get(method, (now, 0))
        if now - start >= _WINDOW:
            start, calls = now, 0
        if calls >= PER_MINUTE.get(method, 20):
            return max(1, math.ceil(start + _WINDOW - now))
        self._windows[method] = (start, calls + 1)
        return None
