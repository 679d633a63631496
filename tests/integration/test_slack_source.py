"""The Slack connector against the simulator: what happens in a workspace is findable after the next sync, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from resources.core.errors import AuthorizationError, FailedDocumentError, RetryLaterError, SkipDocumentError
from resources.settings import Settings
from resources.sources.slack import channels, trial
from resources.sources.slack.source import Slack
from simulators.slack import Workspace
from tests.fixtures.slack import SlackSite
from tests.fixtures.slack_index import SlackIndex

NOW = 1_731_234_567
"""The workspace's time in seconds; nothing here depends on the machine's."""
MINUTE, DAY = 60, 86_400


class Office:
    """A workspace with people, its address, and syncs of it into one index."""

    def __init__(self, site: SlackSite) -> None:
        self.site = site
        self.workspace: Workspace = site.workspace
        self.index = SlackIndex()
        self.slept: list[float] = []
        self.ada = self.workspace.user("Ada Byron", "ada@larkmoor.example")
        self.ben = self.workspace.user("Ben Okri", "ben@larkmoor.example")
        self.gil = self.workspace.user("Gil Guest", "gil@agency.example", guest=True)
        self.eve = self.workspace.user("Eve Elsewhere", "eve@elsewhere.example", external=True)
        self.time = float(NOW)

    def source(self, **options: Any) -> Slack:
        settings = Settings(
            _env_file=None,
            slack_bot_token=options.pop("token", self.workspace.token),
            slack_api_url=self.site.url,
            retry_seconds=(1.0, 5.0, 30.0),
        )
        return Slack(settings, self.index, timer=lambda: sum(self.slept), sleep=self.slept.append, **options)

    def sync(self, *, full: bool = False, batches: int | None = None, **options: Any) -> dict[str, int]:
        self.workspace.calls.clear()
        return dict(self.index.sync(self.source(**options), full=full, batches=batches))

    def post(self, channel: str, text: str, *, after: float = MINUTE, user: str | None = None, **more: Any) -> str:
        self.time += after
        return self.workspace.post(channel, user or self.ada, text, ts=self.time, **more)


@pytest.fixture
def office(slack_site: SlackSite) -> Office:
    """Yield an office with no one in any channel yet."""
    return Office(slack_site)


@pytest.fixture
def general(office: Office) -> str:
    """Create a public channel with a conversation, a thread and a file."""
    channel = office.workspace.channel("general", [office.ada, office.ben, office.gil])
    office.post(channel, "Good morning")
    office.post(channel, "The mill opens at nine", user=office.ben)
    root = office.post(channel, "Who orders the flour?", after=2 * 3600)
    office.post(channel, "I do", user=office.ben, thread=root)
    plan = office.workspace.upload(office.ada, "plan.md", "# Plan\n\nGrind the rye.\n", "text/markdown")
    office.post(channel, "Here is the plan", after=DAY, files=[plan])
    return channel


def test_first_sync(office: Office, general: str) -> None:
    secret = office.workspace.channel("secret", [office.ada, office.gil, office.eve], private=True)
    office.post(secret, "Between us")
    office.workspace.channel("closed", [office.ada], bot=False)
    office.sync()
    office.index.check(office.workspace)
    assert set(office.index.cursors) == {general, secret}
    talk, thread, later, file = sorted(office.index.of(general), key=lambda id_: id_.rpartition("/")[2])
    assert talk.startswith(f"T0LARKMOOR/{general}/")
    item = office.index.items[thread]
    assert item.title == "#general: Who orders the flour?"
    assert (item.path, item.author, item.owner) == ("#general", "Ada Byron", None)
    assert item.tags == {
        "channel": "general", "private": False, "thread": True, "participants": ["Ada Byron", "Ben Okri"],
    }  # fmt: skip
    assert item.collection_ids == (general,)
    ts = thread.rpartition("/")[2]
    assert item.url == f"https://larkmoor.slack.com/archives/{general}/p{ts.replace('.', '')}"
    reply = office.index.conversations(general)[thread][1]
    assert reply["anchor"] == f"p{reply['ts'].replace('.', '')}?thread_ts={ts}&cid={general}"
    assert reply["permalink"] == f"https://larkmoor.slack.com/archives/{general}/{reply['anchor']}"
    assert office.index.items[later].title == "#general: Here is the plan"
    assert office.index.contents[file] == b"# Plan\n\nGrind the rye.\n"
    assert office.index.items[file].path == "#general/plan.md"
    assert set(office.index.items[talk].permissions) == {"slack:T0LARKMOOR", "gil@agency.example"}


def test_directory_names_full_members_alone(office: Office) -> None:
    office.workspace.user("Dan Gone", "dan@larkmoor.example", deactivated=True)
    principal = "slack:T0LARKMOOR"
    assert office.source().directory() == [("ada@larkmoor.example", principal), ("ben@larkmoor.example", principal)]


def test_user_groups_name_their_full_members(office: Office) -> None:
    workspace = office.workspace
    guest = workspace.user("Gil Guest", "gil.guest@agency.example", guest=True)
    gone = workspace.user("Dan Gone", "dan@larkmoor.example", deactivated=True)
    bakers = workspace.usergroup("bakers", [office.ada, guest, gone])
    workspace.usergroup("not an address", [office.ada])

    def groups() -> list[tuple[str, str]]:
        return [one for one in office.source().directory() if one[1].startswith("group:")]

    assert groups() == [("ada@larkmoor.example", "group:bakers@larkmoor.slack.com")]
    workspace.usergroup("bakers", [])
    assert groups() == []
    workspace.usergroup("bakers", [office.ada])
    workspace.disable_usergroup(bakers)
    assert groups() == []


def test_what_the_app_itself_writes_is_not_indexed(office: Office) -> None:
    general = office.workspace.channel("general", [office.ada, office.ben])
    asked = office.post(general, "When is lunch?", user=office.ada)
    office.post(general, "At noon, says the bot.", user=office.workspace.bot, thread=asked)
    office.post(general, "Thanks.", user=office.ada, thread=asked)
    robot = office.workspace.user("Robot", None, bot=True)
    office.post(general, "Build failed.", user=robot)
    office.sync()
    said = [message["text"] for held in office.index.conversations(general).values() for message in held]
    assert sorted(said) == ["Build failed.", "Thanks.", "When is lunch?"]
    office.index.check(office.workspace)


def said(office: Office, channel: str) -> list[tuple[str, str]]:
    """Return (name, text) of every message of a channel's documents."""
    held = office.index.conversations(channel).values()
    return sorted((one["name"], one["text"]) for messages in held for one in messages)


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def test_apps_are_read_by_their_blocks_and_an_edit_of_these_alone_is_noticed(office: Office) -> None:
    workspace = office.workspace
    general = workspace.channel("general", [office.ada])
    pager = workspace.user("PagerDuty", None, bot=True)
    root = office.post(
        general, "New incident", user=pager, blocks=[section("*Disk full* on mill 3: <@" + office.ada + ">")]
    )
    office.post(general, "On it", user=office.ada, thread=root)
    alone = office.post(general, "Deploy", user=pager, blocks=[section("heron 1.2 to production")])
    office.sync()
    texts = [
        ("Ada Byron", "On it"),
        ("PagerDuty", "Disk full on mill 3: @Ada Byron"),
        ("PagerDuty", "heron 1.2 to production"),
    ]
    assert said(office, general) == texts
    workspace.edit(general, root, "New incident", blocks=[section("Solved")])
    workspace.edit(general, alone, "Deploy", blocks=[section("heron 1.2 rolled back")])
    office.sync()
    assert said(office, general) == [texts[0], ("PagerDuty", "Solved"), ("PagerDuty", "heron 1.2 rolled back")]


