"""The Slack assistant: who is answered, from which documents, once, and how."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from resources.sources.slack.checks import assistant_check
from simulators.faults import PASSING, Kind
from sql.assistant import AssistantReads, ClaimedQuestion
from tests.fixtures.assistant import ADA, BOB, GUS, AssistantDesk, text_of
from tests.fixtures.llm import ModelServer
from tests.fixtures.serving import Running
from tests.fixtures.slack_desk import receiver
from tests.fixtures.waiting import until
from tests.fixtures.workers import serving_processes

QUESTION = "When is the kettle of the boardroom descaled?"
EVERYBODY = "The kettle of the boardroom is descaled on Mondays, as qzpublicq says."
MEMBERS = "The kettle of the boardroom is descaled on Tuesdays, as qzmembersq says."
DOMAIN = "The kettle of the boardroom is descaled on Wednesdays, as qzdomainq says."
ADAS = "The kettle of the boardroom is descaled on Thursdays, as qzadaq says."
BOBS = "The kettle of the boardroom is descaled on Fridays, as qzbobq says."
GUESTS = "The kettle of the boardroom is descaled on Sundays, as qzgusq says."
WORDS = ("qzpublicq", "qzmembersq", "qzdomainq", "qzadaq", "qzbobq", "qzgusq")


@pytest.fixture
def desk(assistant_desk: AssistantDesk) -> AssistantDesk:
    site = assistant_desk.site
    for name, text, reader in (
        ("Public", EVERYBODY, "public"),
        ("Members", MEMBERS, assistant_desk.team),
        ("Domain", DOMAIN, "domain:acme.com"),
        ("Ada's", ADAS, ADA),
        ("Bob's", BOBS, BOB),
        ("Gus's", GUESTS, GUS),
    ):
        site.add(name, [text], [reader])
    return assistant_desk


@pytest.fixture
def answering(desk: AssistantDesk) -> Iterator[Running]:
    with desk.answering() as running:
        yield running


def words(text: str) -> set[str]:
    return {word for word in WORDS if word in text}


def sources(desk: AssistantDesk, ts: str) -> set[str]:
    """Return whose documents an answer was made from, by the answer that is kept."""
    rows = desk.site.sql(
        "SELECT d.title FROM slack_questions AS q JOIN answers AS a ON q.answer_id = a.answer_id"
        " CROSS JOIN jsonb_array_elements(a.sources) AS s (source) JOIN documents AS d ON d.doc_id::text = s.source ->> 'doc_id'"
        " WHERE q.ts = %s",
        ts,
    )
    return {row[0] for row in rows}


def test_a_direct_message_is_answered_from_what_the_person_may_read(desk: AssistantDesk, answering: Running) -> None:
    for user, names in (
        (desk.ada, {"Public", "Members", "Domain", "Ada's"}),
        (desk.bob, {"Public", "Members", "Domain", "Bob's"}),
        (desk.gus, {"Public", "Gus's"}),
    ):
        ts = desk.say(user, QUESTION)
        text = desk.reply(user, ts)
        assert desk.closed(ts) == "answered"
        assert sources(desk, ts) == names
        assert words(text) <= {f"qz{name.lower().removesuffix(chr(39) + 's')}q" for name in names}
        assert words(text)
        assert len(desk.replies(user)) == 1


def test_citations_open_the_place_and_nothing_else_is_a_link(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.say(desk.ada, QUESTION)
    text = desk.reply(desk.ada, ts)
    links = re.findall(r"<([^<>|]*)\|([^<>|]*)>", text)
    assert links
    assert all(
        re.fullmatch(r"https://search\.example/documents/[0-9a-f-]{36}\?chunk=0(&amp;from=\d+&amp;to=\d+)?#place", link)
        for link, _ in links
    )
    assert any(re.fullmatch(r"\[\d\]", label) for _, label in links), "in the text"
    assert any(re.fullmatch(r"\[\d\] [\w']+ \(Files, .*\)", label) for _, label in links), "below it"
    (message,) = desk.replies(desk.ada)
    assert message.parent is not None
    assert not words(message.text), "notifications quote nothing"


def test_in_a_channel_only_what_everybody_there_may_read_is_said(desk: AssistantDesk, answering: Running) -> None:
    private = desk.slack.channel("board", (desk.ada, desk.bob), private=True)
    with_guest = desk.slack.channel("project", (desk.ada, desk.gus))
    shared = desk.slack.channel("partners", (desk.ada, desk.eve))
    for channel, names in (
        (desk.general, {"Public", "Members"}),
        (private, {"Public", "Members"}),
        (with_guest, {"Public"}),
        (shared, {"Public"}),
    ):
        ts = desk.mention(channel, desk.ada, QUESTION)
        text = desk.reply(channel, ts)
        assert desk.closed(ts) == "answered", text
        assert sources(desk, ts) == names
        assert words(text) <= {"qzpublicq", "qzmembersq"} if len(names) == 2 else {"qzpublicq"}
        assert "everyone here may read" in text
        assert desk.replies(channel)[-1].parent is not None, "in the thread of the question"


def test_a_new_member_or_bot_in_a_channel_is_looked_up(desk: AssistantDesk, answering: Running) -> None:
    robot = desk.slack.user("Robot", None, bot=True)
    zoe = desk.slack.user("Zoe New", "zoe@acme.com")
    for newcomer, name in ((robot, "with-robot"), (zoe, "with-zoe")):
        channel = desk.slack.channel(name, (desk.ada, newcomer))
        ts = desk.mention(channel, desk.ada, QUESTION)
        desk.closed(ts)
        assert sources(desk, ts) == {"Public", "Members"}
    new_guest = desk.slack.user("Gil Guest", "gil@guest.example", guest=True)
    channel = desk.slack.channel("with-guest", (desk.ada, new_guest))
    ts = desk.mention(channel, desk.ada, QUESTION)
    desk.closed(ts)
    assert sources(desk, ts) == {"Public"}


def test_without_the_scopes_to_see_who_is_there_only_public_documents_are_read(
    desk: AssistantDesk, answering: Running
) -> None:
    desk.slack.set_scopes(desk.slack.scopes - {"channels:read"})
    ts = desk.mention(desk.general, desk.ada, QUESTION)
    desk.closed(ts)
    assert sources(desk, ts) == {"Public"}


def test_a_directory_that_is_too_old_admits_nobody(desk: AssistantDesk, answering: Running) -> None:
    desk.read_directory(at=datetime.now(UTC) - timedelta(days=30))
    ts = desk.say(desk.ada, QUESTION)
    assert "can't answer you here" in desk.reply(desk.ada, ts)
    assert desk.closed(ts) == "unknown_person"


def test_who_is_unknown_gets_a_refusal_that_costs_no_search(desk: AssistantDesk, answering: Running) -> None:
    desk.site.sql("INSERT INTO people (source, email, active) VALUES ('google_directory', %s, FALSE)", BOB)
    nameless = desk.slack.user("Nameless", None)
    shared = desk.slack.channel("partners", (desk.ada, desk.eve))
    texts: set[str] = set()
    for ts, place in (
        (desk.say(desk.bob, QUESTION), desk.bob),
        (desk.say(nameless, QUESTION), nameless),
        (desk.say(desk.eve, QUESTION), desk.eve),
        (desk.mention(shared, desk.eve, QUESTION), shared),
    ):
        texts.add(desk.reply(place, ts))
        assert desk.closed(ts) == "unknown_person"
    assert len(texts) == 1, "all refusals are alike"
    answering.settle()
    assert desk.site.sql("SELECT 1 FROM audit_log WHERE action IN ('ask', 'slack_answer')") == []
    assert desk.site.sql("SELECT 1 FROM answers") == []


def test_messages_of_apps_edits_and_what_slack_writes_are_no_questions(desk: AssistantDesk, answering: Running) -> None:
    robot = desk.slack.user("Robot", None, bot=True)
    desk.slack.join(desk.general, robot)
    desk.mention(desk.general, robot, QUESTION)
    said = desk.slack.post(desk.general, desk.ada, "Good morning.")
    desk.slack.edit(desk.general, said, f"<@{desk.slack.bot}> {QUESTION}")
    desk.slack.post(desk.general, desk.slack.bot, f"<@{desk.slack.bot}> {QUESTION}")
    asked = desk.say(desk.ada, QUESTION)
    desk.closed(asked)
    desk.slack.edit(desk.slack.direct(desk.ada), asked, "What else?")
    desk.slack.delete(desk.slack.direct(desk.ada), asked)
    desk.slack_site.app.requests.settle()
    assert [row[0] for row in desk.rows()] == [asked], "its own reply is none either"


def test_a_question_that_slack_repeats_is_answered_once(desk: AssistantDesk, answering: Running) -> None:
    sent: list[dict[str, Any]] = []
    desk.slack.listeners.append(sent.append)
    ts = desk.say(desk.ada, QUESTION)
    again = sent[0]
    for event_id in (again["event_id"], "Ev0ANOTHERID"):
        desk.slack_site.app.requests.deliver(f"{answering.url}/api/slack/events", again | {"event_id": event_id})
    desk.closed(ts)
    desk.slack_site.app.requests.settle()
    assert len(desk.rows()) == 1
    assert len(desk.replies(desk.ada)) == 1
    assert set(desk.slack_site.app.requests.statuses) == {200}


def test_two_services_answer_each_question_once(desk: AssistantDesk) -> None:
    with desk.answering(), desk.site.running():
        for ts in [desk.say(desk.ada, QUESTION) for _ in range(6)]:
            assert desk.closed(ts) == "answered"
    assert len(desk.replies(desk.ada)) == 6


def test_the_text_of_a_question_is_deleted_once_it_is_answered(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.say(desk.ada, QUESTION)
    desk.closed(ts)
    assert desk.rows()[0][3] is None


def test_answers_are_audited_and_kept_for_who_asked(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.mention(desk.general, desk.ada, QUESTION)
    desk.closed(ts)
    answering.settle()
    (row,) = desk.site.sql("SELECT email, detail, doc_ids::text[] FROM audit_log WHERE action = 'slack_answer'")
    assert row[0] == ADA
    assert row[1]["channel"] == desk.general
    assert row[1]["principals"] == sorted({"public", desk.team})
    assert row[2]
    assert [one[0] for one in desk.site.sql("SELECT email FROM audit_log WHERE action = 'ask'")] == [ADA]
    (listed,) = answering.request("GET", "/api/answers", ADA).json()["answers"]
    assert listed["query"] == QUESTION
    assert answering.request("GET", f"/api/answers/{row[1]['answer_id']}", BOB).status_code == 404


def test_what_a_document_says_cannot_mention_or_link(desk: AssistantDesk, answering: Running) -> None:
    attack = (
        "The moat of the castle is drained by <!channel> and <@U0EVIL123> on <https://evil.example/x|Fridays>, "
        "see https://evil.example/y &lt;!here&gt; too."
    )
    desk.site.add("Moat|<!everyone> & co", [attack], [ADA], url="https://wiki.example/a?b=1&c=|<!here>")
    ts = desk.say(desk.ada, "Who drains the moat of the castle?")
    text = desk.reply(desk.ada, ts)
    assert "moat" in text
    for banned in ("<!", "<@", "<https://evil", "<http://evil"):
        assert banned not in text
    assert "<https://wiki.example/a?b=1&amp;c=%7C%3C!here%3E|" in text
    (message,) = desk.replies(desk.ada)
    texts = [block["text"] for block in message.blocks if block["type"] == "section"]
    assert all(one["verbatim"] for one in texts)


def test_what_is_kept_unshared_is_not_said_in_a_channel(desk: AssistantDesk, answering: Running) -> None:
    secret = "The anchor of the ferry is painted in May, as qzanchorq says."
    desk.site.add("Ferry", [secret], [desk.team], tags={"answer_sharing": "nobody"})
    ts = desk.mention(desk.general, desk.ada, "When is the anchor of the ferry painted?")
    assert "qzanchorq" not in desk.reply(desk.general, ts)
    assert desk.closed(ts) == "only_direct"
    ts = desk.say(desk.ada, "When is the anchor of the ferry painted?")
    assert "qzanchorq" in desk.reply(desk.ada, ts)


def test_nothing_found_says_where_to_ask(desk: AssistantDesk, answering: Running) -> None:
    unknown = "What colour has the submarine of the Emperor of Zanzibar?"
    ts = desk.mention(desk.general, desk.ada, unknown)
    assert "Ask me in a direct message" in desk.reply(desk.general, ts)
    assert desk.closed(ts) == "nothing_found"
    ts = desk.say(desk.ada, unknown)
    assert "that you can read answers this" in desk.reply(desk.ada, ts)


def test_no_question_gets_help_and_a_long_one_a_limit(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.mention(desk.general, desk.ada, "")
    assert "Ask me a question" in desk.reply(desk.general, ts)
    ts = desk.say(desk.ada, "kettle " * 200)
    assert "1,000 characters" in desk.reply(desk.ada, ts)


def test_questions_count_against_the_limit_of_their_person(desk: AssistantDesk) -> None:
    desk.site.settings = desk.site.settings.model_copy(update={"search_rate_limit": 1})
    with desk.answering():
        first = desk.say(desk.ada, QUESTION)
        desk.closed(first)
        second = desk.say(desk.ada, QUESTION)
        assert "ask again in" in desk.reply(desk.ada, second)
        assert desk.closed(second) == "rate_limited"
        other = desk.say(desk.bob, QUESTION)
        assert desk.closed(other) == "answered"


def test_a_question_that_waited_too_long_is_closed_in_silence(desk: AssistantDesk) -> None:
    desk.site.sql(
        "INSERT INTO slack_questions (channel, ts, event_id, team, account, thread, direct, question, received_at)"
        " VALUES (%s, '1700000000.000100', 'Ev1', %s, %s, '1700000000.000100', TRUE, %s, now() - interval '1 hour')",
        desk.slack.direct(desk.ada),
        desk.slack.team,
        desk.ada,
        QUESTION,
    )
    with desk.answering():
        assert desk.closed("1700000000.000100") == "late"
    assert desk.replies(desk.ada) == []


def test_without_the_scope_to_write_questions_are_closed(desk: AssistantDesk, answering: Running) -> None:
    desk.slack.set_scopes(desk.slack.scopes - {"chat:write"})
    ts = desk.say(desk.ada, QUESTION)
    assert desk.closed(ts) == "refused_by_slack"
    assert answering.request("GET", "/healthz").status_code == 200


def test_an_error_that_nobody_foresaw_does_not_end_the_assistant(
    desk: AssistantDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, failed = AssistantReads.question_claim, threading.Event()

    async def claimed(self: AssistantReads, *, lease_seconds: float) -> ClaimedQuestion | None:
        if failed.is_set():
            return await claim(self, lease_seconds=lease_seconds)
        failed.set()
        raise RuntimeError("an error that nobody foresaw")

    monkeypatch.setattr(AssistantReads, "question_claim", claimed)
    with capture_logs() as logs, desk.answering():
        assert failed.wait(30)
        ts = desk.say(desk.ada, QUESTION)
        assert desk.closed(ts) == "answered"
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["slack_assistant_failed"]


@pytest.mark.parametrize("kind", PASSING)
@pytest.mark.parametrize("method", ["chat.postMessage", "chat.update"])
def test_a_fault_of_slack_neither_loses_nor_doubles_a_reply(
    desk: AssistantDesk, answering: Running, kind: Kind, method: str
) -> None:
    desk.slack_site.faults.add(kind, match=method, seconds=0.1)
    ts = desk.say(desk.ada, QUESTION)
    assert words(desk.reply(desk.ada, ts))
    assert len(desk.replies(desk.ada)) == 1
    assert desk.slack_site.faults.committed[kind] == 1


def test_an_answer_is_rated_once_by_who_asked(desk: AssistantDesk) -> None:
    with desk.site.running() as running, receiver(desk.site.settings):
        ts = desk.mention(desk.general, desk.ada, QUESTION)
        desk.closed(ts)
        reply_ts = next(row[2] for row in desk.rows() if row[0] == ts)
        sockets = desk.slack_site.app.sockets
        for user, action in ((desk.bob, "answer_bad"), (desk.ada, "answer_good"), (desk.ada, "answer_bad")):
            before = len(sockets.acknowledged)
            desk.slack.press(desk.general, reply_ts, user, action)
            until(lambda before=before: len(sockets.acknowledged) > before, "the acknowledgement")
        until(lambda: desk.slack.whispers, "the thanks")
        assert desk.slack.whispers == [(desk.general, desk.ada, "Thank you, your rating was saved.")]
        rows = desk.site.sql("SELECT email, verdict, answer_id FROM feedback")
        assert [row[:2] for row in rows] == [(ADA, "good")]
        assert desk.site.sql("SELECT answer_id FROM slack_questions WHERE ts = %s", ts)[0][0] == rows[0][2]
        assert running.request("GET", "/healthz").status_code == 200


def test_a_rating_that_was_stored_but_not_recorded_counts_once(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.say(desk.ada, QUESTION)
    desk.closed(ts)
    for _ in range(2):
        desk.site.sql("UPDATE slack_questions SET verdict = 'good', rated_at = NULL WHERE ts = %s", ts)
        until(lambda: desk.site.sql("SELECT 1 FROM slack_questions WHERE rated_at IS NOT NULL"), "the rating")
    assert len(desk.site.sql("SELECT 1 FROM feedback")) == 1


def test_a_rating_for_which_slack_makes_us_wait_delays_no_question(desk: AssistantDesk, answering: Running) -> None:
    rated = desk.say(desk.ada, QUESTION)
    desk.closed(rated)
    desk.slack_site.faults.add("rate_limit", times=0, match="chat.postEphemeral", seconds=8)
    desk.site.sql("UPDATE slack_questions SET verdict = 'good' WHERE ts = %s", rated)
    until(lambda: desk.slack_site.faults.committed["rate_limit"], "a refused call")
    try:
        assert desk.closed(desk.say(desk.ada, QUESTION)) == "answered"
        assert desk.slack.whispers == []
    finally:
        desk.slack_site.faults.clear()


def test_a_rating_of_an_answer_that_is_gone_is_not_thanked_for(desk: AssistantDesk, answering: Running) -> None:
    rated = desk.mention(desk.general, desk.ada, QUESTION)
    desk.closed(rated)
    answering.settle()
    desk.site.sql("DELETE FROM answers")
    desk.site.sql("UPDATE slack_questions SET verdict = 'good' WHERE ts = %s", rated)
    until(lambda: desk.slack.whispers, "what only the asker sees")
    assert desk.slack.whispers == [
        (desk.general, desk.ada, "Sorry, your rating could not be saved: this answer is not stored any more.")
    ]


def test_an_answer_that_slack_refuses_is_replaced_by_an_apology(desk: AssistantDesk, answering: Running) -> None:
    desk.slack_site.faults.add("bad_request", match="chat.update")
    ts = desk.say(desk.ada, QUESTION)
    assert "Slack could not show my answer here" in desk.reply(desk.ada, ts)
    assert desk.closed(ts) == "refused_by_slack"


def test_who_joins_the_channel_meanwhile_is_not_told_what_only_members_may_read(
    desk: AssistantDesk, with_model: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.assistant.conversations.AGAIN_SECONDS", 0)
    with_model.hold()
    with desk.answering():
        ts = desk.mention(desk.general, desk.ada, QUESTION)
        with_model.wait_for(1)
        desk.slack.join(desk.general, desk.gus)
        with_model.release()
        assert not words(desk.reply(desk.general, ts))
        assert desk.closed(ts) == "failed"


@pytest.fixture
def with_model(desk: AssistantDesk, model_server: ModelServer) -> ModelServer:
    desk.site.settings = desk.site.settings.model_copy(
        update={"llm_model": "stand-in", "llm_base_url": model_server.url, "llm_timeout_seconds": 20.0}
    )
    return model_server


def test_a_follow_up_in_the_thread_knows_what_its_person_was_answered(
    desk: AssistantDesk, with_model: ModelServer
) -> None:
    with desk.answering():
        root = desk.mention(desk.general, desk.ada, QUESTION)
        desk.closed(root)
        (first,) = with_model.prompts
        for user, text, thread, follows in (
            (desk.ada, "And who does it, and how?", root, True),
            (desk.bob, "And when is the kettle of the boardroom descaled?", root, False),
            (desk.ada, "So when is the kettle of the boardroom descaled?", None, False),
        ):
            desk.closed(desk.mention(desk.general, user, text, thread=thread))
            assert ("EARLIER CONVERSATION" in with_model.prompts[-1].text) == follows
        assert len(with_model.prompts) == 4
        assert QUESTION in first.question


def test_a_follow_up_is_not_shown_what_may_not_be_read_any_more(desk: AssistantDesk, with_model: ModelServer) -> None:
    with desk.answering():
        root = desk.say(desk.ada, QUESTION)
        desk.closed(root)
        desk.site.sql(
            "UPDATE documents SET permissions = ARRAY['carl@acme.com'] WHERE title <> 'Public' OR source_title <> 'Public'"
        )
        ts = desk.say(desk.ada, "And who does it, and how?", thread=root)
        desk.closed(ts)
        said = str(with_model.requests[1:])
        assert words(said) <= {"qzpublicq"}


def test_a_reply_that_a_process_did_not_record_is_found_again(desk: AssistantDesk, answering: Running) -> None:
    ts = desk.say(desk.ada, QUESTION)
    desk.closed(ts)
    again = "UPDATE slack_questions SET outcome = NULL, answer_id = NULL, reply_ts = NULL, question = %s, attempts = 1"
    desk.site.sql(again, "Is the kettle of the boardroom descaled?")
    assert words(desk.reply(desk.ada, ts))
    assert len(desk.replies(desk.ada)) == 1


def test_a_question_of_a_killed_process_is_answered_in_the_same_message(
    desk: AssistantDesk, with_model: ModelServer, models_home: Path
) -> None:
    (desk.site.settings.home / "models").symlink_to(models_home)
    with_model.hold()
    with serving_processes(desk.site, 1) as running:
        desk.slack_site.app.set_request_url(f"{running.url}/api/slack/events")
        ts = desk.say(desk.ada, QUESTION)
        with_model.wait_for(1)
        (placeholder,) = desk.replies(desk.ada)
        assert text_of(placeholder) == "Looking for an answer …"
        [killed] = running.workers
        killed.kill()
        killed.wait(30)
    desk.site.sql("UPDATE slack_questions SET leased_until = now()")
    with_model.release()
    with desk.answering():
        assert words(desk.reply(desk.ada, ts))
        assert desk.closed(ts) == "answered"
    assert len(desk.replies(desk.ada)) == 1


def test_doctor_says_where_people_may_ask(desk: AssistantDesk) -> None:
    def found(*scopes: str) -> tuple[bool, str]:
        desk.slack.set_scopes(scopes)
        check = assistant_check(desk.site.settings)
        return check.ok, check.detail

    assert found("chat:write", "im:history") == (True, "answers questions in direct messages")
    assert found("chat:write", "im:history", "app_mentions:read") == (
        True,
        "answers questions in mentions and direct messages",
    )
    assert found("channels:read")[1].startswith("off: ")
    assert found("im:history") == (False, "the app hears questions and may not answer them")
    desk.slack.revoke()
    assert not assistant_check(desk.site.settings).ok
