"""The memory of a channel: its windows and threads, their last state, and which documents contain which file.

It combines the committed memory with the changes of the current batch. Keys sort by time, so that a page of history only reads
the entries of its range:
`m:TS` a window by its anchor, `t:TS` a thread by its parent, `f:ID` the documents that contain a file, `i:ID` what Slack says of a
file of which messages have only a stub, `shown` what decides whether the documents may still be shown, `turn` the number of syncs; `e:ID` a
pending event, written by `resources.sources.slack.events`.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from resources.core.domain import SourceName
from resources.core.ports import Memory
from resources.sources.slack.windows import LONGEST, Window, stamp

_AFTER = "\x7f"
"""Sorts after every character of a key."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    anchor: int
    last: int
    count: int
    seal: str = ""
    files: list[str] = []

    @property
    def window(self) -> Window:
        return Window(self.anchor, self.last, self.count)


class Thread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread as last read, in the sync `turn`."""

    latest: str
    count: int
    root: str
    turn: int
    parts: list[Part] = []


class PendingEvent(msgspec.Struct, frozen=True):
    """A message, thread or file that an event since the last sync concerns."""

    key: str
    ts: str | None = None
    thread: str | None = None
    file: str | None = None
    all: bool = False
    """True if it concerns the whole channel."""


class Ledger:
    """One channel's memory. Not thread-safe: a channel is read by one thread."""

    def __init__(self, memory: Memory, channel: str) -> None:
        self._memory = memory
        self._channel = channel
        self._changes: dict[str, Any] = {}
        self._gone: set[str] = set()

    def turn(self) -> int:
        """Return the number of the last sync, 0 before the first."""
        return int(self._read("turn", "turn" + _AFTER).get("turn", 0))

    def shown(self) -> dict[str, Any]:
        """Return what decides whether the documents may still be shown, as fields of `ChannelCursor`: listings begin without a cursor."""
        return self._read("shown", "shown" + _AFTER).get("shown", {})

    def keep_shown(self, fields: dict[str, Any]) -> None:
        self._changes["shown"] = fields

    def windows(self, low: int, high: int | None) -> dict[int, Part]:
        """Return the windows that began at or after `low` and before `high`, by their anchors."""
        found = self._read(f"m:{stamp(low)}", "m:" + (_AFTER if high is None else stamp(high)))
        return {part.anchor: part for part in (msgspec.convert(value, Part) for value in found.values())}

    def around(self, low: int, high: int | None) -> list[Window]:
        """Return the windows that began before `high` and may extend to `low`."""
        return [part.window for part in self.windows(max(0, low - LONGEST), high).values() if part.last >= low]

    def threads(self, low: int, high: int | None) -> dict[int, Thread]:
        """Return the threads whose parents were written at or after `low` and before `high`."""
        found = self._read(f"t:{stamp(low)}", "t:" + (_AFTER if high is None else stamp(high)))
        return {_time(key): msgspec.convert(value, Thread) for key, value in found.items()}

    def events(self) -> list[PendingEvent]:
        """Return the pending events. Read them before the data they concern, so that no later change is missed."""
        found = self._read("e:", "e:" + _AFTER)
        return [msgspec.convert(value | {"key": key}, PendingEvent) for key, value in found.items()]

    def holders(self, file: str) -> list[tuple[bool, int]]:
        """Return the documents that contain a file: whether each is a thread, and the time that identifies it."""
        key = f"f:{file}"
        held: list[str] = self._read(key, key + "\x01").get(key) or []
        return [(holder.startswith("t:"), _time(holder)) for holder in held]

    def file(self, file: str) -> dict[str, Any] | None:
        """Return what is remembered of a file of which messages have only a stub."""
        key = f"i:{file}"
        return self._read(key, key + "\x01").get(key)

    def keep_file(self, file: str, facts: dict[str, Any] | None) -> None:
        """Remember a file, or forget it, so that Slack is asked again."""
        self._changes[f"i:{file}"] = facts

    def settle(self, event: PendingEvent) -> None:
        """Remove an event whose data was read."""
        self._changes[event.key] = None

    def keep_window(self, part: Part, before: Part | None) -> None:
        """Remember a window, and mark it as changed if it differs from before."""
        if part != before:
            self._changes[f"m:{stamp(part.anchor)}"] = msgspec.to_builtins(part)
        self._refer(f"m:{stamp(part.anchor)}", before.files if before else (), part.files)

    def drop_window(self, part: Part) -> None:
        self._changes[f"m:{stamp(part.anchor)}"] = None
        self._refer(f"m:{stamp(part.anchor)}", part.files, ())

    def keep_thread(self, root: int, thread: Thread, before: Thread | None) -> None:
        self._changes[f"t:{stamp(root)}"] = msgspec.to_builtins(thread)
        self._refer(f"t:{stamp(root)}", _files(before), _files(thread))

    def drop_thread(self, root: int, before: Thread) -> None:
        self._changes[f"t:{stamp(root)}"] = None
        self._refer(f"t:{stamp(root)}", _files(before), ())

    def take(self, turn: int) -> tuple[dict[str, Any], set[str]]:
        """Return the entries to save with a batch and the files that no document contains any more, and start a new batch."""
        changes, gone = self._changes, self._gone
        self._changes, self._gone = {}, set()
        return {**changes, "turn": turn}, gone

    def _refer(self, document: str, before: Iterable[str], now: Iterable[str]) -> None:
        old, new = set(before), set(now)
        for file in sorted(old ^ new):
            key = f"f:{file}"
            holders = set(self._read(key, key + "\x01").get(key) or ())
            holders = holders | {document} if file in new else holders - {document}
            self._changes[key] = sorted(holders) or None
            if holders:
                self._gone.discard(file)
            else:
                self._gone.add(file)
                self.keep_file(file, None)

    def _read(self, low: str, high: str) -> dict[str, Any]:
        found = dict(self._memory.read(SourceName.SLACK, self._channel, low, high))
        found |= {key: value for key, value in self._changes.items() if low <= key < high}
        return {key: found[key] for key in sorted(found) if found[key] is not None}


def _files(thread: Thread | None) -> list[str]:
    return [file for part in thread.parts for file in part.files] if thread else []


def _time(key: str) -> int:
    seconds, _, fraction = key.partition(":")[2].partition(".")
    return int(seconds) * 1_000_000 + int(fraction)
