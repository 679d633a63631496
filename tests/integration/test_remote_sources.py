"""The raw stage with sources that are read over a network: memory, resumed listings, permissions of a whole partition, the
hold on mass deletions, pauses, lost and moved partitions. The source is a fake that reports what it is given; the stores are real.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from resources.core.domain import Batch, Item, SourceName, State
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    LostPartitionError,
    RateLimitedError,
    RetryLaterError,
)
from resources.core.ports import Source
from resources.stores.memory import PostgresMemory
from tests.fixtures.installation import Installation

TEXT = "Document {name}: the heron stands in the shallow water of pond number {name} and waits for a frog.\n"
TEAM = "slack:T0TEAM"


@dataclass
class ScriptedSource(Source):
    """A fake source with scripted batches by partition. An error among the batches is raised."""

    batches: dict[str, list[Batch | Exception]] = field(default_factory=dict)
    people: list[tuple[str, str]] | None = None
    gone: list[str] = field(default_factory=list)
    faults: dict[str, list[Exception]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    before: Callable[[Item], None] = lambda _: None
    costly: bool = True
    fetchers: int = 2

    @property
    def name(self) -> SourceName:
        return SourceName.SLACK

    def partitions(self) -> list[str]:
        return sorted(self.batches)

    def lost(self, known: list[str]) -> list[str]:
        self.known = known
        return [partition for partition in known if partition in self.gone]

    def directory(self) -> list[tuple[str, str]] | None:
        return self.people

    def changes(self, partition: str, cursor: str | None) -> Iterator[Batch]:
        self.asked.append((partition, cursor))
        for batch in self.batches[partition]:
            if isinstance(batch, Exception):
                raise batch
            yield batch

    def fetch(self, item: Item) -> Iterator[bytes]:
        self.before(item)
        if self.faults.get(item.source_id):
            raise self.faults[item.source_id].pop(0)
        self.fetched.append(item.source_id)
        yield TEXT.format(name=item.source_id).encode()


def item(name: str, partition: str = "pond", permissions: tuple[str, ...] = (TEAM,), **other: Any) -> Item:
    given = {"title": name, "path": name, "mime_type": "text/plain", "version": "1", "collection_ids": (partition,)}
    return Item(source_id=name, partition=partition, permissions=permissions, **{**given, **other})


def complete(names: list[str], partition: str = "pond", **other: Any) -> Batch:
    return Batch(
        partition=partition, seen=[item(name, partition) for name in names], listing="complete", cursor="1", **other
    )


def delta(*names: str, partition: str = "pond", **other: Any) -> Batch:
    return Batch(partition=partition, seen=[item(name, partition) for name in names], **{"cursor": "2", **other})


def sync(installation: Installation, *batches: Batch | Exception, **more: Any) -> ScriptedSource:
    scripted = ScriptedSource(batches={"pond": list(batches)}, **more)
    installation.sync(SourceName.SLACK, port=scripted)
    return scripted


def states(installation: Installation) -> dict[str, str]:
    return {row["source_id"]: row["state"] for row in installation.rows("SELECT source_id, state FROM documents")}


def partition(installation: Installation, key: str = "pond") -> dict[str, Any]:
    return installation.rows("SELECT * FROM partitions WHERE partition = %s", key)[0]


def test_memory_is_saved_with_its_batch_and_deleted_on_request(installation: Installation) -> None:
    sync(installation, complete(["a"], memory={"f:1": {"name": "One"}, "f:2": {"name": "Two"}, "m:1": 3}, title="Pond"))
    memory = PostgresMemory(installation.settings.postgres_dsn)
    assert memory.read(SourceName.SLACK, "pond", "f:", "f;") == {"f:1": {"name": "One"}, "f:2": {"name": "Two"}}
    with pytest.raises(AbortSyncError, match="broke off"):
        sync(installation, delta(memory={"f:1": None, "m:1": 4}), AbortSyncError("The listing broke off."))
    assert memory.read(SourceName.SLACK, "pond") == {"f:2": {"name": "Two"}, "m:1": 4}
    assert memory.read(SourceName.SLACK, "elsewhere") == {}
    assert partition(installation)["title"] == "Pond"


def test_a_listing_that_broke_off_goes_on_and_fetches_nothing_twice(installation: Installation) -> None:
    names = [f"doc{number}" for number in range(6)]
    first = Batch(partition="pond", seen=[item(name) for name in names[:2]], listing="page", cursor="page 1")

    def die(wanted: Item) -> None:
        if wanted.source_id == "doc4":
            raise KeyboardInterrupt

    broken = ScriptedSource(
        batches={"pond": [first, Batch(partition="pond", seen=[item(name) for name in names[2:5]], listing="page", cursor="page 2")]},
        before=die,
        fetchers=1,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        installation.sync(SourceName.SLACK, port=broken)
    assert broken.fetched == names[:4]
    assert sorted(states(installation)) == names[:2]
    rest = sync(
        installation,
        Batch(partition="pond", seen=[item(name) for name in names[2:5]], listing="page", cursor="page 2"),
        Batch(partition="pond", seen=[item("doc5")], listing="complete", cursor="end"),
    )
    assert rest.asked == [("pond", "page 1")]
    assert sorted(rest.fetched) == ["doc4", "doc5"]
    assert states(installation) == dict.fromkeys(
        names, State.LIVE
    )  # what the first pages showed was not treated as deleted
    assert partition(installation)["source_count"] == 6
    assert (
        installation.rows("SELECT source_id FROM listed_documents UNION SELECT source_id FROM fetched_contents") == []
    )
    assert installation.agrees()


def test_a_listing_that_starts_over_discards_earlier_pages(installation: Installation) -> None:
    sync(installation, complete(["a", "b", "c"]))
    page = Batch(partition="pond", seen=[item("b")], listing="page", cursor="page")
    restarted = Batch(partition="pond", listing="page")
    scripted = sync(
        installation, page, restarted, Batch(partition="pond", seen=[item("a")], listing="complete", cursor="2")
    )
    assert scripted.fetched == []
    assert states(installation) == {"a": State.LIVE, "b": State.DELETED, "c": State.DELETED}
    assert partition(installation)["source_count"] == 1


def test_rights_of_a_whole_partition_reach_the_index_without_embedding(installation: Installation) -> None:
    sync(installation, complete(["a", "b"], permissions=(TEAM,)))
    scripted = sync(installation, Batch(partition="pond", permissions=("ada@acme.example",), cursor="2"))
    assert scripted.fetched == []
    assert installation.last["embedded"]["embedded"] == 0
    assert {tuple(point["permissions"]) for point in installation.points()} == {("ada@acme.example",)}
    assert installation.agrees()
    grants = installation.rows(
        "SELECT principal, change, effective_at IS NOT NULL AS effective, count(*) FROM grant_audit GROUP BY 1, 2, 3 ORDER BY 1, 2"
    )
    assert grants == [
        {"principal": "ada@acme.example", "change": "added", "effective": True, "count": 2},
        {"principal": TEAM, "change": "added", "effective": True, "count": 2},
        {"principal": TEAM, "change": "revoked", "effective": True, "count": 2},
    ]
    sync(installation, Batch(partition="pond", permissions=("ada@acme.example",), cursor="3"))
    assert installation.last["raw"]["rewritten"] == 0


def test_a_document_moves_to_another_partition_and_back(installation: Installation) -> None:
    scripted = ScriptedSource(batches={"lake": [complete([], "lake")], "pond": [complete(["a", "b"])]})
    installation.sync(SourceName.SLACK, port=scripted)
    moved = ScriptedSource(
        batches={
            "lake": [delta(partition="lake")],
            "pond": [Batch(partition="pond", seen=[item("a", "lake")], cursor="2")],
        }
    )
    installation.sync(SourceName.SLACK, port=moved)
    assert moved.fetched == []
    assert installation.last["embedded"]["embedded"] == 0
    rows = installation.rows("SELECT source_id, partition, state FROM documents ORDER BY source_id")
    assert [tuple(row.values()) for row in rows] == [("a", "lake", "live"), ("b", "pond", "live")]
    assert (partition(installation)["source_count"], partition(installation, "lake")["source_count"]) == (1, 1)
    assert installation.agrees()


def test_a_folder_that_is_emptied_takes_its_documents_but_not_those_that_left_it(installation: Installation) -> None:
    inside = [item(name, collection_ids=("folder", "pond")) for name in "abc"]
    sync(installation, Batch(partition="pond", seen=inside, listing="complete", cursor="1"))
    sync(installation, Batch(partition="pond", seen=[item("c")], emptied=["folder"], cursor="2"))
    assert states(installation) == {"a": State.DELETED, "b": State.DELETED, "c": State.LIVE}
    assert partition(installation)["source_count"] == 1


def test_what_comes_back_unchanged_is_not_fetched_again(installation: Installation) -> None:
    sync(installation, complete(["a"]))
    at = datetime(2026, 5, 4, tzinfo=UTC)
    sync(installation, delta(deleted=["a"], deleted_at={"a": at}))
    (receipt,) = installation.rows(
        "SELECT source_time, source_time_is_exact, points_deleted, caches_gone_at FROM deletion_receipts"
    )
    assert (receipt["source_time"], receipt["source_time_is_exact"], receipt["points_deleted"]) == (at, True, 1)
    assert receipt["caches_gone_at"] is not None
    assert installation.points() == []
    scripted = sync(installation, delta("a"))
    assert scripted.fetched == []
    assert installation.last["embedded"]["embedded"] == 0
    assert len(installation.points()) == 1
    assert installation.agrees()


def test_many_deletions_wait_for_approval(installation: Installation) -> None:
    names = [f"doc{number}" for number in range(10)]
    sync(installation, complete(names))
    sync(installation, complete(names[:9]))  # one in ten is deleted at once
    assert states(installation)["doc9"] == State.DELETED
    sync(installation, complete([]))
    assert set(states(installation).values()) == {State.LIVE, State.DELETED}
    assert installation.last["raw"]["held"] == 9
    assert partition(installation)["source_count"] == 0
    sync(installation, complete(["doc0"]))  # for this one it was a mistake
    assert installation.rows("SELECT count(*) FROM held_deletions") == [{"count": 8}]
    installation_rows = "UPDATE held_deletions SET approved_at = now() WHERE source_id <> 'doc1' RETURNING source_id"
    assert len(installation.rows(installation_rows)) == 7
    sync(installation, complete(["doc0"]))
    left = [name for name, state in states(installation).items() if state == State.LIVE]
    assert sorted(left) == ["doc0", "doc1"]
    assert installation.agrees()


def test_a_partition_that_cannot_be_read_is_hidden_and_comes_back_without_fetching(installation: Installation) -> None:
    sync(installation, complete(["a", "b"], memory={"k": 1}))
    sync(installation, LostPartitionError("The channel is no longer readable."))
    assert set(states(installation).values()) == {State.LOST_ACCESS}
    assert installation.points() == []
    assert partition(installation)["lost_at"] is not None
    assert installation.agrees()
    scripted = ScriptedSource(batches={}, gone=["pond"])
    installation.sync(SourceName.SLACK, port=scripted)  # still lost: nothing changes
    assert scripted.known == [], "what is hidden already is not asked for"
    back = sync(installation, complete(["a"]))
    assert back.asked == [("pond", None)]
    assert back.fetched == []
    assert states(installation) == {"a": State.LIVE, "b": State.DELETED}
    assert PostgresMemory(installation.settings.postgres_dsn).read(SourceName.SLACK, "pond") == {}


def test_refused_credentials_pause_the_source_until_a_sync_succeeds(installation: Installation) -> None:
    sync(installation, complete(["a"]))
    with pytest.raises(AuthorizationError):
        sync(installation, AuthorizationError("Slack refuses the token: set CONCORDANCE_SLACK_BOT_TOKEN to a new one."))
    (state,) = installation.rows("SELECT paused_reason FROM source_states")
    assert "CONCORDANCE_SLACK_BOT_TOKEN" in state["paused_reason"]
    assert states(installation) == {"a": State.LIVE}
    scripted = sync(installation, delta("b"))
    assert scripted.asked == [("pond", "1")]
    assert installation.rows("SELECT paused_at FROM source_states") == [{"paused_at": None}]


def test_passing_faults_are_tried_again_and_counted(installation: Installation) -> None:
    quick = installation.settings.model_copy(update={"retry_seconds": (0.0, 0.0, 0.0)})
    installation.settings = quick
    faults: dict[str, list[Exception]] = {
        "a": [RetryLaterError("Down."), RateLimitedError("Slow down.", 0.0), RetryLaterError("Down.")],
        "b": [RetryLaterError("Down.") for _ in range(9)],
    }
    sync(installation, complete(["a", "b", "c"]), faults=faults)
    assert states(installation) == {"a": State.LIVE, "b": State.FAILED, "c": State.LIVE}
    (job,) = installation.rows("SELECT retries, retries_failed, status FROM sync_jobs")
    assert job == {"retries": 5, "retries_failed": 1, "status": "success"}
    sync(installation, delta("b"))
    assert states(installation)["b"] == State.LIVE


def test_the_directory_is_replaced_whole(installation: Installation) -> None:
    sync(installation, complete([]), people=[("ada@acme.example", TEAM), ("bob@acme.example", TEAM)])
    sync(installation, delta(), people=[("bob@acme.example", TEAM)])
    assert installation.rows("SELECT email, principal FROM directory") == [
        {"email": "bob@acme.example", "principal": TEAM}
    ]
    assert installation.rows("SELECT directory_at IS NOT NULL AS dated FROM source_states") == [{"dated": True}]
