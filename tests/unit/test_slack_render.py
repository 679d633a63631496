"""Slack's markup rendered as readable text."""

from __future__ import annotations

from typing import Any

import pytest

from resources.sources.slack.blocks import attachments_text, blocks_text
from resources.sources.slack.messages import fingerprint, is_reply, is_root, parse_message
from resources.sources.slack.render import NameLookups, readable
from simulators.slack.rich import rich_text

NAMES = NameLookups({"U1": "Ada Byron"}.get, {"U1": "Ada Byron"}.get, {"C1": "general"}.get, {"S2": "bakers"}.get)


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("plain words", "plain words"),
        ("<@U1> and <@U1|ada>", "@Ada Byron and @Ada Byron"),
        ("<@U9|zoe>, <@U9>", "somebody outside of the workspace, somebody outside of the workspace"),
        ("<#C1|old-name> <#C1> <#C9|other> <#C9|>", "#general #general a private channel a private channel"),
        ("<!subteam^S1> <!subteam^S9|@bakers> <!subteam^S2|@old>", "a user group a user group @bakers"),
        ("`<#C9|other>` ```<@U9|zoe>```", "`a private channel` ```somebody outside of the workspace```"),
        ("<!here> <!channel> <!everyone>", "@here @channel @everyone"),
        ("<!date^1392734382^{date_short}|18 Feb 2014>", "18 Feb 2014"),
        ("<!date^1392734382^{date_short}^https://a.example|18 Feb>", "18 Feb"),
        ("<https://a.example/x?a=1&amp;b=2>", "https://a.example/x?a=1&b=2"),
        ("<https://a.example|the mill>", "the mill (https://a.example)"),
        ("<https://a.example/|a.example>", "https://a.example/"),
        ("<mailto:ada@a.example|ada@a.example>", "ada@a.example"),
        ("<tel:+4412|+44 12>", "+44 12 (+4412)"),
        ("1 &lt; 2 &amp;&amp; 3 &gt; 2", "1 < 2 && 3 > 2"),
        ("&amp;lt; stays", "&lt; stays"),
        ("*bold*, _slanted_, ~gone~ and *_both_*", "bold, slanted, gone and both"),
        ("snake_case_name 2*3*4 a ~ b ~ c", "snake_case_name 2*3*4 a ~ b ~ c"),
        ("see <https://a.example/_x_|_here_>", "see _here_ (https://a.example/_x_)"),
        (":tada: :+1: :thumbsup:", "🎉 👍 👍"),
        (":wave::skin-tone-3: hi", "👋 hi"),
        (":our-own-mill: at 10:30:00", ":our-own-mill: at 10:30:00"),
        ("`a_b_c` and `:tada:`", "`a_b_c` and `:tada:`"),
        ("```if a &lt; b:\n  *x* = <@U1>```", "```if a < b:\n  *x* = @Ada Byron```"),
        ("```<https://a.example|a.example>```", "```a.example```"),
        ("&gt; quoted\nanswer", "> quoted\nanswer"),
        ("<script>alert(1)</script>", "scriptalert(1)/script"),
        ("", ""),
    ],
)
def test_readable(markup: str, text: str) -> None:
    assert readable(markup, NAMES) == text
    if "```" not in text:  # blocks of code are on lines of their own
        assert blocks_text([rich_text(markup, "b1")], NAMES) == text