def test_user_groups_are_named_once_and_their_names_are_read_for_all_channels_together(office: Office) -> None:
    workspace = office.workspace
    bakers, gone = workspace.usergroup("bakers", [office.ada]), workspace.usergroup("millers", [office.ada])
    workspace.disable_usergroup(gone)
    for name in ("general", "ops"):
        office.post(workspace.channel(name, [office.ada]), f"<!subteam^{bakers}|@bakers> and <!subteam^{gone}>")
    office.sync()
    for name in ("general", "ops"):
        channel = workspace.find_channel(name).id
        assert said(office, channel) == [("Ada Byron", "@bakers and a user group")]
    assert workspace.calls["usergroups.list"] == 1


def test_authors_from_connected_workspaces_are_asked_for_once(office: Office) -> None:
    workspace = office.workspace
    general = workspace.channel("general", [office.ada])
    zoe = workspace.user("Zoe Far", "zoe@far.example", external=True, listed=False)
    workspace.join(general, zoe)
    office.post(general, "Hello from afar", user=zoe)
    office.post(general, f"Thank you <@{zoe}>", user=office.ada)
    office.post(general, "The contract is signed", user=zoe, after=DAY)
    office.sync()
    assert workspace.calls["users.info"] == 1
    assert said(office, general) == [
        ("Ada Byron", "Thank you somebody outside of the workspace"),
        ("Zoe Far", "Hello from afar"),
        ("Zoe Far", "The contract is signed"),
    ]
    office.site.faults.add("server_error", times=0, match="users.info")
    source = office.source()
    office.index.sync(source, full=True)
    assert [text for name, text in said(office, general) if name == zoe] == [
        "Hello from afar",
        "The contract is signed",
    ]
    assert len(source.warnings) == 1


