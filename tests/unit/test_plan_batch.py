"""What one batch of a source changes, as a pure function: cases, and properties over generated batches."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from assets.stages.plan import Policy, plan_batch, shown, vanished
from resources.core.domain import Batch, Item, Refusal, State
from sql.rows import Known
from tests.fixtures.registered import known

NAMES = [f"d{number}" for number in range(6)]
FOLDERS = ["f1", "f2"]
PARTITIONS = ["a", "b"]


def item(source_id: str, **given: object) -> Item:
    fields = {"partition": "a", "title": source_id, "path": source_id, "mime_type": "text/plain", "version": "1"}
    return Item(**{**fields, "source_id": source_id, "permissions": ("ann@acme.com",), **given})


def refusal(source_id: str, reason: str = "Too large.", **given: object) -> Refusal:
    fields = {"partition": "a", "title": source_id, "path": source_id, "reason": reason}
    return Refusal(**{**fields, "source_id": source_id, **given})


def registry(*documents: Item | Refusal, **changes: object) -> dict[str, Known]:
    return {one.source_id: msgspec.structs.replace(known(one), **changes) for one in documents}


def test_a_new_document_is_fetched_and_an_unchanged_one_left_alone() -> None:
    plan = plan_batch(Batch(partition="a", seen=[item("old"), item("new")]), registry(item("old")))
    assert [one.source_id for one in plan.fetch] == ["new"]
    assert (plan.rewrite, plan.delete, plan.drop) == ([], {}, [])
    assert plan.moves == {"a": 1}


def test_new_permissions_rewrite_without_a_fetch() -> None:
    plan = plan_batch(Batch(partition="a", seen=[item("x", permissions=("bob@acme.com",))]), registry(item("x")))
    assert not plan.fetch
    assert [one.permissions for one in plan.rewrite] == [("bob@acme.com",)]


def test_a_document_shown_elsewhere_moves() -> None:
    plan = plan_batch(Batch(partition="a", seen=[item("x", partition="b")]), registry(item("x")))
    assert [one.partition for one in plan.rewrite] == ["b"]
    assert plan.moves == {"a": -1, "b": 1}


def test_a_listing_counts_its_own_partition_and_takes_from_others() -> None:
    batch = Batch(partition="b", seen=[item("x", partition="b"), item("new", partition="b")], listing="complete")
    assert plan_batch(batch, registry(item("x"))).moves == {"a": -1}


def test_a_refused_document_leaves_the_lake_and_is_recorded_once() -> None:
    batch = Batch(partition="a", refused=[refusal("x")])
    plan = plan_batch(batch, registry(item("x")))
    assert (len(plan.refuse), plan.drop) == (1, [("x", "a")])
    again = plan_batch(batch, registry(refusal("x")))
    assert (again.refuse, again.drop) == ([], [])


def test_a_refused_document_that_moved_is_recorded_again() -> None:
    batch = Batch(partition="a", refused=[refusal("x", path="elsewhere/x")])
    assert len(plan_batch(batch, registry(refusal("x"))).refuse) == 1


def test_a_tombstone_of_an_unregistered_document_reaches_the_lake() -> None:
    plan = plan_batch(Batch(partition="a", deleted=["x"]), {})
    assert (plan.drop, plan.delete) == ([("x", "a")], {})


def test_an_upload_that_its_owner_deleted_leaves_the_lake() -> None:
    plan = plan_batch(Batch(partition="a", deleted=["x"]), registry(item("x"), state=State.DELETED))
    assert (plan.drop, plan.delete) == ([("x", "a")], {})


def test_documents_below_an_emptied_folder_are_deleted_unless_shown() -> None:
    stored = registry(item("x", collection_ids=("f1",)), item("y", collection_ids=("f1",)), item("z"))
    plan = plan_batch(Batch(partition="a", seen=[item("y")], emptied=["f1"]), stored)
    assert plan.delete == {"x": "a"}


def test_more_deletions_than_allowed_are_all_held() -> None:
    stored = registry(*map(item, NAMES))
    batch = Batch(partition="a", deleted=NAMES)
    waiting = frozenset(NAMES[:2])
    assert plan_batch(batch, stored, policy=Policy(most=3, waiting=waiting)).hold == NAMES[2:]
    assert list(plan_batch(batch, stored, policy=Policy(most=4, waiting=waiting)).delete) == NAMES[2:]


def test_permissions_of_a_partition_apply_to_its_other_documents() -> None:
    others = [item("x", permissions=("bob@acme.com",)), item("y")]
    batch = Batch(partition="a", permissions=("bob@acme.com",))
    plan = plan_batch(batch, registry(item("x"), item("y")), others=others)
    assert [one.source_id for one in plan.rewrite] == ["x"]


documents = st.builds(
    item,
    st.sampled_from(NAMES),
    partition=st.sampled_from(PARTITIONS),
    version=st.sampled_from(["1", "2"]),
    permissions=st.sampled_from([("ann@acme.com",), ("bob@acme.com",)]),
    collection_ids=st.lists(st.sampled_from(FOLDERS), max_size=2, unique=True).map(tuple),
)
refusals = st.builds(refusal, st.sampled_from(NAMES), st.sampled_from(["Too large.", "Encrypted."]))
stored = st.lists(documents | refusals, unique_by=lambda one: one.source_id)


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    found = draw(stored)
    names = {one.source_id for one in found}
    return Batch(
        partition="a",
        seen=[one for one in found if isinstance(one, Item)],
        refused=[one for one in found if isinstance(one, Refusal)],
        deleted=draw(st.lists(st.sampled_from(NAMES).filter(lambda name: name not in names), unique=True)),
        emptied=draw(st.lists(st.sampled_from(FOLDERS), unique=True)),
    )


@given(batches(), stored, st.sets(st.sampled_from(NAMES)), st.booleans())
def test_each_document_has_one_fate(batch: Batch, held: list[Item | Refusal], absent: set[str], full: bool) -> None:
    before = {one.source_id: known(one) for one in held}
    plan = plan_batch(batch, before, absent, Policy(full=full))
    fates = [one.source_id for one in (*plan.fetch, *plan.rewrite, *plan.refuse)] + list(plan.delete)
    assert len(fates) == len(set(fates))
    assert not plan.delete.keys() & set(shown(batch))
    assert plan.delete == vanished(batch, before, absent)
    assert plan.delete.keys() <= before.keys() & {*batch.deleted, *absent, *_below(batch, before)}
    assert not full or len(plan.fetch) == len(batch.seen)


@given(batches(), stored)
def test_a_batch_that_was_applied_changes_nothing(batch: Batch, held: list[Item | Refusal]) -> None:
    documents = {one.source_id: one for one in held}
    plan = plan_batch(batch, {key: known(one) for key, one in documents.items()})
    documents |= {one.source_id: one for one in (*plan.fetch, *plan.rewrite, *plan.refuse)}
    after = {key: known(one) for key, one in documents.items() if key not in plan.delete}
    again = plan_batch(batch, after)
    assert (again.fetch, again.refuse, again.delete) == ([], [], {})
    assert not again.rewrite
    assert sum(again.moves.values()) == 0


@given(batches(), stored)
def test_counts_follow_the_documents(batch: Batch, held: list[Item | Refusal]) -> None:
    documents = {one.source_id: one for one in held}
    plan = plan_batch(batch, {key: known(one) for key, one in documents.items()})
    after = {**documents, **{one.source_id: one for one in (*batch.seen, *batch.refused)}}
    for partition in PARTITIONS:
        grown = sum(one.partition == partition for key, one in after.items() if key not in plan.delete)
        assert plan.moves[partition] == grown - sum(one.partition == partition for one in held)


def _below(batch: Batch, before: dict[str, Known]) -> set[str]:
    return {key for key, one in before.items() if set(one.collection_ids) & set(batch.emptied)}
