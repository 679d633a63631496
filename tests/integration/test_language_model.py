"""The client of a language model over real HTTP: its circuit breaker and the options that models refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from resources.core.breaker import REST_SECONDS
from resources.core.errors import ConfigurationError, ServiceUnavailableError
from serving.answers.model import ChatModel
from serving.answers.styles import REWRITING, STYLES
from serving.search.quoting import ChatMessage
from tests.fixtures.llm import ModelServer, well

HELLO: list[ChatMessage] = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Hello"}]


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def model_of(server: ModelServer, clock: Clock, seconds: float = 20) -> ChatModel:
    return ChatModel(server.url, None, "stand-in", seconds, 4096, 2, clock)


async def asked(model: ChatModel, *, stream: bool = False) -> str:
    """Return the answer, or the message of the error."""
    try:
        if stream:
            return "".join([piece async for piece in model.stream(HELLO, person="ann@acme.com")])
        return await model.complete(HELLO, person="ann@acme.com")
    except ServiceUnavailableError as error:
        return str(error)


def run(model: ChatModel, work: Coroutine[Any, Any, None]) -> None:
    async def closing() -> None:
        try:
            await work
        finally:
            await model.close()

    asyncio.run(closing())


@pytest.mark.parametrize("stream", [False, True])
def test_after_a_failure_it_rests_and_then_one_call_tries(model_server: ModelServer, stream: bool) -> None:
    clock = Clock()
    model = model_of(model_server, clock)

    async def calls() -> None:
        model_server.fail(500, 4)
        assert "fails (500)" in await asked(model, stream=stream)
        assert "It is retried in 15 s." in await asked(model, stream=stream)
        assert model_server.arrived == 4
        clock.now += REST_SECONDS + 1
        model_server.hold()
        trial = asyncio.create_task(asked(model, stream=stream))
        await asyncio.to_thread(model_server.wait_for, 5)
        assert "It is retried in" in await asked(model, stream=stream)
        model_server.release()
        assert await trial == "Nothing [1]."
        assert await asked(model, stream=stream) == "Nothing [1]."

    run(model, calls())


def test_a_trial_that_is_given_up_leaves_it_to_the_next(model_server: ModelServer) -> None:
    clock = Clock()
    model = model_of(model_server, clock)

    async def calls() -> None:
        model_server.fail(500, 4)
        await asked(model)
        clock.now += REST_SECONDS + 1
        model_server.hold()
        trial = asyncio.create_task(asked(model))
        await asyncio.to_thread(model_server.wait_for, 5)
        trial.cancel()
        await asyncio.wait((trial,))
        model_server.release()
        assert await asked(model) == "Nothing [1]."

    run(model, calls())


@pytest.mark.parametrize("stream", [False, True])
def test_what_a_model_thinks_is_no_part_of_its_answer(model_server: ModelServer, stream: bool) -> None:
    model = model_of(model_server, Clock())
    model_server.manner = lambda prompt: f"<think>\nIs it in a source?\n</think>\n\n{well(prompt)}"

    async def calls() -> None:
        assert await asked(model, stream=stream) == "Nothing [1]."

    run(model, calls())


@pytest.mark.parametrize("finish", ["length", None])
def test_an_answer_that_is_cut_off_is_no_failure_of_the_service(model_server: ModelServer, finish: str | None) -> None:
    model = model_of(model_server, Clock())

    async def calls() -> None:
        model_server.finish = finish
        assert "broke off its answer" in await asked(model)
        model_server.finish = "stop"
        assert await asked(model) == "Nothing [1]."

    run(model, calls())


def test_a_model_that_takes_other_options_gets_them(model_server: ModelServer) -> None:
    model = model_of(model_server, Clock())
    model_server.refuses = ["max_tokens", "temperature"]

    async def calls() -> None:
        for style in (STYLES["comprehensive"], REWRITING):
            assert await model.complete(HELLO, person="ann@acme.com", style=style) == "Nothing [1]."

    run(model, calls())
    for request in model_server.requests:
        assert "max_tokens" not in request
        assert "temperature" not in request
        assert request["max_completion_tokens"] == 4096, "a reasoning model thinks within this limit"


@pytest.mark.parametrize(
    "refusal",
    [
        "'max_tokens' or 'max_completion_tokens' is too large: 512. This model's maximum context length is 4096 tokens and your request "
        "has 3700 input tokens",
        "max_tokens is too large: 512. This model supports at most 256 tokens.",
        "The prompt 'What temperature do stream_options have?' is refused.",
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_a_question_that_is_refused_changes_no_options(model_server: ModelServer, refusal: str, stream: bool) -> None:
    model = model_of(model_server, Clock())

    async def calls() -> None:
        model_server.refusal = refusal
        with pytest.raises(ConfigurationError, match="refuses the request"):
            await asked(model, stream=stream)
        model_server.refusal = None
        style = STYLES["short"]
        assert await model.complete(HELLO, person="ann@acme.com", style=style) == "Nothing [1]."

    run(model, calls())
    (request,) = model_server.requests
    assert request["max_tokens"] == STYLES["short"].max_tokens
    assert "max_completion_tokens" not in request
    assert "temperature" in request


@pytest.mark.parametrize(("stream", "refuses"), [(False, False), (True, False), (True, True)])
def test_tokens_are_counted_where_the_service_tells_them(
    model_server: ModelServer, stream: bool, refuses: bool
) -> None:
    model = model_of(model_server, Clock())
    used: list[tuple[int, int]] = []
    model.used = lambda read, written: used.append((read, written))
    if refuses:
        model_server.refuses.append("stream_options")

    async def calls() -> None:
        for _ in range(2):
            assert await asked(model, stream=stream) == "Nothing [1]."

    run(model, calls())
    assert used == ([] if refuses else [(11, 3)] * 2)
    assert model_server.arrived == 2 + refuses
