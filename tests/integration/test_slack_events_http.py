"""Slack's events over HTTP: deleted or edited messages are hidden at once, and the next sync reads only these again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from resources.core.domain import Batch, Item, SourceName
from resources.sources.slack.envelope import Envelope
from resources.sources.slack.events import record
from resources.sources.slack.source import Slack
from resources.stores.memory import PostgresMemory
from resources.stores.postgres import Connection, session
from resources.stores.withheld import WithheldNow
from serving.identity.tokens import access_of
from serving.identity.withheld import partition_of
from serving.search.retrieval.registry import from_payloads
from serving.sources.sync_requests import GATHER_SECONDS
from tests.fixtures.serving import FakeLauncher
from tests.fixtures.slack_desk import ADA, PAGE, SlackDesk
from tests.fixtures.waiting import until

BOB = "bob@acme.example"


@pytest.fixture
def desk(slack_desk: SlackDesk) -> SlackDesk:
    return slack_desk


def test_an_old_message_that_is_deleted_is_hidden_at_once_and_stays_gone(desk: SlackDesk) -> None:
    ts = desk.said["w3"]
    assert desk.finds("qz3q")
    desk.slack.delete(desk.channel, ts)
    assert desk.finds("qz3q"), "Slack has not reported it yet"
    answer = desk.post(desk.deleted(ts))
    assert (answer.status_code, answer.json()) == (200, {"outcome": "recorded"})
    assert not desk.finds("qz3q")
    assert desk.finds("qz4q")
    desk.sync()
    assert not desk.finds("qz3q")
    assert desk.installation.agrees()
    assert "qz3q" not in str(desk.installation.points())
    assert desk.installation.rows("SELECT * FROM hidden_documents") == []
    assert desk.installation.rows("SELECT * FROM source_memory WHERE key LIKE 'e:%%'") == []


def test_an_old_message_that_is_edited_is_found_as_it_is_now(desk: SlackDesk) -> None:
    ts = desk.said["w5"]
    desk.slack.edit(desk.channel, ts, "The password is gone: qznewq.")
    assert desk.post(desk.edited(ts)).status_code == 200
    assert not desk.finds("qz5q")
    desk.sync()
    assert (desk.finds("qz5q"), desk.finds("qznewq")) == (False, True)


@pytest.mark.parametrize("change", ["delete", "edit"])
def test_an_old_reply_is_hidden_and_its_thread_read_again(desk: SlackDesk, change: str) -> None:
    if change == "delete":
        desk.slack.delete(desk.channel, desk.reply)
        envelope = desk.deleted(desk.reply, desk.root)
    else:
        desk.slack.edit(desk.channel, desk.reply, "The answer is withheld.")
        envelope = desk.edited(desk.reply, desk.root)
    assert desk.finds("qzreplyq")
    desk.post(envelope)
    assert not desk.finds("qzreplyq")
    desk.sync()
    assert not desk.finds("qzreplyq")
    assert desk.finds("herons")


def test_an_event_that_comes_while_a_sync_saves_is_not_missed(desk: SlackDesk) -> None:
    """The sync has read the channel, and writes the documents after the event looked for them."""
    settings = desk.installation.settings
    fresh = desk.slack.post(desk.channel, desk.ada, "The password is qzfreshq.")
    source = Slack(settings, PostgresMemory(settings.postgres_dsn), page=PAGE)
    changes = source.changes

    def late(partition: str, cursor: str | None) -> Iterator[Any]:
        for batch in changes(partition, cursor):
            if batch.seen:  # nothing else has changed
                desk.slack.delete(desk.channel, fresh)
                assert desk.post(desk.deleted(fresh)).json() == {"outcome": "recorded"}
            yield batch

    source.changes = late  # type: ignore[method-assign]
    desk.installation.sync(SourceName.SLACK, port=source)
    assert desk.installation.rows("SELECT doc_id FROM hidden_documents") != []
    assert not desk.finds("qzfreshq")
    desk.sync()
    assert not desk.finds("qzfreshq")
    assert desk.installation.rows("SELECT doc_id FROM hidden_documents") == []


def test_events_count_while_a_channel_waits_to_be_read_from_the_beginning(desk: SlackDesk, private: str) -> None:
    """As in a full sync or a reconciliation of a large workspace, which gets to a channel after hours."""
    settings = desk.installation.settings
    source = Slack(settings, PostgresMemory(settings.postgres_dsn), page=PAGE)
    changes, seen = source.changes, list[bool]()

    def late(partition: str, cursor: str | None) -> Iterator[Any]:
        if not seen:
            assert desk.post(desk.deleted(desk.said["w3"])).json() == {"outcome": "recorded"}
            assert desk.post(left(desk, private, desk.bob)).json() == {"outcome": "recorded"}
            seen.extend((desk.finds("qz3q"), desk.finds("qzboardq", BOB), desk.finds("qz4q")))
            desk.slack.delete(desk.channel, desk.said["w3"])
            desk.slack.leave(private, desk.bob)
        yield from changes(partition, cursor)

    source.changes = late  # type: ignore[method-assign]
    desk.installation.sync(SourceName.SLACK, port=source, full=True)
    assert seen == [False, False, True]
    desk.sync()
    assert (desk.finds("qz3q"), desk.finds("qzboardq", BOB), desk.finds("qz4q")) == (False, False, True)
    assert desk.installation.rows("SELECT * FROM hidden_documents") == []
    assert desk.installation.rows("SELECT * FROM departures") == []


def test_messages_whose_deletion_waits_for_approval_stay_hidden(desk: SlackDesk) -> None:
    gone = [f"w{number}" for number in range(3 * PAGE - 1)]
    for name in gone:
        desk.slack.delete(desk.channel, desk.said[name])
        assert desk.post(desk.deleted(desk.said[name])).json() == {"outcome": "recorded"}
    for _ in range(2):
        desk.sync()
        assert [name for name in gone if desk.finds(f"qz{name[1:]}q")] == []
    assert len(desk.installation.rows("SELECT FROM held_deletions")) == len(gone)
    assert desk.finds(f"qz{3 * PAGE - 1}q")


def test_what_is_hidden_stays_hidden_without_postgres(desk: SlackDesk) -> None:
    desk.post(desk.deleted(desk.said["w3"]))
    narrowed = desk.rights()
    rows = desk.installation.rows("SELECT doc_id::text AS doc_id FROM hidden_documents")
    assert {row["doc_id"] for row in rows} == {doc for doc, readers in narrowed.items() if not readers}
    (point,) = [point for point in desk.installation.points() if "qz3q" in point["chunk_text"]]
    access = access_of(ADA, [], admin=False)
    access = msgspec.structs.replace(access, principals=access.principals | {f"slack:{desk.slack.team}"})
    ages_ago = datetime(2020, 1, 1, tzinfo=UTC)
    checked = {partition_of(point): datetime.now(UTC).timestamp()}
    before, after = WithheldNow({}, checked, {}), WithheldNow(narrowed, checked, {})
    assert from_payloads({point["id"]: point}, access, ages_ago, before, collection_ids=()).passages != {}
    assert from_payloads({point["id"]: point}, access, ages_ago, after, collection_ids=()).passages == {}


def test_an_event_looks_at_no_other_that_waits(desk: SlackDesk) -> None:
    """As when thousands of messages are deleted: Slack waits three seconds for each answer."""
    assert desk.post(desk.deleted(desk.said["w3"])).json() == {"outcome": "recorded"}
    with session(desk.installation.settings.postgres_dsn) as connection:
        connection.execute(
            "INSERT INTO source_memory (source, partition, key, value) SELECT source, partition, key || n, value"
            " FROM source_memory CROSS JOIN generate_series(1, 1000) AS n WHERE key LIKE 'e:%%'"
        )
        connection.execute("SET LOCAL enable_seqscan = off")  # the table is small
        before = rows_read(connection)
        assert len(record(connection, msgspec.convert(desk.deleted(desk.said["w4"]), Envelope), Told()).hidden) == 1
        assert rows_read(connection) - before < 100


class Told:
    def documents(self, *_: object) -> None:
        """Keep nothing: the transaction is rolled back."""


def rows_read(connection: Connection) -> int:
    """Return how many rows of the memory of sources this transaction has read."""
    (row,) = connection.execute(
        "SELECT seq_tup_read + idx_tup_fetch AS read FROM pg_stat_xact_user_tables WHERE relname = 'source_memory'"
    ).fetchall()
    return int(row["read"])


def all_asked_for(desk: SlackDesk) -> bool:
    return not desk.installation.rows("SELECT 1 FROM source_events WHERE asked_at IS NULL")


def test_a_sync_of_the_channel_is_asked_for_once(desk: SlackDesk) -> None:
    calls, began = desk.running.site.launcher.calls, time.monotonic()
    for number in (3, 4, 5):
        desk.post(desk.deleted(desk.said[f"w{number}"]))
    until(lambda: all_asked_for(desk), "all asked for")
    assert {call["source"] for call in calls} == {SourceName.SLACK}
    assert all(call["partitions"] == [desk.channel] for call in calls)
    assert len(calls) <= (time.monotonic() - began) / GATHER_SECONDS


def test_an_event_that_comes_while_a_sync_is_being_started_is_asked_for_next(
    desk: SlackDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, launch = desk.running.site.launcher.calls, FakeLauncher.__call__

    def launched(*given: Any, **named: Any) -> Any:
        if not calls:
            desk.post(desk.deleted(desk.said["w4"]))
        return launch(*given, **named)

    monkeypatch.setattr(FakeLauncher, "__call__", launched)
    desk.post(desk.deleted(desk.said["w3"]))
    until(lambda: all_asked_for(desk), "both asked for")
    assert [call["partitions"] for call in calls] == [[desk.channel]] * 2


def test_what_slack_did_not_sign_is_refused(desk: SlackDesk) -> None:
    envelope = desk.deleted(desk.said["w3"])
    now = time.time()
    assert desk.post(envelope, secret="another").status_code == 401
    late = desk.post(envelope, at=now - 301)
    early = desk.post(envelope, at=now + 360)  # a busy machine takes seconds until here
    assert (late.status_code, early.status_code) == (401, 401)
    assert "Slack signed this 3" in late.json()["detail"]
    assert "server's clock is wrong" in early.json()["detail"]
    assert "clock" not in desk.post(envelope, secret="another", at=now - 301).text
    unsigned = desk.running.request("POST", "/api/slack/events", json=envelope)
    assert unsigned.status_code == 401
    for stamp, signature in (("soon", "v0=ab"), (str(int(now)), "v0=é"), ("9" * 5000, "v0=ab")):
        odd = [(b"X-Slack-Request-Timestamp", stamp.encode()), (b"X-Slack-Signature", signature.encode())]
        answer = desk.running.http.post("/api/slack/events", json=envelope, headers=odd)
        assert answer.status_code == 401, stamp[:9]
    assert desk.finds("qz3q")
    assert desk.installation.rows("SELECT * FROM source_events") == []


def test_a_repeated_event_does_nothing(desk: SlackDesk) -> None:
    envelope = desk.deleted(desk.said["w3"])
    assert [desk.post(envelope).json()["outcome"] for _ in range(3)] == ["recorded", "repeated", "repeated"]
    desk.sync()
    assert desk.finds("qz3q"), "it was not deleted in Slack after all"
    assert desk.post(envelope).json()["outcome"] == "repeated"
    assert desk.finds("qz3q")


def test_events_of_other_workspaces_and_of_direct_messages_do_nothing(desk: SlackDesk) -> None:
    envelope = desk.deleted(desk.said["w3"])
    assert desk.post(envelope | {"team_id": "T0OTHER"}).json()["outcome"] == "other_team"
    direct = desk.deleted(desk.said["w3"])
    direct["event"]["channel_type"] = "im"
    assert desk.post(direct).json()["outcome"] == "not_indexed"
    assert desk.finds("qz3q")


@pytest.fixture
def private(desk: SlackDesk) -> str:
    """A private channel with Ada and Bob in it, indexed."""
    channel = desk.slack.channel("board", (desk.ada, desk.bob), private=True)
    desk.slack.post(channel, desk.ada, "The price is qzboardq.")
    desk.sync()
    assert desk.finds("qzboardq", BOB)
    return channel


def left(desk: SlackDesk, channel: str, user: str) -> dict[str, Any]:
    return desk.envelope(type="member_left_channel", user=user, channel=channel, channel_type="G", team=desk.slack.team)


def test_somebody_who_leaves_a_private_channel_finds_nothing_in_it_from_then_on(desk: SlackDesk, private: str) -> None:
    desk.slack.leave(private, desk.bob)
    assert desk.finds("qzboardq", BOB), "Slack has not reported it yet"
    assert desk.post(left(desk, private, desk.bob)).json() == {"outcome": "recorded"}
    assert (desk.finds("qzboardq", BOB), desk.finds("qzboardq", ADA)) == (False, True)
    assert desk.finds("qz4q", BOB), "other channels stay"
    (doc,) = desk.installation.rows("SELECT doc_id::text AS id FROM documents WHERE partition = %s", private)
    assert desk.running.request("GET", f"/api/documents/{doc['id']}", BOB).status_code == 404
    assert desk.rights()[doc["id"]] == {ADA}
    desk.sync()
    assert (desk.finds("qzboardq", BOB), desk.finds("qzboardq", ADA)) == (False, True)
    assert desk.installation.rows("SELECT * FROM departures") == []
    assert desk.installation.agrees()


def test_somebody_who_comes_back_finds_it_again(desk: SlackDesk, private: str) -> None:
    assert desk.post(left(desk, private, desk.bob)).json() == {"outcome": "recorded"}
    assert not desk.finds("qzboardq", BOB)
    desk.sync()
    assert desk.finds("qzboardq", BOB), "Slack says that Bob is there"


def test_a_sync_that_read_the_members_before_does_not_give_it_back(desk: SlackDesk, private: str) -> None:
    settings = desk.installation.settings
    desk.slack.post(private, desk.ada, "The date is qzdateq.")
    source = Slack(settings, PostgresMemory(settings.postgres_dsn), page=PAGE)
    changes = source.changes

    def late(partition: str, cursor: str | None) -> Iterator[Any]:
        for batch in changes(partition, cursor):
            if partition == private and batch.seen:
                desk.slack.leave(private, desk.bob)
                assert desk.post(left(desk, private, desk.bob)).json() == {"outcome": "recorded"}
            yield batch

    source.changes = late  # type: ignore[method-assign]
    desk.installation.sync(SourceName.SLACK, port=source)
    assert [word for word in ("qzboardq", "qzdateq") if desk.finds(word, BOB)] == []
    assert desk.finds("qzdateq", ADA)
    desk.sync()
    assert [word for word in ("qzboardq", "qzdateq") if desk.finds(word, BOB)] == []
    assert desk.installation.rows("SELECT * FROM departures") == []


@pytest.mark.parametrize("kind", ["private", "guest"])
def test_somebody_who_joins_and_leaves_while_a_sync_runs_finds_nothing(
    desk: SlackDesk, private: str, kind: str
) -> None:
    """No document names them when the event comes, since the sync that has read the members has not stored them yet."""
    settings = desk.installation.settings
    channel, word = (desk.channel, "qz4q") if kind == "guest" else (private, "qzboardq")
    address = "carol@acme.example"
    carol = desk.slack.user("Carol Shaw", address, guest=kind == "guest")
    desk.slack.post(channel, desk.ada, "The date is qzdateq.")
    source = Slack(settings, PostgresMemory(settings.postgres_dsn), page=PAGE)
    changes = source.changes

    def late(partition: str, cursor: str | None) -> Iterator[Any]:
        if partition == channel:
            desk.slack.join(channel, carol)
        for batch in changes(partition, cursor):
            if partition == channel and carol in desk.slack.find_channel(channel).members:
                desk.slack.leave(channel, carol)
                assert desk.post(left(desk, channel, carol)).json() == {"outcome": "recorded"}
            yield batch

    source.changes = late  # type: ignore[method-assign]
    desk.installation.sync(SourceName.SLACK, port=source)
    (read,) = desk.installation.rows(
        "SELECT count(*) AS n FROM documents WHERE partition = %s AND permissions @> ARRAY[%s]", channel, address
    )
    assert read["n"], "the sync has read that Carol is there"
    assert [one for one in (word, "qzdateq") if desk.finds(one, address)] == []
    assert desk.finds("qzdateq", ADA)
    desk.sync()
    assert [one for one in (word, "qzdateq") if desk.finds(one, address)] == []
    assert desk.installation.rows("SELECT * FROM departures") == []


def test_a_member_who_leaves_a_public_channel_still_finds_it(desk: SlackDesk) -> None:
    desk.slack.leave(desk.channel, desk.bob)
    assert desk.post(left(desk, desk.channel, desk.bob)).json() == {"outcome": "recorded"}
    assert desk.finds("qz4q", BOB)
    assert desk.installation.rows("SELECT * FROM departures") == []


def test_events_of_another_app_do_nothing(desk: SlackDesk) -> None:
    envelope = desk.deleted(desk.said["w3"])
    for other in ("A0OTHER", ""):
        assert desk.post(envelope | {"api_app_id": other}).json()["outcome"] == "other_app"
    assert desk.finds("qz3q")
    assert desk.calls["bots.info"] == 1
    desk.sync()
    assert desk.calls["bots.info"] == 1
    assert desk.post(envelope).json()["outcome"] == "recorded"


def test_what_slack_sends_to_the_address_by_itself_is_taken(desk: SlackDesk) -> None:
    app = desk.site.app
    app.set_request_url(f"{desk.running.url}/api/slack/events")  # it verifies the address first
    desk.slack.delete(desk.channel, desk.said["w3"])
    desk.slack.edit(desk.channel, desk.said["w5"], "The password is gone.")
    app.requests.settle()
    assert app.requests.statuses == [200, 200]
    assert [word for word in ("qz3q", "qz4q", "qz5q") if desk.finds(word)] == ["qz4q"]


def test_the_address_is_verified_by_its_challenge(desk: SlackDesk) -> None:
    answer = desk.post({"type": "url_verification", "challenge": "3eZbrw1aB", "token": "x"})
    assert (answer.status_code, answer.json()) == (200, {"challenge": "3eZbrw1aB"})


def test_a_channel_that_turns_private_is_hidden_until_its_members_are_known(desk: SlackDesk) -> None:
    everybody = desk.slack.user("Eve Else", "eve@acme.example")
    assert everybody
    desk.sync()
    assert desk.finds("qz3q", "eve@acme.example")
    desk.slack.make_private(desk.channel)
    desk.post(desk.envelope(type="message", subtype="channel_convert_to_private", ts="1.0"))
    assert not desk.finds("qz3q", "eve@acme.example")
    assert not desk.finds("qz3q")
    desk.sync()
    assert not desk.finds("qz3q", "eve@acme.example")
    assert desk.finds("qz3q")


def test_a_deleted_file_is_hidden_at_once(desk: SlackDesk) -> None:
    file = desk.slack.upload(desk.ada, "plan.txt", b"The plan is qzfileq.\n", "text/plain")
    desk.slack.post(desk.channel, desk.ada, "See the file.", files=[file])
    desk.sync()
    assert desk.finds("qzfileq")
    desk.slack.delete_file(file)
    desk.post(desk.envelope(type="file_deleted", file_id=file))
    assert not desk.finds("qzfileq")
    desk.sync()
    assert not desk.finds("qzfileq")


def sync_with(
    desk: SlackDesk, channel: str, deliver: Callable[[], None], *, once_fetched: bool = False, word: str = ""
) -> None:
    """Sync; between reading the first of a channel (with `once_fetched`, a file's bytes) and saving it, something happens in Slack."""
    settings = desk.installation.settings
    source = Slack(settings, PostgresMemory(settings.postgres_dsn), page=PAGE)
    changes, fetch, done = source.changes, source.fetch, list[bool]()

    def happen() -> None:
        if not done:
            done.append(True)
            deliver()

    def late(partition: str, cursor: str | None) -> Iterator[Batch]:
        for batch in changes(partition, cursor):
            if partition == channel and not once_fetched:
                happen()
            yield batch

    def late_fetch(item: Item) -> Iterator[bytes]:
        content = b"".join(fetch(item))
        if once_fetched and word.encode() in content:
            happen()
        yield content

    source.changes, source.fetch = late, late_fetch  # type: ignore[method-assign]
    assert desk.installation.sync(SourceName.SLACK, port=source).error is None
    assert done


EVE = "eve@acme.example"


@pytest.mark.parametrize("change", ["left", "deleted", "private"])
def test_events_count_while_a_channel_is_read_for_the_first_time(desk: SlackDesk, change: str) -> None:
    """Nothing of it is stored yet, and the sync saves what it has read before."""
    eve = desk.slack.user("Eve Else", EVE)
    channel = desk.slack.channel("plans", (desk.ada, eve), private=change == "left")
    ts = desk.slack.post(channel, desk.ada, "The date is qzfirstq.")
    desk.slack.post(channel, desk.ada, "The place is qzplaceq.")

    def deliver() -> None:
        if change == "left":
            desk.slack.leave(channel, eve)
            envelope = left(desk, channel, eve)
        elif change == "deleted":
            desk.slack.delete(channel, ts)
            envelope = desk.deleted(ts)
            envelope["event"]["channel"] = channel
        else:
            desk.slack.make_private(channel)
            desk.slack.leave(channel, eve)
            envelope = desk.envelope(type="message", subtype="channel_convert_to_private", ts="1.0")
            envelope["event"]["channel"] = channel
        assert desk.post(envelope).json() == {"outcome": "recorded"}

    sync_with(desk, channel, deliver)
    until(lambda: is_asked_for(desk, channel), "a sync of the channel")
    assert not desk.finds("qzfirstq", EVE)
    desk.sync()
    assert not desk.finds("qzfirstq", EVE)
    assert desk.finds("qzplaceq", ADA)
    assert desk.finds("qzfirstq", ADA) is (change != "deleted")
    assert waiting(desk) == []


@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_is_deleted_while_it_is_stored_is_hidden(desk: SlackDesk, known: bool) -> None:
    """No document is known to contain it when the event comes."""
    channel = desk.channel if known else desk.slack.channel("plans", (desk.ada,))
    file = desk.slack.upload(desk.ada, "plan.txt", b"The plan is qzfileq.\n", "text/plain")
    desk.slack.post(channel, desk.ada, "See the file.", files=[file])

    def deliver() -> None:
        desk.slack.delete_file(file)
        assert desk.post(desk.envelope(type="file_deleted", file_id=file)).json() == {"outcome": "recorded"}

    sync_with(desk, channel, deliver, once_fetched=True, word="qzfileq")
    until(lambda: is_asked_for(desk, channel), "a sync of the channel")
    assert not desk.finds("qzfileq")
    desk.sync()
    assert not desk.finds("qzfileq")
    assert waiting(desk) == []


def test_events_of_what_is_never_stored_ask_for_no_sync_and_are_forgotten(desk: SlackDesk) -> None:
    elsewhere = desk.slack.channel("elsewhere", (desk.ada, desk.bob), private=True, bot=False)

    def deliver() -> None:
        assert desk.post(left(desk, elsewhere, desk.bob)).json() == {"outcome": "recorded"}
        assert desk.post(desk.envelope(type="file_deleted", file_id="F0NONE")).json() == {"outcome": "recorded"}

    desk.slack.post(desk.channel, desk.ada, "Good evening.")
    sync_with(desk, desk.channel, deliver)
    assert len(waiting(desk)) == 3
    assert desk.installation.rows("SELECT event_id FROM source_events WHERE asked_at IS NULL") == []
    desk.sync()
    assert waiting(desk) == []
    assert desk.post(left(desk, elsewhere, desk.bob)).json() == {"outcome": "unknown_channel"}, "no sync is running"


def is_asked_for(desk: SlackDesk, channel: str) -> bool:
    """Return True if a sync of a channel was requested, or is to be: the service looks for such events only soon after each."""
    waits = desk.installation.rows("SELECT 1 FROM source_events WHERE partition = %s AND asked_at IS NULL", channel)
    return bool(waits) or [channel] in [call["partitions"] for call in desk.running.site.launcher.calls]


def waiting(desk: SlackDesk) -> list[Any]:
    """Return what events have left behind for the next sync."""
    return [
        *desk.installation.rows("SELECT partition, key FROM source_memory WHERE key LIKE 'e:%%'"),
        *desk.installation.rows("SELECT partition, email FROM departures"),
        *desk.installation.rows("SELECT doc_id FROM hidden_documents"),
    ]


def test_an_event_and_the_sync_that_saves_its_channel_wait_for_each_other_in_turn(desk: SlackDesk) -> None:
    """Each locks the channel and documents. Postgres ends one of two that wait for each other."""
    desk.slack.edit(desk.channel, desk.said["w23"], "The password is gone.")  # on the page that each sync reads
    with ThreadPoolExecutor(2) as pool, session(desk.installation.settings.postgres_dsn) as connection:
        connection.execute("SELECT FROM source_memory WHERE partition = %s AND key = 'turn' FOR UPDATE", [desk.channel])
        synced = pool.submit(desk.sync)
        until(lambda: waiting_for_locks(desk) == 1, "one that waits")
        answered = pool.submit(desk.post, desk.edited(desk.said["w23"]))
        until(lambda: waiting_for_locks(desk) == 2, "two that wait")
        connection.rollback()
        assert synced.result().error is None
        assert answered.result().json() == {"outcome": "recorded"}
    desk.sync()
    assert (desk.finds("qz23q"), desk.finds("password is gone")) == (False, True)
    assert waiting(desk) == []


def test_permissions_count_as_checked_from_when_they_were_read(desk: SlackDesk) -> None:
    read = list[datetime]()

    def note() -> None:
        read.extend(row["now"] for row in desk.installation.rows("SELECT clock_timestamp() AS now"))

    sync_with(desk, desk.channel, note)
    checked = desk.installation.rows("SELECT acl_checked_at AS at FROM partitions WHERE partition = %s", desk.channel)
    assert [row["at"] < read[0] for row in checked] == [True]


def test_a_channel_that_became_private_since_a_long_sync_began_is_private(desk: SlackDesk) -> None:
    eve = desk.slack.user("Eve Else", EVE)
    desk.sync()
    assert eve
    assert desk.finds("qz4q", EVE)
    settings, late = desk.installation.settings, list[float]()
    source = Slack(
        settings, PostgresMemory(settings.postgres_dsn), page=PAGE, timer=lambda: time.monotonic() + sum(late)
    )
    changes = source.changes

    def hours_later(partition: str, cursor: str | None) -> Iterator[Batch]:
        late.append(3600)
        desk.slack.make_private(desk.channel)
        yield from changes(partition, cursor)

    source.changes = hours_later  # type: ignore[method-assign]
    assert desk.installation.sync(SourceName.SLACK, port=source).error is None
    assert (desk.finds("qz4q", EVE), desk.finds("qz4q", ADA)) == (False, True)


def test_a_channel_with_another_name_has_it_in_all_documents(desk: SlackDesk) -> None:
    desk.slack.rename(desk.channel, "herons")
    desk.sync()
    found = desk.installation.rows(
        "SELECT DISTINCT path, tags ->> 'channel' AS tag FROM documents WHERE partition = %s", desk.channel
    )
    assert found == [{"path": "#herons", "tag": "herons"}]
    desk.calls.clear()
    desk.sync()
    assert desk.calls["conversations.history"] < 4, "not all of it is read again each time"


def waiting_for_locks(desk: SlackDesk) -> int:
    """Return how many connections to the database wait for a lock."""
    (row,) = desk.installation.rows(
        "SELECT count(*) AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return int(row["n"])
