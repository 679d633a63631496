"""Group a channel's messages into windows, keeping earlier windows stable. Pure.

A window is identified for good by the time of its first message, the anchor, and takes up messages that follow within the gap,
up to 100. Messages grouped once stay grouped: a window is only extended at its end, or shrinks when messages are removed. The
same rule without a gap splits a thread into documents of 100 messages. Times are whole microseconds since 1970, which sort and
compare exactly; in Slack's API they are strings.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import msgspec

MOST = 100
"""Messages in one document."""
SECOND = 1_000_000
LONGEST = 7 * 24 * 3600 * SECOND
"""No window spans more than a week, which limits how far back the window containing a given time may begin."""


class Timed(Protocol):
    @property
    def at(self) -> int:
        """Microseconds since 1970."""
        ...


M = TypeVar("M", bound=Timed)


class Window(msgspec.Struct, frozen=True):
    """A remembered window: its anchor, its last message's time, and its number of messages."""

    anchor: int
    last: int
    count: int


def micros(ts: str) -> int:
    """Return the microseconds of Slack's `ts`."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * SECOND + int(fraction[:6].ljust(6, "0") or 0)


def stamp(at: int) -> str:
    """Return the `ts` of a time in Slack's format; with ten digits and six, so that stamps sort like times."""
    return f"{at // SECOND:010d}.{at % SECOND:06d}"


def assign(
    messages: Iterable[M], known: Iterable[Window], *, gap: int | None, taken: frozenset[int] = frozenset()
) -> list[tuple[Window, list[M]]]:
    """Group `messages` (ascending) into windows, returned with their messages; every message is in exactly one, none is empty.

    `known` are the windows that began in the same time range, ascending. `taken` are ids used by other documents (threads): a
    window whose anchor became one is named after its next message. `gap` None: no limit on the time between messages.
    """
    return _Assigning(gap, taken).run(messages, sorted(known, key=lambda window: window.anchor))


class _Assigning:
    def __init__(self, gap: int | None, taken: frozenset[int]) -> None:
        self._gap = gap
        self._taken = taken

    def run(self, messages: Iterable[M], known: Sequence[Window]) -> list[tuple[Window, list[M]]]:
        done: list[tuple[int, list[M]]] = []
        ahead = list(known)[::-1]
        reach = -1
        """Messages up to this time belong to the current window whatever the gap: it contained them before."""
        for message in messages:
            own = None
            while ahead and ahead[-1].anchor <= message.at:
                own = ahead.pop()
            if own is not None and message.at <= own.last:
                reach = own.last
                done.append((own.anchor, [message]))
            elif done and self._takes(done[-1], message.at, reach):
                done[-1][1].append(message)
            else:
                done.append((message.at, [message]))
        return [
            (Window(held[0].at if anchor in self._taken else anchor, held[-1].at, len(held)), held)
            for anchor, held in done
        ]

    def _takes(self, window: tuple[int, Sequence[Timed]], at: int, reach: int) -> bool:
        anchor, held = window
        if len(held) >= MOST:
            return False
        if self._gap is None or at <= reach:
            return True
        return at - held[-1].at <= self._gap and at - anchor <= LONGEST


def clean_cut(times: Sequence[tuple[int, bool]], known: Iterable[Window], gap: int) -> int | None:
    """Return the index of the first message from which a page can be settled before older messages are read; None: there is none.

    `times` are those of the page's messages, ascending, each with True if it is outside threads. The best cut is where a window
    certainly begins; in a conversation without pauses, it is the first place that splits no known window.
    """
    windows = sorted(known, key=lambda window: window.anchor)
    anchors = [window.anchor for window in windows]
    possible: int | None = None
    before = times[0][0] if times else 0
    for index, (at, outside) in enumerate(times):
        place = bisect_left(anchors, at)
        begins = place < len(anchors) and anchors[place] == at
        if place == 0 or windows[place - 1].last < at:
            possible = index if possible is None else possible
            if outside and (begins or (index > 0 and at - before > gap)):
                return index
        if outside:
            before = at
    return possible
