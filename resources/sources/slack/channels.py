"""The sync of one channel: read its history, compare it with the ledger, and yield batches.

Slack shows new messages of a channel, but not late replies, edits and deletions; those only show when a range of history, or a
thread, is read again and compared with the ledger. So each sync reads the newest messages and those in the look-back period, one
page further back (in rotation), and some threads, the recently active first. A channel whose history fits one page is read whole
each time, and one with another name, which all of its documents contain, once. What events name is read again whatever its age.
Only times of the channel's own messages are used, never a local clock.
"""

from collections.abc import Callable, Iterator, Sequence

import msgspec

from resources.core.domain import Batch
from resources.core.errors import LostPartitionError
from resources.sources.slack.budget import RereadBudget
from resources.sources.slack.client import SlackClient
from resources.sources.slack.history import HistoryPage, pages
from resources.sources.slack.ledger import Ledger, PendingEvent
from resources.sources.slack.mentions import Mentions
from resources.sources.slack.settle import ChannelBatchBuilder, Kind
from resources.sources.slack.windows import SECOND, micros, stamp

PORTION = 50
"""Threads that are read before their changes are saved."""
LIVELY = 7 * 24 * 3600 * SECOND
"""A thread with a reply in the last week of the channel's activity is checked before others."""
MOST_LIVELY = 200
AHEAD = 10
"""An active thread is read again this many syncs before others; one whose parent was on no page, twice as many."""
MOST_EVENTS = 500
"""Events processed in one sync; more wait for the next one."""
HIDDEN = "Slack hides older messages, as the workspace's plan does: those that were read before are kept as they were."
RENDERING = 1
"""Raise it when a change of the rendering is needed for safety: every channel is then read again from the beginning."""


class ChannelCursor(msgspec.Struct, kw_only=True):
    """Position up to which a channel has been read. Times are microseconds."""

    newest: int = 0
    """The newest message when the channel was last read to the end."""
    turn: int = 0
    listing: bool = False
    """True while a listing from the beginning is under way."""
    walk: int | None = None
    """Reading backwards was interrupted and continues below this time."""
    until: int = 0
    """Value of `newest` once the current reading is complete."""
    whole: bool = False
    """True if the channel's history fits one page."""
    rotate: int | None = None
    """Where the next check of older history begins; None: where the newest part ends."""
    lively: dict[str, tuple[int, int]] = {}
    """Parents of recently active threads: time of the last reply, turn in which the thread was last read."""
    rendering: int = 0
    """Value of `RENDERING` when the channel's documents were rendered."""
    mentioned: list[str] = []
    """Ids of channels whose names the documents contain, sorted."""
    earlier: list[str] = []
    """Likewise, of documents that no listing has replaced since one began."""
    name: str | None = None
    """The channel's name according to the documents; None: this was not kept yet."""
    private: bool | None = None
    """Likewise, whether it is private."""
    unsafe: bool = False
    """True while a listing has yet to replace documents that name a channel which is no longer public, or have an older rendering."""


