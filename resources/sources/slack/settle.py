"""Turn pages of messages and threads into items and tombstones, by comparison with the ledger.

A page is complete for its range: what the ledger has there and the page does not was deleted. Each message is in exactly one
document, that of its thread or that of its window.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec

from resources.core.domain import Batch, Item, Refusal
from resources.sources.slack.client import FOREVER, MissingScopeError, SlackClient, ThreadNotFoundError
from resources.sources.slack.documents import ChannelInfo, conversation
from resources.sources.slack.files import STUB, describe, facts
from resources.sources.slack.history import HistoryPage
from resources.sources.slack.ledger import Ledger, Part, Thread
from resources.sources.slack.messages import IndexedMessage, fingerprint, is_reply, is_root, parse_message
from resources.sources.slack.render import NameLookups
from resources.sources.slack.windows import Window, assign, micros, stamp

Kind = Literal["delta", "page", "complete"]


class ChannelBatchBuilder:
    """Processes one channel and collects the content of the next batch. Not thread-safe.

    `contents` holds the bytes of conversations by source id while their batch is being written.
    """

    def __init__(
        self,
        channel: ChannelInfo,
        client: SlackClient,
        ledger: Ledger,
        names: NameLookups,
        contents: dict[str, bytes],
        *,
        gap: int,
        file_limit: int,
        author: Callable[[str], str | None],
        own_bot: str = "",
    ) -> None:
        self.channel = channel
        self._own_bot = own_bot
        self._client = client
        self._ledger = ledger
        self._names = names
        self._contents = contents
        self._gap = gap
        self._file_limit = file_limit
        self._author = author
        self.threads: list[tuple[int, int, int]] = []
        """Threads of the current page: each one's parent, last reply, and the turn in which it was read."""
        self.ended: set[int] = set()
        """Parents, in the current page, of threads that no longer exist."""
        self.unread: dict[int, int] = {}
        """Threads in pages of this sync that seem unchanged: the turn in which each was last read."""
        self.shown: set[int] = set()
        """Parents of threads in pages of this sync."""
        self._found: dict[str, Item | Refusal] = {}
        self._deleted: set[str] = set()
        self._everything = False
        self._roots: dict[int, dict[str, Any]] = {}
        self._known: dict[int, Thread] = {}
        self._parts: dict[int, Part] = {}
        self._outside: list[IndexedMessage] = []

    @property
    def pending(self) -> bool:
        """True if something was found since the last batch."""
        return bool(self._found or self._deleted)

    def open(self, page: HistoryPage, *, everything: bool, turn: int) -> list[int]:
        """Begin a page; return the parents of its threads that must be read. `everything`: all except those read in this turn."""
        self._everything = everything
        self._parts = self._ledger.windows(page.low, page.high)
        self._known = self._ledger.threads(page.low, page.high)
        own = [raw for raw in page.messages if not is_reply(raw)]
        self._roots = {micros(raw["ts"]): raw for raw in own if is_root(raw)}
        self._outside = [message for raw in own if not is_root(raw) and (message := self._parse(raw))]
        self.shown |= self._roots.keys()
        self.threads = []
        self.ended = self._known.keys() - self._roots.keys()
        due: list[int] = []
        for root, raw in self._roots.items():
            before = self._known.get(root)
            same = before is not None and _thread_state(raw) == (before.latest, before.count, before.root)
            if before is None or not same or (everything and before.turn != turn):
                due.append(root)
                continue
            self.unread[root] = before.turn
            self.threads.append((root, micros(before.latest), before.turn))
        for raw in filter(
            is_reply, page.messages
        ):  # it was broadcast, and its parent may be on a page that is not read soon
            root = micros(raw["thread_ts"])
            before = self._ledger.threads(root, root + 1).get(root)
            unread = before is None or micros(before.latest) < micros(raw["ts"])
            if unread and root not in self._roots and root not in due:
                due.append(root)
        return due

    def read_thread(self, root: int, turn: int, *, drop_hidden: bool = False) -> int:
        """Read and record a thread; return the time of its last reply, or 0 if it no longer exists or the workspace's plan hides it.

        A hidden one stays as it is and is not asked for again; with `drop_hidden` it counts as deleted.
        """
        name = stamp(root)
        try:
            raws = self._client.replies(self.channel.id, name)
        except ThreadNotFoundError:
            raws = []
        shown = self._roots.get(root)
        before = self._known.get(root) if shown else self._ledger.threads(root, root + 1).get(root)
        self.unread.pop(root, None)
        if not raws and not shown and not drop_hidden and self._is_hidden(name):
            hidden = before or Thread(latest=FOREVER, count=0, root="", turn=turn)
            self._ledger.keep_thread(root, msgspec.structs.replace(hidden, latest=FOREVER, turn=turn), before)
            return 0
        latest, count, print_ = _thread_state(shown or raws[0]) if raws else ("0", 0, "")
        if before is not None and not raws:
            self._forget(root, before)
        if not raws or (before is None and count == 0):
            return 0
        messages = [message for raw in raws if (message := self._parse(raw, name))]
        known = [part.window for part in before.parts] if before else []
        if messages and not known:
            known = [Window(root, messages[0].at, 1)]  # a thread is identified by its parent, even a deleted one
        old = {part.anchor: part for part in before.parts} if before else {}
        parts = [
            self._report(window, held, old.get(window.anchor), thread=True)
            for window, held in assign(messages, known, gap=None)
        ]
        thread = Thread(latest=latest, count=count, root=print_, turn=turn, parts=parts)
        self._ledger.keep_thread(root, thread, before)
        self._delete(old.keys() - {part.anchor for part in parts})
        self.threads.append((root, micros(latest), turn))
        return micros(latest)

    def close(self) -> None:
        """Finish the page: its windows, and what was deleted in its range."""
        for root in self.ended:
            self._forget(root, self._known[root])
        known = [part.window for part in self._parts.values()]
        now: set[int] = set()
        for window, held in assign(self._outside, known, gap=self._gap, taken=frozenset(self._roots)):
            before = self._parts.get(window.anchor)
            self._ledger.keep_window(self._report(window, held, before, thread=False), before)
            now.add(window.anchor)
        gone = [part for anchor, part in self._parts.items() if anchor not in now]
        for part in gone:
            self._ledger.drop_window(part)
        self._delete({part.anchor for part in gone} - self._roots.keys())
        self._deleted -= {self.channel.source_id(anchor) for anchor in now}
        self._roots, self._known, self._parts, self._outside = {}, {}, {}, []

    def batch(self, cursor: str, kind: Kind, turn: int, *, begins: bool = False) -> Batch:
        """Return what was found since the last batch; `begins` as in `Batch`."""
        memory, files = self._ledger.take(turn)
        found, deleted = self._found, self._deleted | {self.channel.source_id(file) for file in files}
        self._found, self._deleted = {}, set()
        return Batch(
            partition=self.channel.id,
            seen=[one for one in found.values() if isinstance(one, Item)],
            refused=[one for one in found.values() if isinstance(one, Refusal)],
            deleted=sorted(deleted - found.keys()),
            permissions=self.channel.permissions,
            memory=memory,
            title=self.channel.title,
            cursor=cursor,
            listing=kind,
            begins=begins,
        )

    def _parse(self, raw: dict[str, Any], thread: str | None = None) -> IndexedMessage | None:
        return parse_message(raw, self._names, own_bot=self._own_bot, thread=thread)

    def _report(self, window: Window, held: Sequence[IndexedMessage], before: Part | None, *, thread: bool) -> Part:
        """Report a document unless it is unchanged; always report its files, so that a failed one is retried."""
        held = [msgspec.structs.replace(message, files=self._complete(message.files)) for message in held]
        document = conversation(self.channel, window.anchor, held, thread=thread)
        if before is None or self._everything or before.seal != document.seal:
            self._found[document.item.source_id] = document.item
            self._contents[document.item.source_id] = document.content
        files: dict[str, dict[str, Any]] = {file["id"]: file for message in held for file in message.files}
        for id_, file in files.items():
            name = self._author(str(file.get("user") or ""))
            self._found[self.channel.source_id(id_)] = describe(self.channel, file, name, self._file_limit)
        return Part(anchor=window.anchor, last=window.last, count=window.count, seal=document.seal, files=sorted(files))

    def _complete(self, files: Iterable[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
        """Return files with what Slack says of those of which the message has only a stub; each is asked for once."""
        return tuple(self._asked(file) if file.get("file_access") == STUB else file for file in files)

    def _asked(self, stub: dict[str, Any]) -> dict[str, Any]:
        id_ = stub["id"]
        known = None if self._everything else self._ledger.file(id_)
        if known is None:
            try:
                known = facts(self._client, id_)
            except MissingScopeError:
                return stub
            self._ledger.keep_file(id_, known)
        return known

    def _is_hidden(self, parent: str) -> bool:
        """Return True if the workspace's plan hides a message of the channel."""
        at = micros(parent)
        found, more = self._client.history(self.channel.id, latest=stamp(at + 1), oldest=stamp(at - 1))
        return more and not found

    def _forget(self, root: int, thread: Thread) -> None:
        self._ledger.drop_thread(root, thread)
        self._delete(part.anchor for part in thread.parts)

    def _delete(self, anchors: Iterable[int]) -> None:
        self._deleted |= {self.channel.source_id(anchor) for anchor in anchors}


def _thread_state(raw: dict[str, Any]) -> tuple[str, int, str]:
    """Return the state of a thread according to its parent: last reply, number of replies, and a hash of the parent itself."""
    return str(raw.get("latest_reply") or "0"), int(raw.get("reply_count") or 0), fingerprint(raw)
