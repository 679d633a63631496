"""The parts of the Slack assistant without services: what is a question, and how answers become Slack's messages."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core.errors import RateLimitedError, RetryLaterError
from resources.core.retrying import Tally, call_with_retry
from resources.sources.slack.envelope import Authorization, Envelope
from resources.sources.slack.questions import Interaction, question_of, rating_of
from serving.answers.schemas import AnswerResponse, Unanswered
from serving.answers.support import Verdict
from serving.assistant import messages
from serving.assistant.conversations import KNOWN_SECONDS, MOST_ASKED_FOR, Conversations, Waits
from serving.search.results import DocumentReference, Result
from serving.search.retrieval.passage import Warning_
from serving.search.schemas import Citation
from simulators.slack.writing import fault_of

BOT, ADA = "U0BOT", "U0ADA"
TS = "1700000000.000100"
MENTION: dict[str, Any] = {
    "type": "app_mention",
    "channel": "C0GENERAL",
    "user": ADA,
    "ts": TS,
    "text": f"<@{BOT}> why?",
}
DIRECT: dict[str, Any] = MENTION | {"type": "message", "channel": "D0ADA", "channel_type": "im", "text": "why?"}
TEXTS = st.text(st.sampled_from("ab <>&|*_~`#-[]1\n@!:/."), max_size=300)


def envelope(event: dict[str, Any], *, is_bot: bool = True) -> Envelope:
    who = Authorization(team_id="T0ACME", user_id=BOT, is_bot=is_bot)
    return Envelope(type="event_callback", event_id="Ev1", team_id="T0ACME", authorizations=[who], event=event)


def test_a_mention_and_a_direct_message_are_questions() -> None:
    for event, direct in ((MENTION, False), (DIRECT, True)):
        found = question_of(envelope(event))
        assert found is not None
        assert (found.text, found.direct, found.account, found.thread) == ("why?", direct, ADA, TS)
    reply = question_of(envelope(DIRECT | {"thread_ts": "1690000000.000100"}))
    assert reply is not None
    assert reply.thread == "1690000000.000100"


def test_the_text_of_a_question_is_readable() -> None:
    found = question_of(
        envelope(MENTION | {"text": f"<@{BOT}|bot>  did <@U0BOB> *read* &lt;a&gt; in <https://x.example|this>?"})
    )
    assert found is not None
    assert found.text == "did @someone read <a> in this (https://x.example)?"


@pytest.mark.parametrize(
    "changed",
    [
        {"bot_id": "B0OTHER"},
        {"app_id": "A0OTHER"},
        {"subtype": "bot_message"},
        {"subtype": "message_changed"},
        {"subtype": "channel_join"},
        {"edited": {"user": ADA, "ts": TS}},
        {"user": BOT},
        {"user": None},
        {"ts": "now"},
        {"thread_ts": "x"},
        {"channel": "C0|x"},
    ],
)
def test_what_no_person_wrote_just_now_is_no_question(changed: dict[str, Any]) -> None:
    assert question_of(envelope(MENTION | changed)) is None
    assert question_of(envelope(DIRECT | changed)) is None


def test_other_conversations_are_no_questions() -> None:
    assert question_of(envelope(DIRECT | {"channel_type": "channel"})) is None
    assert question_of(envelope(DIRECT | {"channel_type": "mpim"})) is None
    assert question_of(envelope(DIRECT, is_bot=False)) is None, "of a person on whose behalf an app reads"


def test_a_pressed_button_is_a_rating() -> None:
    raw: dict[str, Any] = {
        "type": "block_actions",
        "user": {"id": ADA},
        "container": {"message_ts": TS, "channel_id": "D0ADA"},
        "actions": [{"action_id": "answer_bad"}],
    }
    found = rating_of(msgspec.convert(raw, Interaction))
    assert found is not None
    assert (found.channel, found.reply_ts, found.account, found.verdict) == ("D0ADA", TS, ADA, "bad")
    assert rating_of(msgspec.convert(raw | {"actions": [{"action_id": "other"}]}, Interaction)) is None
    assert rating_of(msgspec.convert(raw | {"type": "view_submission"}, Interaction)) is None


def answer(text: str, *, title: str = "Handbook", link: str = "https://wiki.example/p", **more: Any) -> AnswerResponse:
    source = Result(
        doc_id="d", chunk_id="c", chunk_index=0, title=title, source_type="files", source_id="s", collection_id=None,
        path="p", mime_type="text/plain", owner=None, tags={}, chunk_text="", snippet="", highlights=[], section_path=[],
        page_start=None, page_end=None, relevance_score=1.0, created_at=None, modified_at=None, acl_checked_at=None,
        also_in=[], citation=Citation(1, f"[1] {title} (Files)", link, "inline"),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "answer_id": "a", "query_id": "q", "answer": text, "found": True, "mode": "model", "model": "m",
        "standalone": None, "understood": [], "sources": [source], "cited": [1], "sentences": [], "quotes": [], "removed_citations": 0,
        "removed_links": 0, "cached": False, "held_back": 0, "latency_ms": 1.0, "model_ms": 0.0, "warnings": [],
    }  # fmt: skip
    return AnswerResponse(**(fields | more))


def shown(message: messages.SlackMessage) -> str:
    """Return all that a message shows but for its buttons."""
    texts = [block["text"] for block in message.blocks if block["type"] == "section"]
    texts += [one for block in message.blocks if block["type"] == "context" for one in block["elements"]]
    return "\n".join(one["text"] for one in texts)


def test_markdown_becomes_slacks_markup() -> None:
    text = "## Kettles\nThe **kettle** is:\n- hot [1]\n* clean [2]\n+ 25 EUR"
    assert messages.markup(text, {1: "https://x.example"}) == (
        "*Kettles*\nThe *kettle* is:\n• hot <https://x.example|[1]>\n• clean [2]\n+ 25 EUR"
    )


def test_sources_count_from_one_in_the_order_of_their_citations() -> None:
    one = answer("").sources[0]
    sources = [
        msgspec.structs.replace(
            one, citation=Citation(index, f"Page {index}", f"https://wiki.example/{index}", "inline")
        )
        for index in range(1, 10)
    ]
    message = messages.answer(
        answer("Hot [8], `a[8]` [2] and clean [8].", sources=sources, cited=[2, 8]), TS, direct=True, buttons=False
    )
    text, listed = (block["text"]["text"] for block in message.blocks)
    assert text == (
        "Hot <https://wiki.example/8|[1]>, `a[8]` <https://wiki.example/2|[2]> and clean <https://wiki.example/8|[1]>."
    )
    assert listed == "<https://wiki.example/8|Page 8>\n<https://wiki.example/2|Page 2>"


def test_a_question_that_is_not_answered_names_the_closest_documents_to_the_person_alone() -> None:
    closest = [DocumentReference("d", "Kettles & <pots>", "files", "https://wiki.example/k")]
    unanswered = Unanswered(
        message="None of the 70 documents that you can read answers this.", documents=70, closest=closest
    )
    given_ = answer("No data found", found=False, mode="none", sources=[], cited=[], unanswered=unanswered)
    direct = shown(messages.answer(given_, TS, direct=True, buttons=False))
    assert "None of the 70 documents that you can read answers this." in direct
    assert "<https://wiki.example/k|Kettles &amp; &lt;pots&gt;>" in direct
    here = shown(messages.answer(given_, TS, direct=False, buttons=False))
    assert ("Everyone here may read 70 documents." in here, "Kettles" in here) == (True, False)


def test_one_of_something_is_said_in_the_singular() -> None:
    assert "again in 1 second." in shown(messages.limited(0.4, TS))
    assert "again in 20 seconds." in shown(messages.limited(20.2, TS))
    for held_back, said in ((1, "Left out: 1 document whose"), (2, "Left out: 2 documents whose")):
        assert said in shown(messages.answer(answer("Hot [1]", held_back=held_back), TS, direct=True, buttons=False))


@given(TEXTS, TEXTS, TEXTS)
def test_whatever_documents_say_the_only_references_are_citations(text: str, title: str, path: str) -> None:
    given_ = answer(
        f"Yes. {text}",
        title=title,
        link=f"https://wiki.example/{path}",
        sentences=[Verdict(text, 0, 1, [], supported=False)],
        warnings=[Warning_("w", f"Note {title}")],
    )
    message = messages.answer(given_, TS, direct=False, buttons=True)
    assert fault_of(message.blocks) is None
    references = re.findall(r"<([^<>]*)>", shown(message))
    assert all(one.startswith("https://wiki.example/") for one in references)
    assert "<" not in re.sub(r"<[^<>]*>", "", shown(message))
    assert not re.search("[<>]", message.text)


@given(st.lists(st.sampled_from(["word ", "&", "<", "long" * 40, "\n", "[1] "]), max_size=900).map("".join))
def test_long_answers_fit_slacks_limits(text: str) -> None:
    message = messages.answer(
        answer(f"Yes. {text}", link="https://wiki.example/" + "p" * 500), TS, direct=True, buttons=True
    )
    assert fault_of(message.blocks) is None


def test_a_link_that_is_no_web_address_is_none() -> None:
    message = messages.answer(answer("Yes [1].", link="javascript:alert(1)"), TS, direct=True, buttons=False)
    assert "javascript" not in shown(message)
    assert "Handbook" in shown(message)


def test_notes_say_what_to_check() -> None:
    given_ = answer(
        "Yes [1].",
        sentences=[Verdict("It is <b>.", 0, 1, [1], supported=False)],
        held_back=2,
        warnings=[Warning_("model_unavailable", "The language model does not answer.")],
    )
    text = shown(messages.answer(given_, TS, direct=True, buttons=False))
    assert "so check it: It is &lt;b&gt;." in text
    assert "Left out: 2 documents" in text
    assert "The language model does not answer." in text


def test_all_waits_of_a_call_end_at_one_deadline() -> None:
    now, tally = [0.0], Tally()
    waits = Waits(lambda: now[0], lambda seconds: now.__setitem__(0, now[0] + seconds))

    def limited() -> None:
        tally.call("users.info")
        raise RateLimitedError("Slack asks to wait.", 8.0)

    for _ in range(2):
        with pytest.raises(RetryLaterError, match="asks to wait 8 s"):
            waits.within(lambda: call_with_retry(limited, tally, sleep=waits.wait))
    assert (tally.calls["users.info"], now[0]) == (8, 48.0)


class Desk:
    """A channel with a bot in Slack, and the directory, which knows everyone but the bot."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.present = ["U0ADA", "U0ROBOT"]

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        self.calls[method] += 1
        if method == "conversations.info":
            return {"channel": {"id": arguments["channel"]}}
        return {"user": {"id": arguments["user"], "team_id": "T0ACME", "is_bot": True}}

    def members(self, channel: str) -> list[str]:
        self.calls[f"members of {channel}"] += 1
        return self.present

    async def full_members(self, *, accounts: list[str], **_: Any) -> list[str]:
        return [one for one in accounts if one == "U0ADA"]