def test_blocks() -> None:
    blocks: list[Any] = [
        {"type": "header", "text": {"type": "plain_text", "text": "Outage"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "*Mill 3* is down"},
            "fields": [{"type": "mrkdwn", "text": "since 9"}],
        },
        {"type": "context", "elements": [{"type": "image", "image_url": "x"}, {"type": "mrkdwn", "text": "by <@U1>"}]},
        {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Ack"}}]},
        {"type": "divider"},
    ]
    assert blocks_text(blocks, NAMES) == "Outage\nMill 3 is down\nsince 9\nby @Ada Byron"


def test_every_block_that_holds_text() -> None:
    def plain(text: str) -> dict[str, Any]:
        return {"type": "plain_text", "text": text}

    bold = {"type": "rich_text_section", "elements": [{"type": "text", "text": "3\n days", "style": {"bold": True}}]}
    blocks: list[Any] = [
        {"type": "markdown", "text": "## Release *2*\n**Fixed** in [PR 7](https://a.example/7) by <@U1>\n```\n**kept**\n```"},
        {
            "type": "table",
            "rows": [
                [{"type": "raw_text", "text": "Service"}, {"type": "raw_text", "text": "Down | since"}],
                [{"type": "raw_text", "text": "Mill 3"}, {"type": "rich_text", "elements": [bold]}],
                [{"type": "raw_text", "text": ""}, {"type": "raw_text", "text": ""}],
            ],
        },
        {"type": "image", "image_url": "https://a.example/x", "alt_text": "Load by hour", "title": plain("CPU")},
        {"type": "section", "text": plain("Runbook"), "accessory": {"type": "image", "alt_text": "a heron"}},
        {"type": "section", "text": plain("Page"), "accessory": {"type": "button", "text": plain("Ack")}},
        {"type": "context", "elements": [{"type": "image", "alt_text": "octocat"}, plain("acme/heron")]},
        {"type": "input", "label": plain("Reason"), "element": {"type": "plain_text_input"}},
        {"type": "video", "title": plain("Stand-up"), "description": plain("of Monday"), "alt_text": "film"},
        {"type": "carousel", "cards": [{"type": "card", "title": plain("Ticket 9"), "body": plain("is open")}]},
        "no block", {"type": "divider"}, {"type": "file", "source": "remote"},
    ]  # fmt: skip
    assert blocks_text(blocks, NAMES).split("\n") == [
        "Release 2", "Fixed in PR 7 (https://a.example/7) by @Ada Byron", "```", "**kept**", "```",
        "Service | Down \\| since", "Mill 3 | 3 days", "CPU", "Load by hour", "Runbook", "a heron", "Page", "octocat", "acme/heron",
        "Reason", "Stand-up", "of Monday", "film", "Ticket 9", "is open",
    ]  # fmt: skip


def test_blocks_are_the_message_and_the_text_its_notification() -> None:
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "*Disk full* on mill 3"}}
    raw: dict[str, Any] = {"ts": "1.0", "bot_id": "B1", "text": "New incident", "blocks": [section]}
    message = parse_message(raw, NAMES)
    assert message is not None
    assert message.text == "Disk full on mill 3"
    buttons = {"type": "actions", "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Ack"}}]}
    message = parse_message(raw | {"blocks": [buttons]}, NAMES)
    assert message is not None
    assert message.text == "New incident"


def test_a_parent_whose_blocks_or_attachments_change_is_read_again() -> None:
    def section(text: str) -> dict[str, Any]:
        return {"type": "section", "text": {"type": "mrkdwn", "text": text}}

    raw: dict[str, Any] = {"ts": "1.0", "text": "New incident", "bot_id": "B1", "reply_count": 1}
    states = [
        raw,
        raw | {"blocks": [section("open")]},
        raw | {"blocks": [section("closed")]},
        raw | {"attachments": [{"text": "open"}]},
        raw | {"attachments": [{"text": "closed"}]},
    ]
    assert len({fingerprint(state) for state in states}) == len(states)
    preview = {"attachments": [{"from_url": "https://a.example", "text": "News"}]}
    rich = {"blocks": [{"type": "rich_text", "elements": []}], "bot_id": None}
    assert fingerprint(raw | preview) == fingerprint(raw)
    assert fingerprint(raw | rich) == fingerprint(raw | {"bot_id": None})


def test_lists_count_on_where_they_were_interrupted() -> None:
    item = {"type": "rich_text_section", "elements": [{"type": "text", "text": "sift"}]}
    elements = [{"type": "rich_text_list", "style": "ordered", "offset": 2, "elements": [item, item]}]
    assert blocks_text([{"type": "rich_text", "elements": elements}], NAMES) == "3. sift\n4. sift"