def test_canvases_are_read_and_lists_are_refused_once(office: Office) -> None:
    workspace = office.workspace
    channel = workspace.channel("ops", [office.ada])
    page = "<h1>Runbook</h1><p>Restart the mill before noon.</p>"
    canvas = workspace.upload(office.ada, "Runbook", page, "application/vnd.slack-docs", mode="quip")
    tasks = workspace.upload(office.ada, "Tasks", "{}", "application/vnd.slack-list", mode="list")
    root = office.post(channel, "Both are here")
    office.post(channel, "Look", thread=root, files=[canvas, tasks])
    office.sync()
    item = office.index.items[f"T0LARKMOOR/{channel}/{canvas}"]
    assert (item.mime_type, b"".join(office.source().fetch(item))) == ("text/html", page.encode())
    assert "as a list" in office.index.refused[f"T0LARKMOOR/{channel}/{tasks}"].reason
    workspace.set_scopes(workspace.scopes - {"files:read"})
    with pytest.raises(FailedDocumentError, match="files:read"):
        list(office.source().fetch(item))


def test_a_token_without_the_scope_for_user_groups_keeps_working(office: Office) -> None:
    office.workspace.usergroup("bakers", [office.ada])
    office.workspace.set_scopes(office.workspace.scopes - {"usergroups:read"})
    assert {principal for _, principal in office.source().directory()} == {"slack:T0LARKMOOR"}
    office.workspace.set_scopes(office.workspace.scopes | {"usergroups:read"})
    office.site.faults.add("server_error", times=0, match="usergroups.list")
    source = office.source()
    assert {principal for _, principal in source.directory()} == {"slack:T0LARKMOOR"}
    assert (source.groups_unread, len(source.warnings)) == (True, 1)


def test_nothing_changed(office: Office, general: str) -> None:
    secret = office.workspace.channel("secret", [office.ada], private=True)
    for number in range(30):
        office.workspace.post(general, office.ada, "late", thread=office.post(secret and general, f"Topic {number}"))
    office.sync()
    office.sync()
    calls = office.sync()
    assert office.index.fetched == []
    replies = calls.pop("conversations.replies")
    assert replies <= 20
    assert calls == {
        "auth.test": 1,
        "users.list": 1,
        "conversations.list": 1,
        "conversations.history": 2,
        "conversations.members": 2,  # one private channel, and guests in the workspace
    }


Mutation = Callable[[Office, str], Any]


def _first(office: Office, channel: str) -> str:
    return office.workspace.messages(channel)[0].ts


def _root(office: Office, channel: str) -> str:
    return next(m.thread_ts for m in office.workspace.messages(channel) if m.thread_ts)  # type: ignore[return-value]


def _reply(office: Office, channel: str) -> str:
    return next(m.ts for m in office.workspace.messages(channel) if m.thread_ts not in {None, m.ts})


def _file(office: Office, channel: str) -> str:
    return next(m.files[0] for m in office.workspace.messages(channel) if m.files)


def _share(office: Office, channel: str) -> None:
    file = office.workspace.upload(office.ben, "prices.csv", "corn,price\nrye,3\n", "text/csv")
    office.post(channel, "", files=[file])


