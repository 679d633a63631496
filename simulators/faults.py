"""Fault injection: which call of which method fails, how often and in what way.

Faults are ordered by tests and by users who try a simulator. This module only decides whether and when a call fails; each
simulator words the failure like its service.
"""

import random
import threading
from collections import Counter
from typing import Any, Literal, get_args

import msgspec

Kind = Literal[
    "rate_limit",
    "server_error",
    "drop",
    "slow",
    "unauthorized",
    "lost_access",
    "not_found",
    "bad_page_token",
    "unnamed_page_token",
    "bad_request",
    "download_quota",
    "concurrency_limit",
    "bare_rate_limit",
]
"""`not_found` answers as if there was no such method. `bad_page_token` and `unnamed_page_token` reject a page token, the latter without
naming the parameter, as Drive sometimes does. `bad_request` rejects a call that is right, as Drive now and then does with exports.
`download_quota` refuses one file, which too many people have downloaded. `concurrency_limit` is the other error of Google's directory for
too many calls. `bare_rate_limit` does not say how long to wait, as many of Google's do not."""
KINDS: tuple[Kind, ...] = get_args(Kind)
PASSING: tuple[Kind, ...] = ("rate_limit", "server_error", "drop")
"""Kinds that disappear when the same call is repeated."""
_PAGED: tuple[Kind, ...] = ("bad_page_token", "unnamed_page_token")


class InjectedFault(msgspec.Struct):
    """One ordered fault. `times` 0 means until cleared."""

    kind: Kind
    times: int = 1
    match: str = ""
    """Part of the method's name (`files.list`, `files.get_media`, `conversations.`); empty: any method."""
    seconds: float = 1.0
    """Delay of a slow answer; Retry-After of a rate limit."""


class Faults:
    """The pending faults. Thread-safe. Ordered faults are committed first come first served, before random ones."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._orders: list[InjectedFault] = []
        self._seed = 0
        self._share = 0.0
        self._seconds = 0.0
        self._calls: Counter[str] = Counter()
        self.committed: Counter[str] = Counter()
        """Number of faults committed, by kind."""

    def add(self, kind: Kind, times: int = 1, match: str = "", seconds: float = 1.0) -> None:
        """Make the next `times` calls of the matching methods fail."""
        if kind not in KINDS:
            raise ValueError(f"There is no fault {kind!r}. Known faults: {', '.join(KINDS)}.")
        with self._lock:
            self._orders.append(InjectedFault(kind, times, match, seconds))

    def clear(self) -> None:
        """Remove all ordered faults and stop random ones."""
        with self._lock:
            self._orders.clear()
            self._share = 0.0

    def random(self, seed: int, share: float, seconds: float = 0.0) -> None:
        """Make each call fail temporarily with this probability; `seconds` is the Retry-After of rate limits.

        Whether the n-th call of a method fails depends only on the seed, not on calls of other threads.
        """
        with self._lock:
            self._seed, self._share, self._seconds = seed, share, seconds
            self._calls.clear()

    def order(self, body: dict[str, Any]) -> None:
        """Apply a control request: `{"clear": true}`, `{"seed": 1, "share": 0.1}`, or the arguments of `add`."""
        if body.get("clear"):
            self.clear()
        elif "share" in body:
            self.random(**body)
        else:
            self.add(**body)

    def take(self, method: str, *, paged: bool = True) -> InjectedFault | None:
        """Return the fault that this call of `method` commits, or None; `paged` is False for a call without a page token."""
        with self._lock:
            fault = self._ordered(method, paged) or self._chance(method)
            if fault is not None:
                self.committed[fault.kind] += 1
            return fault

    def _ordered(self, method: str, paged: bool) -> InjectedFault | None:
        for fault in self._orders:
            if fault.match in method and (paged or fault.kind not in _PAGED):
                if fault.times == 1:
                    self._orders.remove(fault)
                elif fault.times > 1:
                    fault.times -= 1
                return InjectedFault(fault.kind, 1, fault.match, fault.seconds)
        return None

    def _chance(self, method: str) -> InjectedFault | None:
        if not self._share:
            return None
        self._calls[method] += 1
        dice = random.Random(f"{self._seed} {method} {self._calls[method]}")  # noqa: S311 - faults, not secrets
        if dice.random() >= self._share:
            return None
        return InjectedFault(dice.choice(PASSING), 1, "", self._seconds)
