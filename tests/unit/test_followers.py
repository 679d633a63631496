"""Tasks that follow Postgres for as long as a serving process lives: an error that nobody expects does not end them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import psycopg
import pytest
from numpy.typing import NDArray

from resources.core.errors import ConcordanceError, ServiceUnavailableError
from resources.embedding.openai_compatible import PROBE, FailedTextsError, RefusedTextsError
from resources.watch import Watch
from serving.identity.withheld import WithheldReads
from serving.identity.withholding import Withholding, WithholdingKeeper
from serving.search.embedding import QueryEmbedder
from sql.serving_rows import ActiveModel

ACTIVE = ActiveModel("documents_m_2", "m", 2, None, None, None, None, None, True, [])
RENAMED = psycopg.errors.InternalError_("could not open relation with OID 16384")


class Postgres:
    """A database that answers everything with True, but for the first question."""

    def __init__(self) -> None:
        self.watch = SimpleNamespace(on_return=lambda _: None)
        self.asked = 0

    async def run(self, _declared: object, _parameters: Mapping[str, Any]) -> bool:
        self.asked += 1
        if self.asked == 1:
            raise RENAMED
        return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what it looks at is no event
            await asyncio.sleep(0.01)


def test_whether_the_index_has_yet_to_be_told_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.identity.withholding.LOOK_SECONDS", 0.01)
    reads = WithheldReads(cast("Any", None))
    withholding = cast("Withholding", SimpleNamespace(settle=lambda: None, close=lambda: None))
    keeper = WithholdingKeeper(withholding, cast("Any", Postgres()), reads)

    async def follow() -> None:
        keeper.start()
        await until(lambda: reads.behind)
        await keeper.stop()

    asyncio.run(follow())


def test_the_active_collection_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.search.embedding.POLL_SECONDS", 0.01)
    answers = iter([None, RENAMED])

    async def read_active() -> ActiveModel | None:
        answer = next(answers, ACTIVE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    model = SimpleNamespace(
        model="m",
        embed_query=lambda _: np.ones(2, np.float32),
        embed=lambda texts: np.ones((len(texts), 2), np.float32),
    )
    embedder = QueryEmbedder(lambda: cast("Any", model), read_active, lambda _: cast("Any", model))

    async def follow() -> None:
        await embedder.start()
        await until(lambda: embedder.collection == ACTIVE.name)
        await embedder.stop()

    asyncio.run(follow())


def test_a_query_that_measures_its_model_does_not_undo_a_cutover(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.search.embedding.POLL_SECONDS", 0.01)
    measuring, measured, reindexed = threading.Event(), threading.Event(), threading.Event()
    faults = iter([ServiceUnavailableError("It is down.")])

    def embed(texts: list[str]) -> NDArray[np.float32]:
        for fault in faults:  # while the model is loaded
            raise fault
        measuring.set()
        measured.wait(20)
        return np.ones((len(texts), 2), np.float32)

    def model(embed: Callable[[list[str]], NDArray[np.float32]]) -> Any:
        return SimpleNamespace(model="m", embed_query=lambda _: np.ones(2, np.float32), embed=embed)

    async def read_active() -> ActiveModel | None:
        return ACTIVE if reindexed.is_set() else None

    embedder = QueryEmbedder(
        lambda: model(embed), read_active, lambda _: model(lambda texts: np.ones((len(texts), 2), np.float32))
    )

    async def follow() -> None:
        await embedder.start()
        query = asyncio.create_task(embedder.query("How?"))
        await until(measuring.is_set)
        reindexed.set()
        await until(lambda: embedder.collection == ACTIVE.name)
        measured.set()
        await query
        assert embedder.collection == ACTIVE.name
        await embedder.stop()

    asyncio.run(follow())


def test_a_service_is_examined_again() -> None:
    replies = iter([OSError("Too many open files")])

    async def ping() -> bool:
        for error in replies:
            raise error
        return True

    async def follow() -> None:
        watch = Watch("postgres", ping)
        watch.start()
        watch.suspect()
        async with asyncio.timeout(20):
            await watch._known.wait()
        await watch.stop()

    asyncio.run(follow())


class Failing:
    """A model that raises these errors, one for each query, and then embeds."""

    model = "m"

    def __init__(self, *errors: ConcordanceError) -> None:
        self._errors = list(errors)
        self.queries: list[str] = []
        self.down: ConcordanceError | None = None

    def embed_query(self, text: str) -> NDArray[np.float32]:
        self.queries.append(text)
        if self.down is not None:
            raise self.down
        if text != PROBE and self._errors:
            raise self._errors.pop(0)
        return np.ones(2, np.float32)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 2), np.float32)


def test_a_fault_of_the_embedder_ends_without_another_query(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("serving.search.embedding.POLL_SECONDS", 0.01)
    model = Failing(ServiceUnavailableError("It is down."))
    embedder = QueryEmbedder(lambda: model)

    async def follow() -> None:
        await embedder.start()
        with pytest.raises(ServiceUnavailableError):
            await embedder.query("How?")
        assert embedder.fault == "It is down."
        await until(lambda: embedder.fault is None)
        await embedder.stop()

    asyncio.run(follow())
    assert model.queries == [PROBE, "How?", PROBE], "nothing is asked once it answers"


def test_an_embedder_that_stays_down_is_asked_ever_more_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    model = Failing()
    embedder = QueryEmbedder(lambda: model)
    sleep = asyncio.sleep

    async def count(seconds: float) -> None:
        slept.append(seconds)
        await sleep(0.001)

    async def follow() -> None:
        await embedder.start()
        model.down = ServiceUnavailableError("It is down.")
        with pytest.raises(ServiceUnavailableError):
            await embedder.query("How?")
        await until(lambda: len(model.queries) > 9)
        await embedder.stop()

    monkeypatch.setattr("serving.search.embedding.asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": count}))
    asyncio.run(follow())
    assert {1.0, 2.0, 4.0, 8.0, 16.0, 30.0} == set(slept)


@pytest.mark.parametrize(
    "error", [ServiceUnavailableError("It limits the rate.", 0.02), RefusedTextsError("No."), FailedTextsError("No.")]
)
def test_what_one_query_met_is_a_fault_only_if_it_lasts(
    monkeypatch: pytest.MonkeyPatch, error: ConcordanceError
) -> None:
    monkeypatch.setattr("serving.search.embedding.POLL_SECONDS", 0.01)
    model = Failing(error)
    embedder = QueryEmbedder(lambda: model)

    async def follow() -> None:
        await embedder.start()
        with pytest.raises(ServiceUnavailableError):
            await embedder.query("How?")
        assert embedder.fault is None
        await until(lambda: model.queries == [PROBE, "How?", PROBE])
        assert embedder.fault is None
        model.down = error
        with pytest.raises(ServiceUnavailableError):
            await embedder.query("How?")
        await until(lambda: embedder.fault is not None)
        await embedder.stop()

    asyncio.run(follow())
