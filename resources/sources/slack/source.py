"""The source `slack`: each channel that the app can read is a partition; threads, conversations and shared files are documents.

One instance serves one sync.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from resources.core.domain import Batch, Item, SourceName
from resources.core.durations import duration
from resources.core.errors import (
    AbortSyncError,
    ConfigurationError,
    FailedDocumentError,
    LostPartitionError,
    RetryLaterError,
)
from resources.core.ports import Memory, Source
from resources.core.retrying import Tally
from resources.rates.pace import shared_pace
from resources.settings import Settings
from resources.sources.slack import directory, permissions
from resources.sources.slack.budget import RereadBudget
from resources.sources.slack.channels import ChannelSync
from resources.sources.slack.client import HISTORY_LIMIT, LIST_LIMIT, SlackClient
from resources.sources.slack.documents import MIME_TYPE, ChannelInfo
from resources.sources.slack.files import Downloads
from resources.sources.slack.ledger import Ledger
from resources.sources.slack.mentions import Mentions
from resources.sources.slack.render import NameLookups
from resources.sources.slack.settle import ChannelBatchBuilder
from resources.stores.postgres import session
from sql.people import People
from sql.sources import Events

NO_USERGROUPS = (
    "Slack's user groups are not read: add the scope usergroups:read to the app and install it again (docs/groups.md)."
)
PROBES = 5
"""Archived channels that one sync tries to read for the first time."""
CURRENT_SECONDS = 60
"""A public channel is looked up again before it is read if the list of channels is older."""
SECOND = timedelta(microseconds=1)


class TokenIdentity(NamedTuple):
    team: str
    """The workspace's id."""
    url: str
    """The workspace's address, with a slash at the end."""
    bot: str
    """Empty for a person's token."""