def test_who_reads_a_channel_is_not_asked_again_and_again() -> None:
    desk, now = Desk(), [0.0]
    conversations = Conversations(cast("Any", desk), cast("Any", desk), Waits(), clock=lambda: now[0])

    async def asks(*moments: float) -> set[bool]:
        found: set[bool] = set()
        for now[0] in moments:
            found.add(await conversations.is_for_members("C0GENERAL", "T0ACME", datetime.now(UTC)))
        return found

    assert asyncio.run(asks(0, 0.5, 5)) == {True}
    assert (desk.calls["members of C0GENERAL"], desk.calls["users.info"]) == (2, 1)
    desk.present += [f"U0GUEST{number}" for number in range(MOST_ASKED_FOR)]
    assert asyncio.run(asks(10)) == {False}, "too many are not known"
    desk.present = ["U0ADA", "U0ROBOT"]
    assert asyncio.run(asks(20, 20 + KNOWN_SECONDS)) == {True}
    assert desk.calls["users.info"] == 2


def test_the_closest_documents_fit_slacks_limits() -> None:
    closest = [DocumentReference("d", "t" * 500, "files", "https://wiki.example/" + "p" * 1900)] * 5
    unanswered = Unanswered(message="None of the 70 documents answers this.", documents=70, closest=closest)
    given_ = answer("No data found", found=False, mode="none", sources=[], cited=[], unanswered=unanswered)
    assert fault_of(messages.answer(given_, TS, direct=True, buttons=True).blocks) is None


def test_an_answer_with_long_links_keeps_its_text() -> None:
    """Slack refuses blocks of some 13,000 characters together: the links go, the citations stay."""
    text = "The kettle is descaled [1]. " * 100
    message = messages.answer(answer(text, link="https://wiki.example/" + "p" * 150), TS, direct=False, buttons=True)
    assert fault_of(message.blocks) is None
    assert shown(message).count("[1]") == 101
    assert shown(message).count("<https://wiki.example/") == 1, "the list of sources"
