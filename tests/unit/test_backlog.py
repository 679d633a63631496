"""Waves of pending documents: their order, their size, and what is not handed out twice."""

from __future__ import annotations

import threading
from typing import Any

from assets.backlog import EXPRESS_DOCUMENTS, FIRST_WAVE, LAST_WAVE, SMALL_BYTES, WAVE_BYTES, Backlog
from sql.rows import Pending


def document(
    name: str, size: int = 100, changed: float = 0, content: str = "1", *, again: bool = False, **facts: Any
) -> Pending:
    plain = dict.fromkeys(("source_id", "partition", "content_hash", "mime_type", "title", "profile", "state"), "")
    return Pending(
        doc_id=name, content_key=content, size=size, changed=changed, description=None, owner=None, tags={}, stage=None,
        attempts=0, was_indexed=False, again=again, **(plain | facts),
    )  # fmt: skip


def names(documents: list[Pending] | None) -> list[str]:
    assert documents is not None
    return [one.doc_id for one in documents]


def test_documents_are_handed_out_in_their_order() -> None:
    backlog = Backlog()
    backlog.refill([document("note"), document("report", size=300_000), document("book", size=5_000_000)])
    assert names(backlog.wave()) == ["note", "report"]
    assert names(backlog.wave()) == ["book"]


def test_documents_beyond_the_given_ones_count() -> None:
    backlog = Backlog()
    backlog.refill([document(f"{number:05}") for number in range(FIRST_WAVE)], beyond=936)
    assert (backlog.progress, backlog.size, backlog.left) == ((0, 1000), 100_000, 1000)
    held = backlog.wave()
    assert held is not None
    assert (len(held), backlog.waiting, backlog.left) == (FIRST_WAVE, False, 936)
    backlog.done(held)
    assert (backlog.progress, backlog.size) == ((FIRST_WAVE, 1000), 100_000)
    backlog.refill([])
    assert backlog.progress == (FIRST_WAVE, FIRST_WAVE)


def test_waves_grow_and_shrink_towards_the_end() -> None:
    backlog = Backlog()
    backlog.refill([document(f"{number:05}") for number in range(10_000)])
    sizes: list[int] = []
    while backlog.waiting:
        sizes.append(len(names(backlog.wave())))
    assert sizes[:5] == [FIRST_WAVE, 2 * FIRST_WAVE, 4 * FIRST_WAVE, 8 * FIRST_WAVE, LAST_WAVE]
    assert sizes[-1] <= FIRST_WAVE
    assert sum(sizes) == 10_000


def test_a_wave_is_limited_in_bytes_but_never_empty() -> None:
    backlog = Backlog()
    backlog.refill(
        [document("a", size=WAVE_BYTES - 1), document("b", size=WAVE_BYTES - 1), document("c", size=WAVE_BYTES * 20)]
    )
    assert [names(backlog.wave()) for _ in range(3)] == [["a"], ["b"], ["c"]]


def test_express_documents_are_few_and_small() -> None:
    backlog = Backlog()
    backlog.refill([document(f"{number:03}") for number in range(EXPRESS_DOCUMENTS + 10)])
    assert len(backlog.express()) == EXPRESS_DOCUMENTS
    backlog.refill([document("large", size=SMALL_BYTES + 1)])
    assert backlog.express() == []
    assert names(backlog.wave()) == ["large"]


def test_a_document_in_hand_is_not_handed_out_and_later_only_with_new_content() -> None:
    backlog = Backlog()
    backlog.refill([document("a")])
    held = backlog.express()
    assert not backlog.idle
    backlog.refill([document("a"), document("a", content="2")])
    assert backlog.express() == []
    backlog.done(held)
    backlog.refill([document("a")])
    assert (backlog.express(), backlog.idle) == ([], True)
    backlog.refill([document("a", content="2")])
    assert names(backlog.express()) == ["a"]


def test_no_wave_after_the_end() -> None:
    backlog = Backlog()
    backlog.refill([document("a")])
    backlog.end()
    assert backlog.wave() is None


def test_express_documents_are_taken_before_a_waiting_thread_takes_them_as_a_wave() -> None:
    backlog = Backlog()
    waves: list[list[Pending] | None] = []
    thread = threading.Thread(target=lambda: waves.append(backlog.wave()))
    thread.start()
    assert names(backlog.admit([document("note"), document("large", size=SMALL_BYTES + 1)])) == ["note"]
    thread.join()
    assert names(waves[0]) == ["large"]