class Slack(Source):
    """`resources.core.ports.Source` over Slack's Web API. `page` is the maximum number of messages per response.

    `timer`, `sleep` and `rng` replace time and randomness in tests.
    """

    fetchers = 8

    def __init__(
        self,
        settings: Settings,
        memory: Memory,
        *,
        timer: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        rng: random.Random | None = None,
        page: int = HISTORY_LIMIT,
    ) -> None:
        if settings.slack_bot_token is None:
            raise ConfigurationError("CONCORDANCE_SLACK_BOT_TOKEN is not set; docs/slack.md explains how to get one.")
        token = settings.slack_bot_token.get_secret_value()
        self._settings = settings
        self._memory = memory
        self._rng = rng
        self._timer = timer
        self._listed_at = 0.0
        self._tally = Tally()
        self._client = SlackClient(
            token,
            settings.slack_api_url,
            self._tally,
            waits=settings.retry_seconds,
            timer=timer,
            sleep=sleep,
            page=page,
            pace=shared_pace(settings.postgres_dsn),
        )
        limit = settings.max_file_bytes
        self._downloads = Downloads(token, settings.slack_api_url, self._tally, self._client.limiter, limit)
        self._reads_unjoined = token.startswith("xoxp-")
        self._contents: dict[str, dict[str, bytes]] = {}
        self._lock = threading.RLock()
        self._note: str | None = None

    @property
    def name(self) -> SourceName:
        return SourceName.SLACK

    @property
    def tally(self) -> Tally:
        return self._tally

    def partitions(self) -> list[str]:
        with self._lock:
            return sorted(self._readable)

    def lost(self, known: list[str]) -> list[str]:
        """Return the channels that no longer exist, or from which the app was removed."""
        return sorted(set(known).difference(self.partitions()))

    def directory(self) -> list[tuple[str, str]]:
        """Return (email, `slack:TEAM`) of each full member, and (email, `group:HANDLE@WORKSPACE`) of those in user groups.

        Guests, users of connected workspaces and bots are left out.
        """
        with self._lock:
            found = [(email, permissions.workspace(self._team)) for email in self._people.members()]
            groups, self._note = self._usergroups
            found += directory.memberships(self._people, groups or (), urlsplit(self._url).hostname or "")
        return found

    def subscribe(self) -> None:
        """Note what events are understood by: accounts' addresses, and the app that the bot belongs to. Asks once for each bot."""
        bot = self._identity.bot
        accounts = [{"account": account, "email": email} for account, email in self._people.accounts()]
        with session(self._settings.postgres_dsn, autocommit=True) as connection:
            People(connection, self.name.value).note(note=self._note)
            registry = Events(connection)
            registry.keep_accounts(source=self.name.value, rows=accounts)
            known = registry.app(source=self.name.value)
            if known is None or known.bot_id == bot:
                return
            try:
                app = self._client.call("bots.info", bot=bot).get("bot", {}).get("app_id") if bot else None
            except (AbortSyncError, RetryLaterError) as error:
                note = f"The app that the bot belongs to is not known, so events of any app count. {error}"
                self._warn(note)
                return
            registry.save_app(source=self.name.value, bot_id=bot, app_id=app)

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        """Yield what changed in a channel since `cursor`, including its readers; see `resources.sources.slack.channels`."""
        contents = self._contents.setdefault(partition, {})
        try:
            for batch in self._sync(partition, contents).changes(cursor):
                yield batch
                contents.clear()  # the caller has processed this batch when it asks for the next
        finally:
            self._contents.pop(partition, None)

    def fetch(self, item: Item) -> Iterator[bytes]:
        """Yield a conversation as it was just read, or a file's bytes from Slack."""
        if item.mime_type != MIME_TYPE:
            yield from self._downloads.read(item)
            return
        content = self._contents.get(item.partition, {}).get(item.source_id)
        if content is None:
            raise FailedDocumentError("Its messages are no longer in memory; sync the channel again.")
        yield content

    @cached_property
    def _usergroups(self) -> tuple[list[dict[str, Any]] | None, str | None]:
        """Return the user groups if they can be read, and what is to be said if not: a workspace may do without."""
        try:
            groups = directory.usergroups(self._client)
        except (AbortSyncError, RetryLaterError) as error:  # the token is good, as the members were just read with it
            self.groups_unread = True
            note = f"Slack's user groups could not be read; those read before count until they are too old. {error}"
            self._warn(note)
            return None, note
        return groups, NO_USERGROUPS if groups is None else None

    def _sync(self, partition: str, contents: dict[str, bytes]) -> ChannelSync:
        with self._lock:
            raw = self._readable.get(partition)
            if raw is None:
                raise LostPartitionError("Slack no longer lists the channel, or the app is not in it: invite the app.")
            ledger = Ledger(self._memory, partition)
            events = ledger.events()
            old = self._timer() - self._listed_at > CURRENT_SECONDS
            if any(event.all for event in events) or (old and not raw.get("is_private")):
                raw = self._current(partition)
            channel = self._channel(raw)
            mentions = Mentions(self._public_channels)
            names = NameLookups(
                author=self._people.name,
                person=self._people.own_name,
                channel=mentions.name,
                group=self._group_name,
                stranger=self._strangers.name,
            )
            budget, author = self._budget, self._people.name
        gap = timedelta(minutes=self._settings.slack_window_minutes) // SECOND
        builder = ChannelBatchBuilder(
            channel,
            self._client,
            ledger,
            names,
            contents,
            gap=gap,
            file_limit=self._settings.max_file_bytes,
            author=author,
            own_bot=self._identity.bot,
        )
        lookback = duration(self._settings.slack_lookback) // SECOND
        return ChannelSync(
            self._client, ledger, builder, budget, mentions, events, self._warn, gap=gap, lookback=lookback
        )

    def _current(self, channel: str) -> dict[str, Any]:
        """Return the current state of a channel: the list may be older than an event. Raises `LostPartitionError`."""
        raw: dict[str, Any] = self._client.call("conversations.info", channel=channel)["channel"]
        if not (raw.get("is_member") or raw.get("is_archived") or self._reads_unjoined):
            raise LostPartitionError("The app is not in the channel: invite the app.")
        return raw

    def _channel(self, raw: dict[str, Any]) -> ChannelInfo:
        private = bool(raw.get("is_private"))
        members: list[str] = []
        if permissions.needs_members(private=private, people=self._people):
            try:
                members = self._client.members(raw["id"])
            except LostPartitionError:
                if private:
                    raise  # its readers are unknown, so it may not be shown to anyone
        return ChannelInfo(
            team=self._team,
            url=self._url,
            id=raw["id"],
            name=str(raw.get("name") or raw["id"]),
            private=private,
            archived=bool(raw.get("is_archived")),
            permissions=permissions.readers(self._team, private=private, members=members, people=self._people),
        )

    @cached_property
    def _identity(self) -> TokenIdentity:
        answer = self._client.call("auth.test")
        team, url = str(answer.get("team_id") or ""), str(answer.get("url") or "")
        if not team or not url.startswith(("https://", "http://")):
            raise AbortSyncError("Slack's auth.test does not name the workspace of the token.")
        return TokenIdentity(team, url.rstrip("/") + "/", str(answer.get("bot_id") or ""))

    @property
    def _team(self) -> str:
        return self._identity.team

    @property
    def _url(self) -> str:
        return self._identity.url

    @cached_property
    def _people(self) -> directory.SlackPeople:
        return directory.load(self._client, self._team)

    @cached_property
    def _strangers(self) -> directory.Strangers:
        return directory.Strangers(self._client, self._warn)

    def _group_name(self, group: str) -> str | None:
        """Return the handle of a user group; groups are read when the first is mentioned."""
        with self._lock:
            return self._group_names.get(group)

    @cached_property
    def _group_names(self) -> dict[str, str]:
        return directory.group_names(self._usergroups[0] or ())

    def _warn(self, text: str) -> None:
        with self._lock:
            if text not in self.warnings:
                self.warnings = [*self.warnings, text]

    @cached_property
    def _listed(self) -> dict[str, dict[str, Any]]:
        """Every channel that Slack lists, by id."""
        self._listed_at = self._timer()
        found = self._client.pages(
            "conversations.list",
            "channels",
            types="public_channel,private_channel",
            exclude_archived="false",
            limit=LIST_LIMIT,
        )
        return {raw["id"]: raw for raw in found}

    @cached_property
    def _readable(self) -> dict[str, dict[str, Any]]:
        """The readable channels, by id.

        Slack lists private channels only to their members. Public channels that the app is not in are not readable with an app's token.
        Archived channels have no members, and only trying shows whether a former member app can still read one: Source:
        https://docs.slack.dev/reference/methods/conversations.history (not_in_channel).
        """
        open_: dict[str, dict[str, Any]] = {}
        unknown: list[str] = []
        for id_, raw in self._listed.items():
            if raw.get("is_member") or raw.get("is_private") or self._reads_unjoined:
                open_[id_] = raw
            elif raw.get("is_archived"):
                if Ledger(self._memory, id_).turn():
                    open_[id_] = raw
                else:
                    unknown.append(id_)
        rng = self._rng or random.Random()  # noqa: S311 - fairness, not secrecy
        for id_ in rng.sample(unknown, min(PROBES, len(unknown))):
            if self._answers(id_):
                open_[id_] = self._listed[id_]
        return open_

    def _answers(self, channel: str) -> bool:
        """Return True if a channel can be read. An error of another kind shows elsewhere, if it concerns more than this channel."""
        try:
            self._client.history(channel, limit=1)
        except (LostPartitionError, AbortSyncError, RetryLaterError):
            return False
        return True

    @cached_property
    def _budget(self) -> RereadBudget:
        return RereadBudget(sorted(self._readable), rng=self._rng)

    @cached_property
    def _public_channels(self) -> dict[str, str]:
        """Names of the channels that every member of the workspace can see, by id."""
        return {
            id_: str(raw["name"]) for id_, raw in self._listed.items() if raw.get("name") and not raw.get("is_private")
        }