MUTATIONS: dict[str, tuple[Mutation, int]] = {
    "message after a pause": (lambda o, c: o.post(c, "Hello", after=3600), 1),
    "message that follows on": (lambda o, c: o.post(c, "And that is it", after=MINUTE), 1),
    "edit": (lambda o, c: o.workspace.edit(c, _first(o, c), "Good evening"), 1),
    "delete": (lambda o, c: o.workspace.delete(c, _first(o, c)), 1),
    "delete a whole window": (lambda o, c: [o.workspace.delete(c, m.ts) for m in o.workspace.messages(c)[:2]], 0),
    "reply starts a thread": (lambda o, c: o.workspace.post(c, o.ben, "Indeed", thread=_first(o, c)), 2),
    "late reply after 60 days": (lambda o, c: o.post(c, "Still me", after=60 * DAY, thread=_root(o, c)), 1),
    "late reply, broadcast": (lambda o, c: o.post(c, "All!", after=DAY, thread=_root(o, c), broadcast=True), 1),
    "edit of a parent": (lambda o, c: o.workspace.edit(c, _root(o, c), "Who orders the rye?"), 1),
    "edit of a reply": (lambda o, c: o.workspace.edit(c, _reply(o, c), "Ben does"), 1),
    "delete of the only reply": (lambda o, c: o.workspace.delete(c, _reply(o, c)), 1),
    "delete of a parent": (lambda o, c: o.workspace.delete(c, _root(o, c)), 1),
    "delete of a thread": (lambda o, c: [o.workspace.delete(c, ts) for ts in (_root(o, c), _reply(o, c))], 0),
    "file shared": (_share, 2),
    "file deleted": (lambda o, c: o.workspace.delete_file(_file(o, c)), 1),
    "message with a file deleted": (lambda o, c: o.workspace.delete(c, o.workspace.messages(c)[-1].ts), 0),
    "member joins": (lambda o, c: o.workspace.join(c, o.workspace.user("Joe", "joe@larkmoor.example")), 0),
    "guest leaves": (lambda o, c: o.workspace.leave(c, o.gil), 0),
    "made private": (lambda o, c: o.workspace.make_private(c), 0),
    "archived": (lambda o, c: o.workspace.archive(c), 0),
    "renamed": (lambda o, c: o.workspace.rename(c, "mill"), 0),
    "member deactivated": (lambda o, _: o.workspace.deactivate(o.ben), 0),
    "app put out": (lambda o, c: o.workspace.remove_bot(c), 0),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_mutation(office: Office, general: str, name: str) -> None:
    mutate, again = MUTATIONS[name]
    office.sync()
    mutate(office, general)
    office.sync()
    office.index.check(office.workspace)
    assert len(office.index.fetched) == again
    office.sync()
    office.index.check(office.workspace)
    assert office.index.fetched == []


def test_private_channel_follows_its_members(office: Office) -> None:
    channel = office.workspace.channel("secret", [office.ada, office.gil, office.eve], private=True)
    office.post(channel, "Between us")
    office.sync()
    office.workspace.join(channel, office.ben)
    office.workspace.leave(channel, office.gil)
    office.sync()
    (item,) = office.index.items.values()
    assert set(item.permissions) == {"ada@larkmoor.example", "ben@larkmoor.example"}
    assert office.index.fetched == []


def test_app_comes_back(office: Office, general: str) -> None:
    office.sync()
    office.workspace.remove_bot(general)
    office.sync()
    assert office.index.hidden == {general}
    office.post(general, "While it was away")
    office.workspace.invite_bot(general)
    office.sync()
    office.index.check(office.workspace)


def test_archived_channel_that_put_the_app_out_stays(office: Office, general: str) -> None:
    office.sync()
    before = office.index.conversations(general)
    office.workspace.archive(general, eject=True)
    office.sync()
    office.sync(full=True)
    assert office.index.conversations(general) == before
    assert office.index.hidden == set()


@pytest.mark.parametrize("killed", [False, True])
def test_archived_channel_that_names_a_channel_which_became_private_is_hidden_once_it_cannot_be_read(
    office: Office, general: str, *, killed: bool
) -> None:
    plans = office.workspace.channel("merger-plans", [office.ada])
    office.post(general, f"More in <#{plans}>")
    for number in range(8):
        office.post(general, f"Line {number}", after=DAY)
    office.sync()
    assert any("merger-plans" in one["text"] for held in office.index.conversations(general).values() for one in held)
    office.workspace.make_private(plans)
    if killed:
        office.sync(page=3, batches=1)
    office.workspace.archive(general, eject=True)
    office.sync()
    assert office.index.hidden == {general}


@pytest.mark.parametrize("sequence", ["listed before", "listed after", "killed", "renamed before"])
def test_a_listing_from_the_beginning_keeps_what_an_archived_channel_names(
    office: Office, general: str, sequence: str
) -> None:
    plans = office.workspace.channel("merger-plans", [office.ada])
    office.post(general, f"More in <#{plans}>")
    for number in range(8):
        office.post(general, f"Line {number}", after=DAY)
    office.sync()
    if sequence == "killed":
        office.workspace.make_private(plans)
        office.sync(page=3, batches=1)
    if sequence == "renamed before":
        office.workspace.rename(general, "all")
    office.workspace.archive(general, eject=True)
    if sequence == "listed before":
        office.sync(full=True)
    if sequence == "renamed before":
        office.sync()
    if sequence != "killed":
        assert office.index.hidden == set()
        office.workspace.make_private(plans)
    office.sync(full=sequence in {"listed after", "killed"})
    assert office.index.hidden == {general}


def test_archived_channel_with_an_older_rendering_is_hidden_once_it_cannot_be_read(
    office: Office, general: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.sync()
    office.workspace.archive(general, eject=True)
    monkeypatch.setattr(channels, "RENDERING", channels.RENDERING + 1)
    office.sync()
    assert office.index.hidden == {general}


@pytest.mark.parametrize("code", ["access_denied", "no_permission"])
def test_a_channel_that_is_denied_stops_no_other(office: Office, general: str, code: str) -> None:
    denied = office.workspace.channel("denied", [office.ada])
    office.post(denied, "For a few")
    office.sync()
    office.workspace.channels[denied].denied = code
    office.post(general, "One more")
    office.sync()
    assert office.index.hidden == {denied}
    assert any(one["text"] == "One more" for held in office.index.conversations(general).values() for one in held)


@pytest.mark.parametrize("code", ["access_denied", "ekm_access_denied", "fatal_error", "odd_error"])
def test_an_archived_channel_that_is_tried_stops_nothing(office: Office, general: str, code: str) -> None:
    old = office.workspace.channel("old", [office.ada])
    office.workspace.archive(old, eject=True)
    office.workspace.channels[old].denied = code
    office.sync()
    assert set(office.index.cursors) == {general}


def test_a_list_of_channels_that_was_cut_off_is_not_complete(
    office: Office, general: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    office.workspace.channel("elsewhere", bot=False)
    settings = Settings(_env_file=None, slack_bot_token=office.workspace.token, slack_api_url=office.site.url)

    def tried() -> tuple[bool, bool]:
        return trial.places(settings, {}, None).complete, trial.reach(settings, {}).complete

    assert general in {one.id for one in trial.places(settings, {}, None).found}
    assert tried() == (True, True)
    for name, least in (("MOST_CHANNELS", 1), ("TOTAL_SECONDS", -1)):
        with monkeypatch.context() as patch:
            patch.setattr(trial, name, least)
            assert tried() == (False, False)
    monkeypatch.setattr(trial, "MOST_CHANNELS", 2)
    assert tried() == (True, True)


def test_window_is_never_cut_anew(office: Office) -> None:
    channel = office.workspace.channel("ops", [office.ada])
    stamps = [office.post(channel, f"Line {number}") for number in range(250)]
    office.sync()
    anchors = [stamps[0], stamps[100], stamps[200]]
    assert sorted(id_.rpartition("/")[2] for id_ in office.index.items) == anchors
    office.workspace.delete(channel, stamps[3])
    office.sync()
    assert [id_.rpartition("/")[2] for id_ in office.index.fetched] == [anchors[0]]
    office.post(channel, "Line 250")
    office.sync()
    assert [id_.rpartition("/")[2] for id_ in office.index.fetched] == [anchors[2]]
    office.workspace.post(channel, office.ada, "Why?", thread=stamps[100])
    office.sync()
    office.index.check(office.workspace)
    assert sorted(id_.rpartition("/")[2] for id_ in office.index.items) == [*anchors[:2], stamps[101], anchors[2]]


def test_long_thread_continues_in_further_documents(office: Office) -> None:
    channel = office.workspace.channel("ops", [office.ada])
    root = office.post(channel, "Log")
    replies = [office.post(channel, f"Entry {number}", thread=root) for number in range(230)]
    office.sync(page=50)
    anchors = [root, replies[99], replies[199]]
    assert sorted(id_.rpartition("/")[2] for id_ in office.index.items) == anchors
    office.workspace.delete(channel, replies[4])
    office.post(channel, "The end", thread=root)
    office.sync(page=50)
    office.index.check(office.workspace)
    assert sorted(id_.rpartition("/")[2] for id_ in office.index.items) == anchors
    assert len(office.index.fetched) == 2


def _busy(office: Office, seed: int) -> str:
    rng = random.Random(seed)
    channel = office.workspace.channel("busy", [office.ada, office.ben])
    for number in range(120):
        ts = office.post(channel, f"Message {number}", after=rng.choice([10, MINUTE, 20 * MINUTE, 3 * 3600]))
        for _ in range(rng.choice([0, 0, 0, 1, 3])):
            office.workspace.post(channel, office.ben, f"Reply to {number}", thread=ts)
    return channel


@pytest.mark.parametrize("seed", range(3))
def test_killed_first_sync_resumes(office: Office, seed: int) -> None:
    channel = _busy(office, seed)
    office.sync(page=15, batches=3)
    done = dict(office.index.items)
    assert done
    office.post(channel, "Meanwhile", after=DAY)
    calls = office.sync(page=15)
    office.index.check(office.workspace)
    assert not set(office.index.fetched) & set(done)
    assert calls["conversations.history"] < 12
    for _ in range(3):
        office.sync(page=15)
        assert office.index.fetched == []


def test_page_of_many_threads_is_saved_in_portions(office: Office) -> None:
    channel = office.workspace.channel("help", [office.ada, office.ben])
    for number in range(130):
        office.workspace.post(channel, office.ben, "Yes", thread=office.post(channel, f"Question {number}"))
    office.sync(batches=2)
    assert len(office.index.items) == 100
    calls = office.sync()
    assert calls["conversations.replies"] == 30
    office.index.check(office.workspace)
    assert len(office.index.items) == 130


def test_full_listing_finds_everything_and_keeps_ids(office: Office) -> None:
    channel = _busy(office, 0)
    office.sync(page=15)
    before = set(office.index.items)
    office.sync(full=True, page=40)
    assert set(office.index.items) == before
    assert office.index.fetched == []
    gone = office.workspace.messages(channel)[7]
    office.workspace.delete(channel, gone.ts)
    office.sync(full=True, page=15)
    office.index.check(office.workspace)


def test_rotation_reaches_old_history(office: Office) -> None:
    channel = _busy(office, 1)
    office.sync(page=15)
    old = office.workspace.messages(channel)
    office.workspace.edit(channel, next(m.ts for m in old if m.thread_ts is None), "Changed")
    office.workspace.post(channel, office.ben, "Late", thread=next(m.ts for m in old if m.thread_ts == m.ts))
    office.workspace.delete(channel, next(m.ts for m in old[20:] if m.thread_ts is None))
    for _ in range(20):
        calls = office.sync(page=15)
        assert calls["conversations.history"] <= 6
    office.index.check(office.workspace)


def test_a_broadcast_reply_brings_its_old_thread_at_once(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada, office.ben])
    roots = [office.post(channel, f"Question {number}", after=2 * 3600) for number in range(60)]
    for root in roots:
        office.post(channel, "First", after=1, thread=root)
    office.sync(page=20)
    office.post(channel, "For all to see", after=30 * DAY, thread=roots[3], broadcast=True)
    calls = office.sync(page=20)
    assert ("Ada Byron", "For all to see") in said(office, channel)
    office.index.check(office.workspace)
    assert calls["conversations.replies"] <= 21
    office.sync(page=20)
    assert office.index.fetched == []


def test_away_for_long_goes_on_where_it_stopped(office: Office) -> None:
    channel = _busy(office, 2)
    office.sync(page=15)
    for number in range(60):
        office.post(channel, f"Later {number}", after=2 * 3600)
    office.sync(page=15, batches=2)
    office.post(channel, "Last")
    office.sync(page=15)
    office.index.check(office.workspace)


def test_more_new_messages_than_fit_one_page_are_all_read(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    for number in range(30):
        office.post(channel, f"Message {number}", after=20 * MINUTE)
    office.sync(page=10)
    for number in range(25):
        office.post(channel, f"Later {number}")
    for _ in range(2):
        office.sync(page=10)
        office.index.check(office.workspace)


def test_messages_that_the_plan_hides_stay_as_they_were_and_stop_nothing(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    stamps = [office.post(channel, f"Message {number}", after=10 * MINUTE) for number in range(30)]
    stamps += [office.post(channel, f"Late {number}", after=2 * 3600) for number in range(10)]
    office.post(channel, "An answer", thread=stamps[3])
    office.sync(page=10)
    before = said(office, channel)
    office.workspace.hide_before(stamps[14])
    office.workspace.edit(channel, stamps[5], "Nobody sees this")
    for number in range(3):
        before.append(("Ada Byron", f"New {number}"))
        office.post(channel, f"New {number}")
        source = office.source(page=10)
        office.index.sync(source)
        assert said(office, channel) == sorted(before)
        assert len(source.warnings) == 1
        assert "hides" in source.warnings[0]
    office.sync(page=10, full=True)
    assert said(office, channel) == sorted(before)
    office.workspace.hide_before(office.time + DAY)
    office.sync(page=10, full=True)
    office.sync(page=10)
    assert said(office, channel) == sorted(before)


def test_a_thread_that_the_plan_hides_is_asked_for_once_though_a_reply_is_shown(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    root = office.post(channel, "A question")
    shown = office.post(channel, "Later", after=DAY)
    office.post(channel, "For all", thread=root, broadcast=True)
    office.workspace.hide_before(shown)
    assert office.sync()["conversations.replies"] == 1
    assert "conversations.replies" not in office.sync()
    office.workspace.hide_before(root)
    office.sync(full=True)
    office.index.check(office.workspace)


def test_a_listing_from_the_beginning_says_that_it_begins(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    stamps = [office.post(channel, f"Message {number}") for number in range(30)]
    office.workspace.hide_before(stamps[4])
    source = office.source(page=10)
    assert source.partitions() == [channel]
    listed = [batch for batch in source.changes(channel, None) if batch.listing != "delta"]
    assert [batch.begins for batch in listed] == [True] + [False] * (len(listed) - 1)
    office.sync(page=10, batches=1)
    source = office.source(page=10)
    assert source.partitions() == [channel]
    assert not any(batch.begins for batch in source.changes(channel, office.index.cursors[channel]))


def test_a_window_that_an_event_names_keeps_only_what_the_plan_shows(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    stamps = [office.post(channel, f"Message {number}", after=10 * MINUTE) for number in range(30)]
    office.sync(page=15)
    office.workspace.hide_before(stamps[14])
    office.workspace.delete(channel, stamps[5])
    office.index.memory[channel]["e:1"] = {"ts": stamps[5]}
    office.sync(page=15)
    assert {text for _, text in said(office, channel)} == {f"Message {number}" for number in range(14, 30)}
    assert "e:1" not in office.index.memory[channel]


def test_a_first_sync_reads_what_the_plan_shows(office: Office) -> None:
    channel = office.workspace.channel("busy", [office.ada])
    stamps = [office.post(channel, f"Message {number}") for number in range(30)]
    office.workspace.hide_before(stamps[14])
    for _ in range(3):
        office.sync(page=10)
        assert {text for _, text in said(office, channel)} == {f"Message {number}" for number in range(14, 30)}
    source = office.source(page=10)
    assert source.partitions() == [channel]
    kinds = [batch.listing for batch in source.changes(channel, None)]
    assert "delta" in kinds, "the readers are known"
    assert (kinds[-1], "complete" in kinds) == ("page", False), "what it did not list is not gone"
    office.workspace.delete(channel, stamps[20])
    office.sync(page=10)
    assert "Message 20" not in {text for _, text in said(office, channel)}


def test_what_a_sync_found_is_saved_before_older_history_is_read(office: Office) -> None:
    channel = _busy(office, 0)
    office.sync(page=60)
    office.post(channel, "New")
    source = office.source(page=60)
    assert source.partitions() == [channel]
    found = source.changes(channel, office.index.cursors[channel])
    office.index.take_in(source, next(found))
    assert ("Ada Byron", "New") in said(office, channel)
    office.site.faults.add("server_error", times=0, match="conversations.history")
    with pytest.raises(RetryLaterError):
        list(found)


def test_rate_limit_in_the_middle_of_pages(office: Office) -> None:
    _busy(office, 0)
    office.site.faults.add("rate_limit", times=3, match="conversations.history", seconds=7)
    office.site.faults.add("rate_limit", times=2, match="conversations.replies", seconds=9)
    office.sync(page=15)
    office.index.check(office.workspace)
    assert office.slept.count(7) >= 3
    assert office.slept.count(9) >= 2


def test_passing_faults_are_tried_again(office: Office, general: str) -> None:
    for kind in ("server_error", "drop"):
        office.site.faults.add(kind, times=2, match="conversations.")
        source = office.source()
        office.index.sync(source, full=True)
        assert source.tally.retries == 2
        assert office.slept[-2:] == [1.0, 5.0]
    office.index.check(office.workspace)


def test_fault_that_stays_ends_the_sync_and_loses_nothing(office: Office, general: str) -> None:
    office.sync()
    before = dict(office.index.items)
    office.site.faults.add("server_error", times=0, match="conversations.history")
    with pytest.raises(RetryLaterError, match=r"conversations\.history"):
        office.sync()
    office.site.faults.clear()
    assert office.index.items == before
    office.sync()
    office.index.check(office.workspace)


def test_expired_token_says_what_to_do(office: Office, general: str) -> None:
    office.sync()
    before = dict(office.index.cursors)
    office.workspace.revoke()
    with pytest.raises(AuthorizationError, match="CONCORDANCE_SLACK_BOT_TOKEN") as caught:
        office.sync()
    assert office.workspace.token not in str(caught.value)
    assert office.index.cursors == before
    office.workspace.renew()
    office.sync()
    office.index.check(office.workspace)


def test_missing_scope_is_named(office: Office, general: str) -> None:
    office.workspace.set_scopes(office.workspace.scopes - {"channels:history"})
    with pytest.raises(AuthorizationError, match="channels:history"):
        office.sync()


def test_missing_addresses_are_no_empty_directory(office: Office) -> None:
    office.workspace.set_scopes(office.workspace.scopes - {"users:read.email"})
    with pytest.raises(AuthorizationError, match=r"users:read\.email"):
        office.source().directory()


def test_files_that_cannot_be_indexed_are_refused_with_the_reason(office: Office) -> None:
    channel = office.workspace.channel("ops", [office.ada])
    film = office.workspace.upload(office.ada, "film.mp4", b"....", "video/mp4")
    office.post(channel, "Watch this", files=[film])
    office.sync()
    assert ".mp4 are not supported" in office.index.refused[f"T0LARKMOOR/{channel}/{film}"].reason
    office.index.check(office.workspace)


def test_files_of_a_channel_with_a_connected_workspace_are_asked_for_once(office: Office) -> None:
    channel = office.workspace.channel("partners", [office.ada, office.eve])
    plan = office.workspace.upload(office.ada, "plan.md", "# Plan\n\nGrind the rye.\n", "text/markdown")
    secret = office.workspace.upload(office.eve, "secret.md", "# Secret\n", "text/markdown")
    office.workspace.deny_file(secret)
    ts = office.post(channel, "The plan", files=[plan, secret])
    assert office.sync()["files.info"] == 2
    file, refused = f"T0LARKMOOR/{channel}/{plan}", f"T0LARKMOOR/{channel}/{secret}"
    item = office.index.items[file]
    assert (item.title, item.author, item.mime_type) == ("plan.md", "Ada Byron", "text/markdown")
    assert office.index.contents[file].startswith(b"# Plan")
    assert office.index.conversations(channel)[f"T0LARKMOOR/{channel}/{ts}"][0]["files"] == ["plan.md", secret]
    assert "does not share it" in office.index.refused[refused].reason
    assert "files.info" not in office.sync()
    assert office.index.fetched == []
    office.workspace.deny_file(plan)
    office.index.memory[channel]["e:1"] = {"file": plan}
    assert office.sync()["files.info"] == 1
    assert file in office.index.refused
    office.workspace.delete(channel, ts)
    office.sync()
    assert office.index.files(channel) == set()
    assert not [key for key in office.index.memory[channel] if key.startswith("i:")]


def test_without_the_scope_files_of_connected_workspaces_are_refused_and_stop_nothing(office: Office) -> None:
    channel = office.workspace.channel("partners", [office.ada, office.eve])
    plan = office.workspace.upload(office.ada, "plan.md", "# Plan", "text/markdown")
    office.post(channel, "The plan", files=[plan])
    other = office.workspace.upload(office.ada, "other.md", "# Other", "text/markdown")
    office.post(channel, "Another", after=DAY, files=[other])
    office.workspace.set_scopes(office.workspace.scopes - {"files:read"})
    assert office.sync()["files.info"] == 1
    assert "files:read" in office.index.refused[f"T0LARKMOOR/{channel}/{plan}"].reason
    office.workspace.set_scopes(office.workspace.scopes | {"files:read"})
    office.sync()
    assert office.index.files(channel) == {plan, other}
    assert office.index.refused == {}


def test_file_shared_twice_goes_with_its_last_message(office: Office) -> None:
    channel = office.workspace.channel("ops", [office.ada])
    file = office.workspace.upload(office.ada, "a.txt", "alpha", "text/plain")
    first = office.post(channel, "One", files=[file])
    second = office.post(channel, "Two", after=DAY, files=[file])
    office.sync()
    office.workspace.delete(channel, first)
    office.sync()
    assert office.index.files(channel) == {file}
    office.workspace.delete(channel, second)
    office.sync()
    assert office.index.files(channel) == set()


def test_file_elsewhere_is_not_fetched(office: Office, general: str) -> None:
    office.sync()
    file = next(item for item in office.index.items.values() if item.path.endswith(".md"))
    port = office.site.url.rpartition(":")[2].partition("/")[0]
    for address in (
        "http://169.254.169.254/latest/meta-data",
        "https://files.slack.com.evil.example/x",
        f"http://127.0.0.1:{int(port) + 1}/files-pri/x",
        f"http://evil.example@127.0.0.1:{int(port) + 1}/x",
        "file:///etc/passwd",
    ):
        source = office.source()
        with pytest.raises(SkipDocumentError, match="not stored at Slack"):
            list(source.fetch(type(file)(**{**_fields(file), "locator": address})))
        assert source.tally.calls == {}


def _fields(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in item.__struct_fields__}


def _mutate(office: Office, channel: str, rng: random.Random) -> None:
    workspace = office.workspace
    truth = workspace.messages(channel)
    message = rng.choice(truth) if truth else None
    match rng.randrange(12):
        case 0 | 1 | 2:
            office.post(channel, f"m{rng.random()}", after=rng.choice([1, 5 * MINUTE, 40 * MINUTE, DAY, 30 * DAY]))
        case 3 | 4 | 5 if message:
            office.post(channel, f"r{rng.random()}", after=rng.choice([1, DAY]), thread=message.thread_ts or message.ts)
        case 6 if message:
            workspace.edit(channel, message.ts, f"e{rng.random()}")
        case 7 | 8 if message:
            workspace.delete(channel, message.ts)
        case 9:
            file = workspace.upload(office.ada, f"{rng.random()}.txt", "words", "text/plain")
            office.post(channel, f"f{rng.random()}", files=[file], thread=message and (message.thread_ts or message.ts))
        case 10:
            rng.choice([workspace.join, workspace.leave])(channel, rng.choice([office.ben, office.gil, office.eve]))
        case _:
            for file in message.files if message else ():
                workspace.delete_file(file)


@pytest.mark.parametrize("seed", range(12))
def test_any_history_ends_in_the_truth(office: Office, seed: int) -> None:
    rng = random.Random(seed)
    channels = [
        office.workspace.channel(name, [office.ada], private=private) for name, private in (("a", False), ("b", True))
    ]
    for _ in range(6):
        for _ in range(rng.randrange(12)):
            _mutate(office, rng.choice(channels), rng)
        office.sync(page=rng.choice([900, 900, 200]), full=rng.random() < 0.15)
        office.index.check(office.workspace)
    office.sync()
    assert office.index.fetched == []


@pytest.mark.parametrize("seed", range(6))
def test_any_history_in_small_pages_ends_in_the_truth(office: Office, seed: int) -> None:
    rng = random.Random(100 + seed)
    channel = office.workspace.channel("a", [office.ada])
    for _ in range(5):
        for _ in range(rng.randrange(25)):
            _mutate(office, channel, rng)
        office.sync(page=7, batches=rng.choice([None, None, 1, 2]))
    for _ in range(20):
        office.sync(page=7)
    office.index.check(office.workspace)
    office.sync(full=True, page=7)
    office.index.check(office.workspace)
    assert office.index.fetched == []