def test_rich_text() -> None:
    def section(*elements: dict[str, Any]) -> dict[str, Any]:
        return {"type": "rich_text_section", "elements": list(elements)}

    elements = [
        section(
            {"type": "user", "user_id": "U1"},
            {"type": "text", "text": " look "},
            {"type": "link", "url": "https://a.example", "text": "here"},
            {"type": "emoji", "name": "tada"},
            {"type": "text", "text": "x()", "style": {"code": True}},
        ),
        {
            "type": "rich_text_list",
            "style": "ordered",
            "elements": [section({"type": "text", "text": t}) for t in "ab"],
        },
        {"type": "rich_text_preformatted", "elements": [{"type": "text", "text": "a = 1"}]},
        {"type": "rich_text_quote", "elements": [{"type": "text", "text": "so\nthey say"}]},
    ]
    assert blocks_text([{"type": "rich_text", "elements": elements}], NAMES) == (
        "@Ada Byron look here (https://a.example)🎉`x()`\n1. a\n2. b\n```\na = 1\n```\n> so\n> they say"
    )


def test_elements_name_only_people_and_channels_known_to_all_readers() -> None:
    section = [
        {"type": "user", "user_id": "U9"},
        {"type": "channel", "channel_id": "C9"},
        {"type": "usergroup", "usergroup_id": "S1"},
    ]
    blocks = [{"type": "rich_text", "elements": [{"type": "rich_text_section", "elements": section}]}]
    assert blocks_text(blocks, NAMES) == "somebody outside of the workspacea private channela user group"


def test_previews_of_links_are_other_peoples_words() -> None:
    attachments = [
        {
            "title": "Alert",
            "title_link": "https://a.example",
            "text": "CPU",
            "fields": [{"title": "Host", "value": "m3"}],
        },
        {
            "from_url": "https://larkmoor.slack.com/archives/C2/p1",
            "text": "from a private channel",
            "is_msg_unfurl": True,
        },
        {"is_share": True, "channel_name": "layoffs", "fallback": "[#layoffs] ada: soon", "text": "soon"},
        {"fallback": "nothing else"},
        {"fallback": "[no preview available]", "blocks": [{"type": "actions"}]},
        {"author_name": "octocat", "text": "Merged", "footer": "acme/heron"},
    ]
    assert attachments_text(attachments, NAMES) == (
        "Alert (https://a.example)\nCPU\nHost: m3\nnothing else\noctocat\nMerged\nacme/heron"
    )


@pytest.mark.parametrize("subtype", ["channel_join", "channel_topic", "group_purpose", "tombstone", "pinned_item"])
def test_notes_of_slack_have_no_author(subtype: str) -> None:
    assert parse_message({"ts": "1.000001", "user": "U1", "text": "has joined", "subtype": subtype}, NAMES) is None


def test_who_said_it() -> None:
    raw: dict[str, Any] = {"ts": "1731234567.000100", "text": "Hi", "user": "U1", "edited": {"ts": "1731234568.000000"}}
    message = parse_message(raw, NAMES)
    assert message is not None
    assert (message.at, message.name, message.edited) == (1731234567000100, "Ada Byron", 1731234568000000)
    robot = parse_message(
        {"ts": "1.0", "text": "Beep", "subtype": "bot_message", "bot_id": "B1", "username": "Mill bot"}, NAMES
    )
    app = parse_message({"ts": "1.0", "text": "Beep", "bot_id": "B1", "bot_profile": {"name": "App"}}, NAMES)
    guest = parse_message({"ts": "1.0", "text": "Hi", "user": "U8", "user_profile": {"display_name": "Zoe"}}, NAMES)
    assert [one and one.name for one in (robot, app, guest)] == ["Mill bot", "App", "Zoe"]


def test_empty_and_deleted_say_nothing() -> None:
    assert parse_message({"ts": "1.0", "user": "U1", "text": "  "}, NAMES) is None
    assert (
        parse_message({"ts": "1.0", "user": "U1", "text": "", "files": [{"id": "F1", "mode": "tombstone"}]}, NAMES)
        is None
    )


def test_parents_and_replies() -> None:
    assert is_root({"ts": "1.0", "thread_ts": "1.0", "reply_count": 1})
    assert not is_root({"ts": "1.0", "thread_ts": "1.0", "reply_count": 0})
    assert not is_root({"ts": "2.0", "thread_ts": "1.0", "subtype": "thread_broadcast"})
    assert is_reply({"ts": "2.0", "thread_ts": "1.0"})
    parent = {"ts": "1.0", "text": "a", "reply_count": 1, "latest_reply": "2.0"}
    assert fingerprint(parent) == fingerprint({**parent, "reply_count": 2, "latest_reply": "3.0"})
    assert fingerprint(parent) != fingerprint({**parent, "text": "b"})
