"""Parts of the Slack connector that need no Slack: rates, users, readers of channels, files, turns."""

from __future__ import annotations

import random
from typing import Any

import pytest

from resources.core.domain import Item, Refusal
from resources.sources.slack.budget import RereadBudget
from resources.sources.slack.client import is_slack
from resources.sources.slack.directory import SlackPeople
from resources.sources.slack.documents import TITLE_LENGTH, ChannelInfo, conversation, title
from resources.sources.slack.files import describe
from resources.sources.slack.messages import IndexedMessage
from resources.sources.slack.paces import BURST, RateLimiter
from resources.sources.slack.permissions import needs_members, readers

TEAM = "T1"
CHANNEL = ChannelInfo(team=TEAM, url="https://larkmoor.slack.com/", id="C1", name="mill", permissions=("slack:T1",))


class Clock:
    """Time that passes only during sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_a_rate_limit_delays_every_caller_of_the_method() -> None:
    clock = Clock()
    limiter = RateLimiter(timer=clock, sleep=clock.sleep)
    limiter.block("conversations.history", 30)
    limiter.block("conversations.history", 10)
    limiter.wait("users.list")
    assert clock.now == 1000
    limiter.wait("conversations.history")
    assert clock.now == 1030


def test_published_rates_pace_calls() -> None:
    clock = Clock()
    limiter = RateLimiter({"conversations.history": 50}, timer=clock, sleep=clock.sleep)
    for _ in range(BURST):
        limiter.wait("conversations.history")
    assert clock.now == 1000
    for _ in range(100):
        limiter.wait("conversations.history")
    assert clock.now == pytest.approx(1000 + 100 * 60 / 50, abs=1.3)


@pytest.mark.parametrize("host", ["slack.com", "files.slack.com", "larkmoor.slack.com"])
def test_slacks_own_hosts(host: str) -> None:
    assert is_slack(host)


@pytest.mark.parametrize("host", ["", "evilslack.com", "slack.com.evil.example", "127.0.0.1"])
def test_other_hosts(host: str) -> None:
    assert not is_slack(host)


def _account(user: str, **more: Any) -> dict[str, Any]:
    account = {"id": user, "team_id": TEAM, "profile": {"real_name": user.title(), "email": f"{user}@A.example"}}
    return {**account, "is_email_confirmed": True, **more}


PEOPLE = SlackPeople(
    TEAM,
    [
        _account("ada"),
        _account("gil", is_restricted=True),
        _account("gus", is_restricted=True, is_ultra_restricted=True),
        _account("dan", deleted=True),
        _account("bot", is_bot=True),
        _account("eve", team_id="T2"),
        _account("stu", is_stranger=True),
        _account("una", is_email_confirmed=False),
        _account("org", team_id="E1", enterprise_user={"teams": [TEAM]}),
        _account("odd", profile={"real_name": "Odd", "email": "no address"}),
        _account("USLACKBOT"),
    ],
)


def test_full_members_alone_are_the_workspace() -> None:
    assert PEOPLE.members() == ["ada@a.example", "org@a.example"]
    assert PEOPLE.name("dan") == "Dan"
    assert PEOPLE.name("zoe") is None


EVERYONE = ["ada", "gil", "gus", "dan", "bot", "eve", "stu", "una", "org", "odd", "USLACKBOT", "zoe"]


def test_who_reads_a_channel() -> None:
    guests = ("gil@a.example", "gus@a.example")
    assert readers(TEAM, private=False, members=EVERYONE, people=PEOPLE) == (*guests, "slack:T1")
    assert readers(TEAM, private=True, members=EVERYONE, people=PEOPLE) == ("ada@a.example", *guests, "org@a.example")
    assert readers(TEAM, private=True, members=[], people=PEOPLE) == ()
    assert needs_members(private=False, people=PEOPLE)
    assert not needs_members(
        private=False, people=SlackPeople(TEAM, [_account("ada"), _account("x", is_restricted=True, deleted=True)])
    )


def _message(text: str, **more: Any) -> IndexedMessage:
    return IndexedMessage(at=1731234567000100, ts="1731234567.000100", user="U1", name="Ada", text=text, **more)


def test_titles_are_short() -> None:
    assert title(CHANNEL, _message("Good\nmorning")) == "#mill: Good morning"
    assert title(CHANNEL, _message("", files=({"id": "F1", "title": "Plan"},))) == "#mill: Plan"
    long = title(CHANNEL, _message("word " * 40))
    assert len(long) <= TITLE_LENGTH
    assert long.endswith("word…")
    assert len(title(CHANNEL, _message("x" * 200))) == TITLE_LENGTH


def test_renaming_a_channel_changes_no_content() -> None:
    first = conversation(CHANNEL, 1, [_message("Hi")], thread=False)
    second = conversation(
        ChannelInfo(team=TEAM, url=CHANNEL.url, id="C1", name="rye"), 1, [_message("Hi")], thread=False
    )
    assert first.content == second.content
    assert first.item.version == second.item.version
    assert first.seal != second.seal


FILE: dict[str, Any] = {
    "id": "F1",
    "name": "plan.md",
    "title": "The plan",
    "mimetype": "text/markdown",
    "mode": "hosted",
    "size": 10,
    "created": 1731234567,
    "timestamp": 1731234567,
    "permalink": "https://larkmoor.slack.com/files/U1/F1/plan.md",
    "url_private_download": "https://files.slack.com/files-pri/T1-F1/download/plan.md",
}


def test_a_file_is_a_document_of_its_channel() -> None:
    item = describe(CHANNEL, FILE, "Ada", 100)
    assert isinstance(item, Item)
    assert (item.source_id, item.title, item.path, item.mime_type) == (
        "T1/C1/F1",
        "The plan",
        "#mill/plan.md",
        "text/markdown",
    )
    assert (item.permissions, item.collection_ids, item.url) == (("slack:T1",), ("C1",), FILE["permalink"])
    changed = describe(CHANNEL, {**FILE, "size": 11}, "Ada", 100)
    assert isinstance(changed, Item)
    assert changed.version != item.version


@pytest.mark.parametrize(
    ("name", "mime_type"), [("fix.xyz", "text/plain"), ("fix", "text/plain"), ("fix.rs", "text/x-source")]
)
def test_snippets_are_text(name: str, mime_type: str) -> None:
    item = describe(CHANNEL, {**FILE, "name": name, "mode": "snippet", "mimetype": "text/plain"}, None, 100)
    assert isinstance(item, Item)
    assert item.mime_type == mime_type


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        ({"mode": "external", "is_external": True}, "outside Slack"),
        ({"mode": "hidden_by_limit"}, "plan"),
        ({"file_access": "access_denied"}, "connected workspace"),
        ({"file_access": "check_file_info"}, "files:read"),
        ({"mode": "list"}, "as a list"),
        ({"name": "film.mp4"}, ".mp4"),
        ({"name": "film", "mimetype": "video/mp4"}, "video/mp4"),
        ({"size": 101}, "too large"),
        ({"url_private_download": "", "url_private": ""}, "URL"),
    ],
)
def test_files_that_cannot_be_indexed(fact: dict[str, Any], reason: str) -> None:
    refusal = describe(CHANNEL, {**FILE, **fact}, "Ada", 100)
    assert isinstance(refusal, Refusal)
    assert reason in refusal.reason


def test_few_channels_share_the_calls() -> None:
    budget = RereadBudget(["a", "b", "c"], calls=20)
    assert budget.has_turn("a")
    assert budget.share("a") == 7
    assert not budget.has_turn("a")
    budget.spend(1)
    assert budget.share("b") == 10
    budget.spend(10)
    assert budget.share("c") == 9
    assert budget.share("c") == 0


def test_with_many_channels_each_gets_its_turn_in_time() -> None:
    channels = [f"C{number}" for number in range(100)]
    rng = random.Random(1)
    turned: set[str] = set()
    for _ in range(60):
        budget = RereadBudget(channels, calls=20, rng=rng)
        chosen = [channel for channel in channels if budget.has_turn(channel)]
        assert len(chosen) == 20
        assert sum(budget.share(channel) for channel in channels) >= 20
        turned.update(chosen)
    assert turned == set(channels)
