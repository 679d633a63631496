"""A document that its source describes in an odd way costs that document only: the same sync indexes all others."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from resources.core.domain import Batch, Folder, Item, Refusal, SourceName, State
from resources.core.errors import AbortSyncError, ChangedDocumentError, FailedDocumentError
from resources.core.texts import storable_value
from resources.people.sync import sync_people
from resources.stores.memory import PostgresMemory
from resources.syncs.syncing import SyncJob
from simulators.drive import SimulatedDrive
from simulators.slack import Workspace
from tests.fixtures.drive import DriveSite
from tests.fixtures.installation import Installation
from tests.fixtures.slack import SlackSite
from tests.fixtures.step import follow
from tests.integration.test_remote_sources import TEAM, ScriptedSource, complete, item, states

HALF = "\ud83d"
"""Half of a surrogate pair, as JSON can have it."""
ODD = ("a\0b", f"a{HALF}b")
REPAIRED = "a\ufffdb"
LONG = "".join(chr(0x4E00 + number) for number in range(4000))
"""12,000 bytes, which cannot be compressed to what an entry of an index holds."""


def nested(levels: int) -> Any:
    return {"x": nested(levels - 1)} if levels else 1


def sync(installation: Installation, *seen: Item, port: ScriptedSource | None = None, **other: Any) -> SyncJob:
    """Sync two partitions, the first with these documents between two others, and check that all others are indexed."""
    given: dict[str, Any] = {"partition": "pond", "listing": "complete", "cursor": "1", **other}
    batch = Batch(seen=[item("first"), *seen, item("last")], **given)
    port = port or ScriptedSource()
    port.batches = {"pond": [batch], "zoo": [complete(["other"], "zoo")]}
    job = installation.sync(SourceName.SLACK, port=port)
    assert job.error is None
    assert {"first", "last", "other"} <= {key for key, state in states(installation).items() if state == State.LIVE}
    assert installation.agrees()
    return job


def odd(name: str, **fields: Any) -> Item:
    return msgspec.structs.replace(item(name), **fields)


def test_texts_that_cannot_be_stored_are_stored_without_the_character(installation: Installation) -> None:
    names = ("title", "path", "url", "author", "description")
    seen = [odd(f"{name} {number}", **{name: text}) for number, text in enumerate(ODD) for name in names]
    seen += [odd(f"tags {number}", tags={text: [text, {text: 1}]}) for number, text in enumerate(ODD)]
    seen += [
        odd(f"folders {number}", folders=(Folder(id="pond", name=text, readers=(TEAM, text)),))
        for number, text in enumerate(ODD)
    ]
    seen += [odd(f"mime_type {number}", mime_type=f"text/{text}") for number, text in enumerate(ODD)]
    sync(installation, *seen)
    assert sync(installation, *seen).counts.synced == 0, "they are unchanged"
    found = installation.rows(
        "SELECT source_id, source_title AS title, path, url, author, description, tags, folders, state FROM documents"
    )
    rows = {row.pop("source_id"): row for row in found}
    for number in range(len(ODD)):
        assert [rows[f"{name} {number}"][name] for name in names] == [REPAIRED] * len(names)
        assert rows[f"tags {number}"]["tags"] == {REPAIRED: [REPAIRED, {REPAIRED: 1}]}
        assert rows[f"folders {number}"]["folders"] == [{"id": "pond", "name": REPAIRED, "readers": [TEAM]}]
        assert rows.pop(f"mime_type {number}")["state"] == State.SKIPPED
    assert {row["state"] for row in rows.values()} == {State.LIVE}


def test_no_one_gains_access_by_a_repair(installation: Installation) -> None:
    wrong = (*ODD, *(f"{text}@acme.com" for text in ODD), f"{LONG}@acme.com")
    seen = [odd("readers", permissions=(*wrong, TEAM)), odd("no readers", permissions=wrong)]
    seen += [odd(f"owner {number}", owner=f"{text}@acme.com") for number, text in enumerate(ODD)]
    sync(installation, *seen)
    rows = {
        row["source_id"]: (row["permissions"], row["owner"])
        for row in installation.rows("SELECT source_id, permissions, owner FROM documents")
    }
    assert rows["readers"] == rows["owner 0"] == rows["owner 1"] == ([TEAM], None)
    assert rows["no readers"] == ([], None)
    sync(installation, permissions=(*wrong, "slack:T0OTHER"), listing="delta")
    assert installation.rows("SELECT DISTINCT permissions FROM documents WHERE source_id LIKE '%%readers'") == [
        {"permissions": ["slack:T0OTHER"]}
    ]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "long version": ({"version": LONG}, "longer than"),
    "long collection": ({"collection_ids": ("pond", LONG)}, "longer than"),
    "long folder": ({"folders": (Folder(id=LONG, name="x", readers=()),)}, "longer than"),
    "deep": ({"tags": nested(200)}, "nested too deeply"),
    "endless": ({"tags": nested(900)}, "nested too deeply"),
    "tags": ({"tags": None}, "at `$.tags`"),
    "tag names": ({"tags": {1: 2}}, "cannot be stored"),
    "tag": ({"tags": {"x": object()}}, "cannot be stored"),
    "title": ({"title": None}, "at `$.title`"),
    "type": ({"mime_type": None}, "at `$.mime_type`"),
    "time": ({"modified_at": "yesterday"}, "at `$.modified_at`"),
    "size": ({"size": "5"}, "at `$.size`"),
    "profile": ({"profile": "a 500"}, "no chunking profile 'a 500'"),
    "own profile": ({"profile": "200/20/50"}, "no chunking profile '200/20/50'"),
    "readers": ({"permissions": TEAM}, "at `$.permissions`"),
    "reader": ({"permissions": (None, TEAM)}, "at `$.permissions[0]`"),
    **{
        f"{name} {number}": ({name: (text,) if name == "collection_ids" else text}, "contains a NUL or half")
        for name in ("version", "locator", "profile", "partition", "collection_ids")
        for number, text in enumerate(ODD)
    },
}


def test_a_document_that_cannot_be_stored_is_refused_with_a_reason(installation: Installation) -> None:
    seen = [odd(name, **fields) for name, (fields, _) in REFUSED.items()]
    job = sync(installation, *seen)
    assert job.counts.skipped == len(REFUSED)
    found = {
        row["source_id"]: row["reason"]
        for row in installation.rows("SELECT source_id, reason FROM documents WHERE state = 'skipped'")
    }
    assert found.keys() == REFUSED.keys()
    assert [name for name, (_, reason) in REFUSED.items() if reason not in found[name]] == []
    assert sync(installation, *seen).counts.skipped == 0, "the reasons are recorded already"
    sync(installation, *(item(name) for name in REFUSED))
    assert set(states(installation).values()) == {State.LIVE}


def test_documents_without_an_id_that_can_be_stored_are_refused_under_others(installation: Installation) -> None:
    ids: tuple[Any, ...] = (*ODD, LONG, "", None, 5)
    seen = [odd("x", source_id=source_id) for source_id in ids]
    sync(installation, *seen, keys=dict.fromkeys(ODD, 1), deleted=[*ODD, LONG, "gone\0"])
    assert list(states(installation).values()).count(State.SKIPPED) == len(ids)
    sync(installation, deleted=[*ODD, LONG], listing="delta")
    assert list(states(installation).values()).count(State.DELETED) == len(ODD) + 1


def test_out_of_bounds_sizes_and_authors_are_left_out(installation: Installation) -> None:
    sync(installation, odd("less", size=-5), odd("more", size=2**70), odd("author", author=LONG))
    rows = installation.rows("SELECT source_id, size, author FROM documents WHERE partition = 'pond'")
    found = {row["source_id"]: row for row in rows}
    assert found["less"]["size"] == found["more"]["size"] == found["last"]["size"], "that of the bytes"
    assert found["author"]["author"] == LONG[:500]


def refusal(source_id: str, **other: Any) -> Refusal:
    given: dict[str, Any] = {"partition": "pond", "title": "x", "path": "x", "reason": "It is a link."}
    return Refusal(source_id=source_id, **{**given, **other})


def test_a_document_that_a_batch_names_twice_is_stored_once(installation: Installation) -> None:
    seen = [
        item("twice"),
        item("twice", title="later"),
        item("both"),
        item("deleted"),
        item("odd"),
        odd("odd", title=None),
    ]
    refused = [refusal("refused"), refusal("refused", reason="It is a loop."), refusal("both")]
    sync(installation, *seen, refused=refused, deleted=["deleted"], listing="delta")
    titles = installation.rows("SELECT source_id, source_title, reason, state FROM documents WHERE partition = 'pond'")
    found = {row["source_id"]: (row["source_title"], row["reason"], row["state"]) for row in titles}
    assert found["twice"] == ("later", None, State.LIVE)
    assert found["refused"] == ("x", "It is a loop.", State.SKIPPED)
    assert found["odd"][2] == State.SKIPPED, "the last description counts, if it cannot be understood, too"
    assert found["both"][2] == found["deleted"][2] == State.LIVE


@pytest.mark.parametrize("text", ODD)
def test_what_a_batch_says_besides_documents_is_repaired(installation: Installation, text: str) -> None:
    refused = [
        refusal(text),
        refusal("refused", title=text, path=text, reason=f"To {text}.", version=text, owner=text, collection_ids=(text, "pond")),
    ]  # fmt: skip
    memory = {"name": text, "list": [text], text: 1}
    sync(installation, refused=refused, memory=memory, title=text, notice=f"{text} is not read.", emptied=[text])
    (row,) = installation.rows(
        "SELECT source_title, path, reason, owner, collection_ids FROM documents WHERE source_id = 'refused'"
    )
    assert row == {
        "source_title": REPAIRED, "path": REPAIRED, "reason": f"To {REPAIRED}.", "owner": None, "collection_ids": ["pond"],
    }  # fmt: skip
    kept = PostgresMemory(installation.settings.postgres_dsn).read(SourceName.SLACK, "pond")
    assert kept == storable_value(memory)
    assert installation.rows("SELECT title FROM partitions WHERE partition = 'pond'") == [{"title": REPAIRED}]


@pytest.mark.parametrize("text", ODD)
def test_a_partition_with_an_odd_position_is_left_out_alone(installation: Installation, text: str) -> None:
    batches: dict[str, list[Batch | Exception]] = {
        "forest": [AbortSyncError(f"It cannot be listed: {text}.")],
        "pond": [Batch(partition="pond", seen=[item("a")], listing="complete", cursor=text)],
        "zoo": [complete(["other"], "zoo")],
    }
    job = installation.sync(SourceName.SLACK, port=ScriptedSource(batches=batches))
    assert job.error is not None
    assert f"It cannot be listed: {REPAIRED}." in job.error
    assert "position that cannot be stored" in job.error
    assert states(installation) == {"other": State.LIVE}


def test_people_with_odd_addresses_are_left_out(installation: Installation) -> None:
    people = [("ann@acme.com", TEAM), ("ann@acme.com", f"group:{LONG}@acme.com")]
    people += [(f"{text}@acme.com", TEAM) for text in ODD] + [
        ("bob@acme.com", f"group:{text}@acme.com") for text in ODD
    ]
    sync(installation, port=ScriptedSource(people=people))
    assert installation.rows("SELECT email, principal FROM directory") == [{"email": "ann@acme.com", "principal": TEAM}]


@pytest.mark.parametrize("text", ODD)
def test_an_error_with_an_odd_text_fails_its_document_alone(installation: Installation, text: str) -> None:
    fault = FailedDocumentError(f"The service says: {text}.")
    job = sync(installation, item("a"), port=ScriptedSource(faults={"a": [fault]}))
    assert job.counts.failed == 1
    assert installation.rows("SELECT reason FROM documents WHERE state = 'failed'") == [
        {"reason": f"The service says: {REPAIRED}."}
    ]


class Changing(ScriptedSource):
    """A source with a document that changes while it is read, and is odd then."""

    found: Item

    def look_again(self, item: Item) -> Item | None:
        return self.found if item.source_id == "a" else None


@pytest.mark.parametrize("fields", [{"title": ODD[0]}, {"title": ODD[1]}, {"tags": {"x": object()}}, {"version": LONG}])
def test_a_document_that_is_odd_when_it_is_looked_at_again_costs_itself_only(
    installation: Installation, fields: dict[str, Any]
) -> None:
    port = Changing(faults={"a": [ChangedDocumentError()]})
    port.found = odd("a", **fields)
    sync(installation, item("a"), port=port)
    (row,) = installation.rows("SELECT state, source_title FROM documents WHERE source_id = 'a'")
    assert row == (
        {"state": State.LIVE, "source_title": REPAIRED}
        if "title" in fields
        else {"state": State.SKIPPED, "source_title": "a"}
    )


@pytest.mark.parametrize("text", ODD)
def test_a_file_and_a_folder_of_drive_with_odd_names(
    installation: Installation, drive_site: DriveSite, text: str
) -> None:
    drive = drive_site.drive
    follow(installation, drive_token=SimulatedDrive.token, drive_api_url=drive_site.url)
    folder = drive.folder(text, drive.my_drive)
    drive.file(f"{text}.txt", folder, "The plan of the otters.", description=text)
    drive.file("plan.txt", drive.my_drive, "The plan of the herons.")
    assert installation.sync(SourceName.GOOGLE_DRIVE).error is None
    rows = installation.rows("SELECT path, state FROM documents ORDER BY path")
    assert rows == [
        {"path": f"My Drive/{path}", "state": State.LIVE} for path in (f"{REPAIRED}/{REPAIRED}.txt", "plan.txt")
    ]
    assert installation.sync(SourceName.GOOGLE_DRIVE).counts.synced == 0
    drive.rename(folder, "Plans")
    assert installation.sync(SourceName.GOOGLE_DRIVE).error is None
    assert installation.agrees()


@pytest.mark.parametrize("text", ODD)
def test_a_user_a_message_and_a_file_of_slack_with_odd_texts(
    installation: Installation, slack_site: SlackSite, text: str
) -> None:
    slack: Workspace = slack_site.workspace
    follow(installation, slack_bot_token=slack.token, slack_api_url=slack_site.url)
    ada, odd_user = slack.user("Ada Byron", "ada@larkmoor.example"), slack.user(text, "bob@larkmoor.example")
    channels = [slack.channel(name, [ada, odd_user]) for name in ("general", "random")]
    file = slack.upload(ada, f"{text}.md", "The plan of the otters.", "text/markdown")
    slack.post(channels[0], odd_user, f"The plan is {text}.", files=[file])
    slack.post(channels[1], ada, "The plan of the herons.")
    assert installation.sync(SourceName.SLACK).error is None
    passages = " ".join(point["chunk_text"] for point in installation.points())
    assert f"The plan is {REPAIRED}." in passages
    assert "The plan of the herons." in passages
    assert "The plan of the otters." in passages
    assert installation.sync(SourceName.SLACK).counts.synced == 0
    assert installation.agrees()


@pytest.mark.parametrize("text", ODD)
def test_an_account_of_google_with_an_odd_name(installation: Installation, drive_site: DriveSite, text: str) -> None:
    follow(
        installation,
        drive_token=SimulatedDrive.token,
        drive_api_url=drive_site.url,
        google_directory_api_url=drive_site.url,
    )
    drive_site.drive.user("ann@acme.com", text)
    drive_site.drive.group("all@acme.com", ["ann@acme.com"])
    report = sync_people(installation.settings, sleep=lambda _: None)["google_directory"]
    assert (report.error, report.members) == (None, 1)
    assert installation.rows("SELECT email, name FROM people") == [{"email": "ann@acme.com", "name": REPAIRED}]