class ChannelSync:
    """Reads one channel once."""

    def __init__(
        self,
        client: SlackClient,
        ledger: Ledger,
        builder: ChannelBatchBuilder,
        budget: RereadBudget,
        mentions: Mentions,
        events: Sequence[PendingEvent],
        warn: Callable[[str], None],
        *,
        gap: int,
        lookback: int,
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._builder = builder
        self._budget = budget
        self._mentions = mentions
        self._warn = warn
        self._gap = gap
        self._lookback = lookback
        self._seen_from: int | None = None
        """The newest part of history has been read in this sync back to this time."""
        self._seen = 0
        self._events = events
        self._ranges_read: list[tuple[int, int]] = []
        """Ranges of history that were read for events: from (inclusive), to (exclusive)."""
        self._threads_read: set[int] = set()
        self._begins = False
        """True until the first batch of a listing from the beginning."""

    def changes(self, text: str | None) -> Iterator[Batch]:
        """Yield what changed since the cursor `text`; None: everything."""
        cursor = self._start(text)
        for event in self._events:
            if event.file is not None:
                self._ledger.keep_file(event.file, None)
        try:
            if cursor.listing:
                resumed = cursor.walk is not None
                yield from self._list(cursor)
                if not resumed:
                    return
            cursor.turn += 1
            if cursor.walk is not None:
                yield from self._head(cursor)
            yield from self._head(cursor)
            yield from self._read_events(cursor)
            if self._builder.pending:  # it is saved even if older history cannot be read
                yield self._batch(cursor)
            yield from self._rotate(cursor)
            yield from self._reread_threads(cursor)
        except LostPartitionError:
            if not self._builder.channel.archived or self._builder.channel.private or cursor.unsafe:
                raise
            # Slack removes the app from a channel that is archived: the documents stay as they were, like the channel
            cursor.listing, cursor.walk = False, None
            yield self._batch(cursor)

    def _start(self, text: str | None) -> ChannelCursor:
        name, private = self._builder.channel.name, self._builder.channel.private
        if text is None:  # there may be documents: a full sync begins so, too
            before, same = msgspec.convert(self._ledger.shown(), ChannelCursor), False
        else:
            before = msgspec.json.decode(text, type=ChannelCursor)
            same = before.name in (None, name) and before.private in (None, private)
        turn, named = self._ledger.turn(), [*before.mentioned, *before.earlier]
        safe = not turn or (before.rendering == RENDERING and self._mentions.still_public(named))
        if same and safe:
            before.name, before.private = name, private
            return before
        unsafe = before.unsafe or not safe
        return ChannelCursor(
            listing=True,
            turn=turn + 1,
            rendering=RENDERING,
            name=name,
            private=private,
            unsafe=unsafe,
            earlier=[] if unsafe else named,
        )

    def _list(self, cursor: ChannelCursor) -> Iterator[Batch]:
        """Yield the whole history, so that what is on no page is deleted. After an interruption, continue below the last saved page."""
        first = begun = self._begins = cursor.walk is None
        for page in self._pages(high=cursor.walk):
            cursor.until = max(cursor.until, page.newest)
            yield from self._settle(page, cursor, "page")
            if page.last:
                cursor.listing, cursor.walk, cursor.newest, cursor.unsafe = False, None, cursor.until, False
                cursor.earlier = cursor.earlier if page.hidden else []
                cursor.whole = first and not page.hidden
                for event in self._events if begun else ():
                    self._ledger.settle(event)
            else:
                cursor.walk = page.low
            first = False
            if page.hidden:  # the listing has no end, but its readers are those of the whole channel
                yield self._batch(cursor)
            yield self._batch(cursor, "complete" if page.last and not page.hidden else "page")

    def _head(self, cursor: ChannelCursor) -> Iterator[Batch]:
        """Yield new messages and changes within the look-back period, or in the whole channel if it fits one page."""
        floor = self._floor(cursor.newest - self._lookback)
        low = 0 if cursor.whole else floor
        for page in self._pages(high=cursor.walk, low=low):
            cursor.until = max(cursor.until, cursor.newest, page.newest)
            yield from self._settle(page, cursor, "delta")
            done = page.last or page.low <= floor
            cursor.walk = None if done else page.low
            if done:
                cursor.newest, self._seen_from = cursor.until, page.low
                cursor.whole = page.low == 0 and page.high is None
                self._seen = len(page.messages)
                return  # the findings are part of the next batch
            yield self._batch(cursor)

    def _pages(self, *, high: int | None, low: int = 0, drop_hidden: bool = False) -> Iterator[HistoryPage]:
        channel = self._builder.channel.id
        for page in pages(
            self._client, self._ledger, channel, gap=self._gap, high=high, low=low, drop_hidden=drop_hidden
        ):
            if page.hidden:
                self._warn(HIDDEN)
            yield page

    def _floor(self, time: int) -> int:
        """Return the time, or the beginning of the window that contains it."""
        floor = max(0, time)
        return min([window.anchor for window in self._ledger.around(floor, floor)], default=floor)

    def _read_events(self, cursor: ChannelCursor) -> Iterator[Batch]:
        """Yield what events concern: read again the windows and threads of the messages and files that they name."""
        for number, event in enumerate(self._events[:MOST_EVENTS], 1):
            threads, times = self._places(event)
            for at in times:
                if not self._was_read(at):
                    yield from self._read_around(at, cursor)
            for root in threads - self._threads_read:
                self._threads_read.add(root)
                self._builder.read_thread(root, cursor.turn, drop_hidden=True)
            self._ledger.settle(event)
            if number % PORTION == 0:
                yield self._batch(cursor)

    def _was_read(self, at: int) -> bool:
        """Return True if this sync has read a time of the channel itself."""
        recent = self._seen_from is not None and at >= self._seen_from
        return recent or any(low <= at < high for low, high in self._ranges_read)

    def _places(self, event: PendingEvent) -> tuple[set[int], set[int]]:
        """Return the parents of the threads, and the times in the channel itself, that an event concerns."""
        threads, times = set[int](), set[int]()
        for ts in (event.ts, event.thread):
            if ts is not None:
                at = micros(ts)
                times.add(at)
                threads.update(self._ledger.threads(at, at + 1))
        if event.thread is not None:
            threads.add(micros(event.thread))
        for is_thread, at in self._ledger.holders(event.file) if event.file is not None else ():
            (threads if is_thread else times).add(at)
        return threads, times

    def _read_around(self, at: int, cursor: ChannelCursor) -> Iterator[Batch]:
        """Yield the window that contains a time, or just that time."""
        around = self._ledger.around(at, at + 1)
        low = min([at, *(window.anchor for window in around)])
        high = max([at, *(window.last for window in around)]) + 1
        for page in self._pages(high=high, low=low, drop_hidden=True):
            yield from self._settle(page, cursor, "delta")
        self._ranges_read.append((low, high))

    def _rotate(self, cursor: ChannelCursor) -> Iterator[Batch]:
        """Yield what changed in one page of older history."""
        if not self._seen_from or not self._budget.has_turn(self._builder.channel.id):
            return
        start = self._seen_from if cursor.rotate is None else min(cursor.rotate, self._seen_from)
        start = max([window.last + 1 for window in self._ledger.around(start, start)], default=start)
        page = next(self._pages(high=start))
        yield from self._settle(page, cursor, "delta")
        cursor.rotate = None if page.last else page.low
        cursor.whole = page.last and not page.hidden and self._seen + len(page.messages) <= self._client.page

    def _settle(self, page: HistoryPage, cursor: ChannelCursor, kind: Kind) -> Iterator[Batch]:
        """Compare a page with the ledger; threads are read and saved in portions, the rest is left for the caller's batch."""
        builder = self._builder
        due = builder.open(page, everything=kind != "delta", turn=cursor.turn)
        for number, root in enumerate(due, 1):
            builder.read_thread(root, cursor.turn)
            if number % PORTION == 0 and number < len(due):
                yield self._batch(cursor, kind)
        builder.close()
        for root, latest, turn in builder.threads:
            cursor.lively[stamp(root)] = (latest, turn)
        for root in builder.ended:
            cursor.lively.pop(stamp(root), None)
        self._trim(cursor)

    def _reread_threads(self, cursor: ChannelCursor) -> Iterator[Batch]:
        """Read seemingly unchanged threads again: an edited reply shows nowhere else, and one on an old parent not soon."""
        share = self._budget.share(self._builder.channel.id)
        waiting = {root: turn for root, turn in self._builder.unread.items() if turn < cursor.turn}
        order = {root: turn - (AHEAD if stamp(root) in cursor.lively else 0) for root, turn in waiting.items()}
        for name, (_, turn) in cursor.lively.items():
            root = int(name.replace(".", ""))
            if root not in self._builder.shown and turn < cursor.turn:
                order[root] = turn - 2 * AHEAD
        chosen = sorted(order, key=lambda root: (order[root], -root))[:share]
        self._budget.spend(len(chosen))
        for root in chosen:
            latest = self._builder.read_thread(root, cursor.turn)
            cursor.lively.pop(stamp(root), None)
            if latest:
                cursor.lively[stamp(root)] = (latest, cursor.turn)
        self._trim(cursor)
        yield self._batch(cursor)

    def _trim(self, cursor: ChannelCursor) -> None:
        """Keep only recently active threads."""
        if not cursor.lively:
            return
        horizon = max(cursor.newest, *(latest for latest, _ in cursor.lively.values())) - LIVELY
        kept = sorted(cursor.lively.items(), key=lambda one: one[1], reverse=True)[:MOST_LIVELY]
        cursor.lively = {name: value for name, value in kept if value[0] >= horizon}

    def _batch(self, cursor: ChannelCursor, kind: Kind = "delta") -> Batch:
        cursor.mentioned = sorted(self._mentions.shown.union(cursor.mentioned))
        named = sorted({*cursor.mentioned, *cursor.earlier})
        self._ledger.keep_shown({"rendering": cursor.rendering, "mentioned": named, "unsafe": cursor.unsafe})
        begins = self._begins and kind != "delta"
        self._begins = self._begins and not begins
        return self._builder.batch(msgspec.json.encode(cursor).decode(), kind, cursor.turn, begins=begins)
