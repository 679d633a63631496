"""The messages of one channel: writing, editing and deleting them, and paging in Slack's order.

Times are microseconds; ranges are half open: `low` is included, `high` is not.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from simulators.slack.records import DELETED_TEXT, SLACKBOT, SimulatedMessage


class Timeline:
    """Messages by time, and which of them `conversations.history` shows: all except replies that were not broadcast."""

    def __init__(self) -> None:
        self._messages: dict[int, SimulatedMessage] = {}
        self._shown: list[int] = []

    def __contains__(self, micros: int) -> bool:
        return micros in self._messages

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[SimulatedMessage]:
        for micros in sorted(self._messages):
            yield self._messages[micros]

    def get(self, micros: int) -> SimulatedMessage | None:
        return self._messages.get(micros)

    def root(self, message: SimulatedMessage) -> SimulatedMessage:
        """Return the message that starts the thread of `message`: itself unless it is a reply."""
        return message if message.parent is None else self._messages[message.parent]

    def add(self, message: SimulatedMessage) -> None:
        """Add a message; raises `ValueError` if its time is taken or its parent is missing."""
        if message.micros in self._messages:
            raise ValueError("that time is taken in this channel: give another ts")
        if message.parent is not None:
            parent = self._messages.get(message.parent)
            if parent is None:
                raise ValueError("there is no message to reply to at that time")
            insort(parent.replies, message.micros)
            parent.threaded = True
        self._messages[message.micros] = message
        if message.parent is None or message.subtype == "thread_broadcast":
            insort(self._shown, message.micros)

    def delete(self, message: SimulatedMessage) -> None:
        """Delete as Slack does: a parent with replies leaves a tombstone, which is removed with the last reply."""
        if message.replies:
            message.subtype, message.user, message.text = "tombstone", SLACKBOT, DELETED_TEXT
            message.files, message.blocks, message.attachments, message.edited = (), None, None, None
            message.bot_id = None
            return
        self._drop(message)
        if message.parent is not None:
            parent = self._messages[message.parent]
            parent.replies.remove(message.micros)
            if parent.subtype == "tombstone" and not parent.replies:
                self._drop(parent)

    def history(
        self, low: int, high: int, limit: int, *, forward: bool = False
    ) -> tuple[list[SimulatedMessage], int | None]:
        """Return a page, newest first, and the time of the first message of the next page; `forward` begins at the oldest messages."""
        first, end = bisect_left(self._shown, low), bisect_left(self._shown, high)
        if forward:
            cut = min(end, first + limit)
            page = [self._messages[micros] for micros in reversed(self._shown[first:cut])]
            return page, self._shown[cut] if cut < end else None
        cut = max(first, end - limit)
        page = [self._messages[micros] for micros in reversed(self._shown[cut:end])]
        return page, self._shown[cut - 1] if cut > first else None

    def replies(
        self, root: SimulatedMessage, low: int, high: int, limit: int
    ) -> tuple[list[SimulatedMessage], int | None]:
        """Return a page of replies without the parent, oldest first, and the time of the next page's first reply."""
        first, end = bisect_left(root.replies, low), bisect_left(root.replies, high)
        cut = min(end, first + limit)
        page = [self._messages[micros] for micros in root.replies[first:cut]]
        return page, root.replies[cut] if cut < end else None

    def _drop(self, message: SimulatedMessage) -> None:
        del self._messages[message.micros]
        if message.parent is None or message.subtype == "thread_broadcast":
            del self._shown[bisect_left(self._shown, message.micros)]
