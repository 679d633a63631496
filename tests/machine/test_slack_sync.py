"""Every change that a Slack can see, one after the other: after the next sync the message is found by exactly its readers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from resources.core.domain import SourceName
from simulators.slack import Workspace
from tests.fixtures.installation import Installation
from tests.fixtures.slack import SlackSite
from tests.fixtures.step import WORD, Person, Readers, Step, follow, web

DAY = 24 * 3600


class World:
    """A workspace with a public and a private channel, full members, a guest, a user of another company, and an outsider."""

    def __init__(self, workspace: Workspace) -> None:
        self.slack = workspace
        self.files: dict[str, str] = {}
        self.ada = workspace.user("Ada Byron", "ada@acme.example")
        self.bob = workspace.user("Bob Noyce", "bob@acme.example")
        self.guest = workspace.user("Gil Guest", "gil@guest.example", guest=True)
        self.partner = workspace.user("Pia Partner", "pia@partner.example", external=True)
        self.general = workspace.channel("general", (self.ada, self.bob))
        self.secret = workspace.channel("secret", (self.ada, self.partner), private=True)

    def truth(self) -> Readers:
        """Expected state: every word of every message and file that exists, and who may find it."""
        found: dict[str, set[str]] = {}
        for channel in (self.general, self.secret):
            readers = self.slack.readers(channel)
            for message in self.slack.messages(channel):
                words = WORD.findall(message.text)
                words += [self.files[file] for file in message.files if file in self.files]
                for word in words:
                    found.setdefault(word, set()).update(readers)
        return {word: frozenset(readers) for word, readers in found.items()}

    def directory(self) -> dict[str, set[str]]:
        """Full members belong to the workspace; guests and users of other companies do not."""
        return {email: {f"slack:{self.slack.team}"} for email in ("ada@acme.example", "bob@acme.example")}


@pytest.fixture
def world(slack_site: SlackSite) -> World:
    return World(slack_site.workspace)


@pytest.fixture
def step(installation: Installation, slack_site: SlackSite, world: World, bundled_model: Any) -> Iterator[Step]:
    follow(installation, slack_bot_token=slack_site.workspace.token, slack_api_url=slack_site.url)
    emails = ("ada@acme.example", "bob@acme.example", "gil@guest.example", "pia@partner.example", "dan@other.example")
    people = [Person(email) for email in emails]
    step = Step(installation, SourceName.SLACK, world.truth, world.slack.calls, people, world.directory)
    with web(installation, bundled_model) as running:
        step.web = running
        yield step


def test_every_mutation(step: Step, world: World, show: Callable[[str], None]) -> None:
    slack, said = world.slack, dict[str, str]()

    def post(channel: str, user: str, **more: Any) -> str:
        word = step.word("m")
        said[word] = slack.post(channel, user, f"The word of this message is {word}.", **more)
        return word

    now = float(slack.post(world.general, world.ada, "Good morning, everybody.").partition(".")[0])
    old = post(world.general, world.ada, ts=f"{now - 60 * DAY:.6f}")
    old_reply = post(world.general, world.bob, ts=f"{now - 60 * DAY + 60:.6f}", thread=said[old])
    first = post(world.general, world.ada)
    private = post(world.secret, world.ada)
    step.mutate("first sync", lambda: None, old, old_reply, first, private, embedded=True)
    step.mutate("nothing", lambda: None, first)
    second = step.mutate("message", lambda: post(world.general, world.bob), embedded=True)

    def edit(ts: str, channel: str = world.general) -> str:
        word = step.word("e")
        slack.edit(channel, ts, f"Now the word is {word}.")
        said[word] = ts
        return word

    edited = step.mutate("edit", lambda: edit(said[second]), embedded=True)
    step.mutate("delete", lambda: slack.delete(world.general, said[edited]), edited, embedded=None)
    late = step.mutate(
        "late reply on a 60-day-old thread",
        lambda: post(world.general, world.bob, thread=said[old]),
        old,
        embedded=True,
    )
    step.search(late)
    step.mutate(
        "reply makes a thread", lambda: post(world.general, world.bob, thread=said[first]), first, embedded=True
    )
    step.mutate("edit of an old message", lambda: edit(said[old]), embedded=True)
    step.mutate("delete of a reply", lambda: slack.delete(world.general, said[late]), late, embedded=None)

    def share() -> str:
        word = step.word("f")
        file = slack.upload(world.ada, "notes.txt", f"A file whose word is {word}.\n".encode(), "text/plain")
        world.files[file] = word
        said[word] = slack.post(world.secret, world.ada, "See the file.", files=[file])
        return word

    shared = step.mutate("file shared", share, embedded=True)
    step.mutate("member joins", lambda: slack.join(world.secret, world.bob), private, shared)
    step.mutate("member leaves", lambda: slack.leave(world.secret, world.bob), private, shared)
    step.mutate("guest joins", lambda: slack.join(world.secret, world.guest), private)
    step.mutate("guest joins a public channel", lambda: slack.join(world.general, world.guest), first)
    step.mutate("channel made private", lambda: slack.make_private(world.general), first, old)
    step.mutate("channel renamed", lambda: slack.rename(world.general, "everybody"), first)
    step.mutate("channel archived", lambda: slack.archive(world.secret), private)
    step.mutate("bot removed", lambda: slack.remove_bot(world.general), first)
    step.mutate("bot invited again", lambda: slack.invite_bot(world.general), first)
    show(step.lines("Slack, against the simulator: what each change did by the next sync"))


def test_many_threads_cost_no_calls_while_nothing_changes(step: Step, world: World) -> None:
    slack = world.slack
    for _ in range(60):
        root = slack.post(world.general, world.ada, f"A question about {step.word()}")
        slack.post(world.general, world.bob, f"An answer: {step.word()}", thread=root)
    step.sync()
    step.check()
    for _ in range(3):
        before = slack.calls.copy()
        step.sync()
        calls = slack.calls - before
        assert calls.total() - calls["conversations.replies"] <= 10, calls
        assert calls["conversations.replies"] <= 20, calls


def test_a_citation_opens_the_very_message(step: Step, world: World) -> None:
    assert step.web is not None
    words = [step.word() for _ in range(5)]
    said = {word: world.slack.post(world.general, world.ada, f"About {word} there is this to say.") for word in words}
    step.sync()
    for word in words:
        (result,) = step.web.search(word, "ada@acme.example", mode="keyword")["results"]
        assert result["citation"]["link"].endswith(f"/archives/{world.general}/p{said[word].replace('.', '')}")


def test_names_of_private_channels_and_people_outside_are_written_nowhere(step: Step, world: World) -> None:
    slack = world.slack
    board = slack.channel("qzboardroom", (world.ada,), private=True, bot=False)
    stranger = slack.user("Qzstranger Doe", "doe@partner.example", external=True)
    mentions = (
        f"<#{world.secret}> <#{world.secret}|secret> <#{board}|qzboardroom> <#{world.general}> <@{stranger}|qzstranger> "
        f"<@{world.bob}> <!subteam^S0QZGROUP|@qzgroup>"
    )
    elements: list[dict[str, Any]] = [
        {"type": "text", "text": "Blocks: "},
        {"type": "channel", "channel_id": board},
        {"type": "user", "user_id": stranger},
        {"type": "usergroup", "usergroup_id": "S0QZGROUP"},
    ]
    rich = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": elements}]}]
    unfurled = [{"is_share": True, "channel_name": "qzboardroom", "fallback": "[#qzboardroom] soon", "text": "soon"}]
    root = slack.post(world.general, world.ada, f"{mentions} begins a thread about herons")
    slack.post(world.general, world.bob, f"Herons answer {mentions}", thread=root)
    slack.post(world.general, world.ada, "", blocks=rich)
    slack.post(world.general, world.ada, "Herons shared", attachments=[{"text": f"see {mentions}"}, *unfurled])
    file = slack.upload(world.ada, "herons.txt", b"A file about herons.\n", "text/plain")
    slack.post(world.general, world.ada, f"Herons of {mentions}", files=[file])
    slack.post(world.secret, world.ada, "Only members know of this heron.")
    step.sync()
    web = step.web
    assert web is not None
    answer = web.search("herons", "bob@acme.example", mode="keyword", top_k=50)
    shown = str(answer) + "".join(
        web.request("GET", f"/api/documents/{result['doc_id']}", "bob@acme.example").text
        for result in answer["results"]
    )
    everything = shown + str([point for point in step.installation.points() if point["partition"] == world.general])
    assert len(answer["results"]) > 0
    for name in ("qzboardroom", "qzstranger", "qzgroup", "#secret", "@secret"):
        assert name not in everything.lower(), name
    assert "#general" in shown
    assert "@Bob Noyce" in shown
    assert "a private channel" in shown


def test_a_channel_that_turns_private_loses_its_name_elsewhere(step: Step, world: World) -> None:
    slack = world.slack
    plans = slack.channel("qzplans", (world.ada, world.bob))
    slack.post(world.general, world.ada, f"Decided in <#{plans}>: {step.word()}")
    step.sync()
    named = [point for point in step.installation.points() if "qzplans" in point["chunk_text"]]
    assert named
    calls = slack.calls.copy()
    step.sync()
    assert (slack.calls - calls)["conversations.replies"] == 0
    slack.make_private(plans)
    step.sync()
    points = [point for point in step.installation.points() if point["collection_ids"] == [world.general]]
    assert points
    assert "qzplans" not in str(points)
    assert [
        row for row in step.installation.rows("SELECT chunk_text FROM chunks") if "qzplans" in row["chunk_text"]
    ] == []
