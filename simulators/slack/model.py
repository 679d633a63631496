"""A simulated Slack workspace in memory: user actions as methods, and the expected state of an index over it. No network here.

Each public method is one user action in Slack. Channels and users are given by id or, for convenience, by name. Tests compare an
index with `messages()` and `readers()`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from simulators.slack import events
from simulators.slack.directory import SimulatedDirectory, locked
from simulators.slack.records import SimulatedMessage, SlackFile, Truth, to_micros, to_ts
from simulators.slack.timeline import Timeline


@dataclass(slots=True)
class SimulatedChannel:
    id: str
    name: str
    creator: str
    created: int
    private: bool = False
    direct: bool = False
    archived: bool = False
    topic: str = ""
    purpose: str = ""
    updated: int = 0
    members: set[str] = field(default_factory=set[str])
    denied: str = ""
    """Error code that reading the channel is refused with."""
    timeline: Timeline = field(default_factory=Timeline)


class Workspace(SimulatedDirectory):
    """A workspace with a bot in it. Thread-safe; ids are the same for the same seed; `clock` returns seconds since 1970."""

    def __init__(
        self,
        name: str = "Larkmoor",
        team: str = "T0LARKMOOR",
        domain: str = "larkmoor",
        *,
        clock: Callable[[], float] | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(name, team, domain, clock, seed)
        self.calls: Counter[str] = Counter()
        self.channels: dict[str, SimulatedChannel] = {}
        self.files: dict[str, SlackFile] = {}
        self._shared: defaultdict[str, list[tuple[SimulatedChannel, int]]] = defaultdict(list)
        self._last = 0
        self.hidden_before = 0
        """Older messages are not shown, in microseconds, as on a plan that keeps the last 90 days."""
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        """Told of each event, in its envelope; called under the lock, so they must not wait."""
        self.interactions: list[Callable[[dict[str, Any]], None]] = []
        """Told of each button that is pressed, likewise."""
        self.whispers: list[tuple[str, str, str]] = []
        """Messages that the app showed to one user alone: channel, user and text."""

    # Channels

    @locked
    def channel(
        self,
        name: str,
        members: Iterable[str] = (),
        *,
        private: bool = False,
        bot: bool = True,
        topic: str = "",
        purpose: str = "",
        id: str | None = None,  # noqa: A002 - Slack's word
    ) -> str:
        """Create a channel and return its id; with `bot` the bot is a member from the start."""
        self._free(name)
        joined = {self.find_user(member).id for member in members} | ({self.bot} if bot else set[str]())
        creator = min(joined - {self.bot}, default=self.bot)
        made = SimulatedChannel(
            id or self.new_id("C"), name, creator, self.now(), private, topic=topic, purpose=purpose, members=joined
        )
        self.channels[made.id] = made
        return made.id

    @locked
    def direct(self, user: str) -> str:
        """Return the id of the user's direct messages with the bot; opens them if needed."""
        found = self.find_user(user).id
        known = next((one for one in self.channels.values() if one.direct and found in one.members), None)
        if known is None:
            id_ = self.new_id("D")
            known = SimulatedChannel(id_, id_, found, self.now(), private=True, direct=True, members={found, self.bot})
            self.channels[id_] = known
        return known.id

    @locked
    def join(self, channel: str, user: str) -> None:
        """Add a user to the channel, which Slack notes there."""
        found, member = self.find_channel(channel), self.find_user(user).id
        if member not in found.members:
            found.members.add(member)
            self._event(found, member, "channel_join", f"<@{member}> has joined the channel")
            self._report(found, events.joined(found, member, self.team))

    @locked
    def leave(self, channel: str, user: str) -> None:
        """Remove a user from the channel, which Slack notes there."""
        found, member = self.find_channel(channel), self.find_user(user).id
        if member in found.members:
            self._report(found, events.left(found, member, self.team))
            found.members.remove(member)
            self._event(found, member, "channel_leave", f"<@{member}> has left the channel")
            if member == self.bot:
                self._report(found, events.put_out(found, found.creator), always=True)

    def invite_bot(self, channel: str) -> None:
        """Add the bot: from now on it may read everything, including older messages."""
        self.join(channel, self.bot)

    def remove_bot(self, channel: str) -> None:
        """Remove the bot: it can no longer read the channel, and no longer sees a private one at all."""
        self.leave(channel, self.bot)

    @locked
    def make_private(self, channel: str) -> None:
        """Make a public channel private: its id and its members stay."""
        found = self.find_channel(channel)
        found.private, found.updated = True, self.now()
        self._report(found, events.turned_private(found, found.creator, to_ts(self.now())))

    @locked
    def archive(self, channel: str, *, eject: bool = False) -> None:
        """Archive a channel. With `eject` the bot loses its membership and so its access, as reported for the real Slack.

        Source of `eject`: https://github.com/elastic/connectors/issues/1972
        """
        found = self.find_channel(channel)
        self._event(found, found.creator, "channel_archive", "archived the channel")
        found.archived = True
        self._report(found, events.of_channel(found, "archive", found.creator))
        if eject:
            found.members.discard(self.bot)

    @locked
    def unarchive(self, channel: str) -> None:
        found = self.find_channel(channel)
        found.archived = False
        self._event(found, found.creator, "channel_unarchive", "un-archived the channel")
        self._report(found, events.of_channel(found, "unarchive", found.creator))

    @locked
    def rename(self, channel: str, name: str) -> None:
        found = self.find_channel(channel)
        self._free(name)
        self._event(found, found.creator, "channel_name", f'has renamed the channel from "{found.name}" to "{name}"')
        found.name = name
        self._report(found, events.renamed(found))

    # Messages and files

    @locked
    def hide_before(self, ts: str | float | datetime) -> None:
        """Show no message that is older, as on a free plan. Source: https://slack.com/help/articles/27204752526611"""
        self.hidden_before = to_micros(ts)

    @locked
    def post(
        self,
        channel: str,
        user: str,
        text: str,
        *,
        ts: str | float | datetime | None = None,
        thread: str | None = None,
        broadcast: bool = False,
        files: Sequence[str] = (),
        blocks: list[Any] | None = None,
        attachments: list[Any] | None = None,
        subtype: str | None = None,
    ) -> str:
        """Post a message, or with `thread` a reply, and return its ts.

        `ts` defaults to now. A reply to a reply goes to its parent. `subtype="bot_message"` posts as an integration.
        """
        found, writer = self.find_channel(channel), self.find_user(user).id
        if found.archived:
            raise ValueError(f"#{found.name} is archived: nothing can be written there")
        parent = None if thread is None else found.timeline.root(self._message(found, thread)).micros
        if broadcast:
            if parent is None:
                raise ValueError("only a reply can be broadcast: say which thread")
            subtype = "thread_broadcast"
        shared = tuple(self.files[file].id for file in files)
        micros = self._tick(found) if ts is None else to_micros(ts)
        message = SimulatedMessage(
            micros,
            writer,
            text,
            subtype,
            parent,
            files=shared,
            blocks=blocks,
            attachments=attachments,
            bot_id=self.users[writer].bot_id,
        )
        found.timeline.add(message)
        for file in shared:
            self._shared[file].append((found, micros))
        self._report(found, events.posted(found, message))
        if f"<@{self.bot}>" in text and not found.direct and "app_mentions:read" in self.scopes:
            self._report(found, events.mentioned(found, message))
        return to_ts(micros)

    @locked
    def rewrite(self, channel: str, ts: str, text: str, blocks: list[Any] | None) -> None:
        """Replace a message of the bot."""
        found = self.find_channel(channel)
        message = self._message(found, ts)
        before = events.snapshot(message)
        message.text, message.blocks, message.edited = text, blocks, (message.user, self.now())
        self._report(found, events.changed(found, message, before))

    @locked
    def press(self, channel: str, ts: str, user: str, action: str) -> None:
        """Press a button of a message, named by its `action_id`. Raises `LookupError` if the message has no such button."""
        found, presser = self.find_channel(channel), self.find_user(user)
        pressed = events.pressed(self, found, self._message(found, ts), presser, action)
        for listener in self.interactions:
            listener(pressed)

    @locked
    def edit(
        self,
        channel: str,
        ts: str,
        text: str,
        *,
        blocks: list[Any] | None = None,
        attachments: list[Any] | None = None,
    ) -> None:
        """Replace a message's text, blocks and attachments."""
        found = self.find_channel(channel)
        message = self._message(found, ts)
        if not message.written:
            raise ValueError("a deleted message or an event can't be edited")
        before = events.snapshot(message)
        message.text, message.blocks, message.attachments = text, blocks, attachments
        message.edited = (message.user, self.now())
        self._report(found, events.changed(found, message, before))

    @locked
    def delete(self, channel: str, ts: str) -> None:
        """Delete a message: a parent with replies leaves a tombstone until its replies are deleted."""
        found = self.find_channel(channel)
        message = self._message(found, ts)
        if message.subtype == "tombstone":
            raise ValueError("that message was deleted before")
        before = events.snapshot(message)
        found.timeline.delete(message)
        stays = message.subtype == "tombstone"
        self._report(found, events.changed(found, message, before) if stays else events.deleted(found, ts, before))

    @locked
    def upload(
        self,
        user: str,
        name: str,
        content: bytes | str,
        mimetype: str = "text/plain",
        id: str | None = None,  # noqa: A002
        *,
        mode: str = "hosted",
    ) -> str:
        """Upload a file and return its id; it becomes visible where it is posted. `mode` "quip" makes a canvas, "list" a list."""
        data = content.encode() if isinstance(content, str) else content
        made = SlackFile(id or self.new_id("F"), self.find_user(user).id, name, mimetype, data, self.now(), mode=mode)
        self.files[made.id] = made
        return made.id

    @locked
    def delete_file(self, file: str) -> None:
        """Delete a file everywhere: messages keep its id as a tombstone."""
        places = self.shared_in(file)
        self.files[file].deleted, self.files[file].content = True, b""
        for found in places[:1]:
            self._report(found, {"type": "file_deleted", "file_id": file})

    @locked
    def deny_file(self, file: str) -> None:
        """Keep a file from the app, as the policy of a connected workspace does."""
        self.files[file].denied = True

    # Expected state

    @locked
    def shared_in(self, file: str) -> list[SimulatedChannel]:
        places = [(channel, channel.timeline.get(micros)) for channel, micros in self._shared[file]]
        return [channel for channel, message in places if message is not None and file in message.files]

    @locked
    def readable(self, channel: str) -> bool:
        """Return True if the bot may read the channel: as a member, archived or not."""
        return self.bot in self.find_channel(channel).members

    @locked
    def messages(self, channel: str) -> list[Truth]:
        """Return every existing message written by a user, including replies, oldest first; not those of the app itself."""
        return [
            Truth(
                to_ts(message.micros),
                to_ts(message.parent or message.micros) if message.parent or message.replies else None,
                message.user,
                message.text,
                tuple(file for file in message.files if not self.files[file].deleted),
            )
            for message in self.find_channel(channel).timeline
            if message.written and message.user != self.bot
        ]

    @locked
    def readers(self, channel: str) -> set[str]:
        """Return the principals that may find the channel's content; none if the bot can't read it.

        Public: the workspace, and its guests in the channel by email. Private: members by email. Never users of other workspaces, bots
        or deactivated accounts.
        """
        found = self.find_channel(channel)
        if not self.readable(channel):
            return set()
        inside = [self.users[member] for member in found.members]
        if found.private:
            return {user.email.lower() for user in inside if user.reads and user.email}
        guests = {user.email.lower() for user in inside if user.reads and user.guest and user.email}
        return {f"slack:{self.team}"} | guests

    # Lookups

    def find_channel(self, channel: str) -> SimulatedChannel:
        if channel in self.channels:
            return self.channels[channel]
        for found in self.channels.values():
            if found.name == channel.removeprefix("#"):
                return found
        raise LookupError(f"there is no channel {channel!r}: name it by its id or its name")

    def _message(self, channel: SimulatedChannel, ts: str) -> SimulatedMessage:
        message = channel.timeline.get(to_micros(ts))
        if message is None:
            raise LookupError(f"there is no message {ts} in #{channel.name}")
        return message

    def _free(self, name: str) -> None:
        if any(channel.name == name for channel in self.channels.values()):
            raise ValueError(f"there is already a channel #{name}: choose another name")

    def _event(self, channel: SimulatedChannel, user: str, subtype: str, text: str) -> None:
        channel.updated = self.now()
        if not channel.archived:
            channel.timeline.add(SimulatedMessage(self._tick(channel), user, text, subtype))

    def _report(self, channel: SimulatedChannel, event: dict[str, Any], *, always: bool = False) -> None:
        heard = self.bot in channel.members and (not channel.direct or "im:history" in self.scopes)
        if self.listeners and (always or heard):
            envelope = events.envelope(self, event)
            for listener in self.listeners:
                listener(envelope)

    def _tick(self, channel: SimulatedChannel) -> int:
        self._last = max(self.now(), self._last + 1)
        while self._last in channel.timeline:
            self._last += 1
        return self._last
