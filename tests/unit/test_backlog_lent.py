"""Documents that a backlog lends to other runs, and what those did for a wave that came back."""

from __future__ import annotations

import pytest

import assets.backlog
from assets.backlog import Backlog
from assets.offering import credited
from resources.core.domain import State
from resources.syncs.counts import StageResult
from sql.rows import Pending


def document(number: int, *, size: int = 1000, state: State = State.LIVE, key: str = "") -> Pending:
    name = f"{number:04}"
    return Pending(
        doc_id=name,
        source_id=name,
        partition="docs",
        content_hash=name,
        content_key=key or name,
        mime_type="text/plain",
        title=name,
        description=None,
        profile="default",
        owner=None,
        tags={},
        state=state,
        stage=None,
        attempts=0,
        was_indexed=False,
        size=size,
        changed=0.0,
        again=False,
    )


def filled(*documents: Pending) -> Backlog:
    backlog = Backlog()
    backlog.refill(documents)
    return backlog


def test_the_largest_documents_are_lent_and_come_back_as_the_next_wave() -> None:
    documents = [document(number, size=100 * (1 + number)) for number in range(400)]
    backlog = filled(*documents)
    lent = backlog.lend()
    assert len(lent) == 100
    assert min(one.size for one in lent) > 25_000
    assert (backlog.left, backlog.progress, backlog.busy) == (300, (0, 400), set())
    backlog.refill(documents)
    assert backlog.left == 300, "what is lent does not wait"
    backlog.give_back(lent, unchanged={one.doc_id for one in lent})
    assert backlog.wave() == lent
    assert backlog.busy == {one.doc_id for one in lent}
    backlog.done(lent)
    assert backlog.progress == (100, 400)


def test_a_backlog_is_not_idle_while_documents_are_lent() -> None:
    backlog = filled(*[document(number) for number in range(64)])
    lent = backlog.lend()
    while (wave := backlog.express()) or not backlog.drained:
        backlog.done(wave)
    assert backlog.drained
    assert not backlog.idle
    backlog.give_back(lent, unchanged=set())
    assert backlog.idle


def test_what_changed_while_it_was_lent_waits_again() -> None:
    backlog = filled(*[document(number) for number in range(64)])
    lent = backlog.lend()
    changed = document(int(lent[0].doc_id), key="new")
    backlog.refill([changed])
    assert backlog.left == 0
    backlog.give_back(lent, unchanged={one.doc_id for one in lent[1:]})
    backlog.refill([changed])
    assert backlog.left == 1
    assert backlog.wave() == lent[1:]


def test_few_documents_and_rejected_ones_are_not_lent() -> None:
    few = filled(*[document(number) for number in range(assets.backlog.LEAST_SHARED * 2 - 1)])
    few.runs = 2
    assert few.lend() == []
    rejected = [document(number, state=State.FAILED, size=10**6) for number in range(40)]
    backlog = filled(*rejected, *[document(number) for number in range(40, 80)])
    assert {one.state for one in backlog.lend()} == {State.LIVE}
    assert backlog.left == 60


def test_a_large_document_is_lent_alone() -> None:
    backlog = filled(*[document(number, size=assets.backlog.WAVE_BYTES) for number in range(64)])
    assert len(backlog.lend()) == 1


def test_the_more_runs_share_documents_the_smaller_are_their_waves() -> None:
    documents = [document(number) for number in range(640)]
    sizes: dict[int, tuple[int, int]] = {}
    for runs in (1, 2, 4, 1000):
        backlog = filled(*documents)
        backlog.runs = runs
        backlog.done(backlog.wave() or [])
        backlog.done(backlog.wave() or [])
        sizes[runs] = len(backlog.lend()), len(backlog.wave() or [])
    assert sizes == {1: (112, 84), 2: (63, 55), 4: (35, 33), 1000: (0, 16)}


def test_documents_are_lent_as_long_as_there_are_some_for_every_run() -> None:
    """Else the sync would do the last ones alone, one small wave after another."""
    backlog = filled(*[document(number) for number in range(200)])
    backlog.runs = 4
    while backlog.lend():
        pass
    assert backlog.left < 4 * assets.backlog.LEAST_SHARED


@pytest.mark.parametrize(
    ("stage", "here", "there", "counts"),
    [
        ("parsed", {"documents": 3, "reused": 3}, {"documents": 3, "parsed": 2, "skipped": 1, "reused": 0},
         {"documents": 3, "reused": 0, "parsed": 2, "skipped": 1}),
        ("parsed", {"documents": 3, "reused": 2, "failed": 1}, {"documents": 3, "parsed": 2, "reused": 0},
         {"documents": 3, "reused": 0, "failed": 1, "parsed": 2}),
        ("chunked", {"documents": 2, "reused": 2}, {"documents": 2, "chunked": 1, "reused": 1, "chunks": 7, "tokens": 70},
         {"documents": 2, "reused": 1, "chunked": 1, "chunks": 7, "tokens": 70}),
        ("embedded", {"chunks": 7, "reused": 7}, {"chunks": 7, "reused": 2, "embedded": 5}, {"chunks": 7, "reused": 2, "embedded": 5}),
        ("embedded", {"chunks": 1, "embedded": 1}, {"chunks": 5, "reused": 0, "embedded": 5}, {"chunks": 1, "embedded": 6, "reused": 0}),
    ],
)  # fmt: skip
def test_what_another_run_did_is_counted_once(
    stage: str, here: dict[str, int], there: dict[str, int], counts: dict[str, int]
) -> None:
    result, done = StageResult(), StageResult(seconds=2.0)
    result.count("docs", **here)
    done.count("docs", **there)
    credited(stage, result, {"counts": done.counts, "partitions": done.partitions, "seconds": done.seconds})
    assert result.partitions["docs"] == counts
    assert {name: result.counts[name] for name in counts} == counts
    assert result.seconds == 2.0
