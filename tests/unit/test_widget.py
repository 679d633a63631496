"""The widget's parts: its script, what visitors are sent, and its tokens' limits over time."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

import serving.widget
from resources.core.errors import (
    ConcordanceError,
    ConfigurationError,
    InvalidRequestError,
    NotRunningError,
    ServiceUnavailableError,
)
from resources.servers.shared import Shared
from serving.answers.asking import as_events
from serving.answers.cautions import OTHER_LANGUAGE
from serving.answers.schemas import AnswerEvent, AnswerResponse
from serving.http.errors import account_inactive
from serving.http.openapi import examples
from serving.http.rate_limit import RateLimit
from serving.widget.events import visitor_events

SCRIPT = (Path(serving.widget.__file__).parent / "widget.js").read_text(encoding="utf-8")


async def failing(error: Exception) -> AsyncGenerator[AnswerEvent]:
    yield AnswerEvent("token", {"text": "Up to"})
    yield AnswerEvent("restart", {"warnings": ["The model at 10.0.0.7 does not answer."]})
    yield AnswerEvent("check", {"sentences": []})
    raise error


def shown(error: Exception) -> list[AnswerEvent | str]:
    """Return the events that a visitor is sent, and the type and text of the error that ends them."""

    async def read() -> list[AnswerEvent | str]:
        found: list[AnswerEvent | str] = []
        try:
            async for event in visitor_events(failing(error), "https://search.example"):
                found.append(event)  # noqa: PERF401 (what came before the error is kept)
        except ConcordanceError as raised:
            found.append(f"{type(raised).__name__}: {raised}")
        return found

    return asyncio.run(read())


def test_a_failure_says_nothing_of_its_cause() -> None:
    before = [AnswerEvent("token", {"text": "Up to"}), AnswerEvent("restart", {})]
    unavailable = "ServiceUnavailableError: The assistant is temporarily unavailable. Try again."
    for error in (
        ServiceUnavailableError("Postgres at db.internal is down."),
        NotRunningError("Run `concordance up`."),
        ConfigurationError("CONCORDANCE_LLM_API_KEY is not set."),
        KeyError("secret"),
    ):
        assert shown(error) == [*before, unavailable]
    inactive = account_inactive()
    assert shown(inactive) == [*before, f"UnauthorizedError: {inactive}"]
    assert shown(InvalidRequestError("query: is empty.")) == [*before, "InvalidRequestError: query: is empty."]


def test_whatever_fails_once_a_stream_has_begun_becomes_its_last_event() -> None:
    async def read() -> list[tuple[str | None, str]]:
        rest = failing(KeyError("secret"))
        first = await anext(rest)
        return [(one.event, str(one.data)) async for one in as_events(first, rest)]

    with capture_logs() as logged:
        events = asyncio.run(read())
    assert [name for name, _ in events] == ["token", "restart", "check", "error"]
    (error_id,) = [one["error_id"] for one in logged if one["event"] == "unexpected_error"]
    assert json.loads(events[-1][1])["detail"] == (
        f"An unexpected error was logged. Quote {error_id} to an administrator."
    )


def test_an_answer_in_another_language_than_its_sources_says_so_and_does_not_count_as_unsupported() -> None:
    async def given() -> AsyncGenerator[AnswerEvent]:
        unlike = [
            {"text": text, "start": 0, "end": 4, "citations": [1], "supported": False, "reason": reason}
            for text, reason in (("Fünf.", "language"), ("Sechs.", "number"))
        ]
        yield AnswerEvent(
            "done",
            msgspec.convert(
                examples.ANSWER | {"sentences": unlike, "warnings": [msgspec.to_builtins(OTHER_LANGUAGE)]},
                AnswerResponse,
            ),
        )

    async def done() -> dict[str, Any]:
        return await anext(event.data async for event in visitor_events(given(), "https://search.example"))

    answer = asyncio.run(done())
    assert answer["unsupported"] == ["Sechs."]
    assert answer["note"].startswith("This answer is in another language")


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Press ` [1].\nThen ` [1].", 2),
        ("Type `a[1]` [1].", 1),
        ("```sh\nx ` [1]\n```\nDone [1].", 1),
        ("Done [1].\n```\nx[1]", 1),
    ],
)
def test_citations_are_counted_as_the_script_shows_them(text: str, cited: int) -> None:
    async def given() -> AsyncGenerator[AnswerEvent]:
        yield AnswerEvent("done", msgspec.convert(examples.ANSWER | {"answer": text, "quotes": []}, AnswerResponse))

    async def done() -> dict[str, Any]:
        return await anext(event.data async for event in visitor_events(given(), "https://search.example"))

    assert len(asyncio.run(done())["quotes"]) == cited


def test_the_script_uses_nothing_that_a_strict_policy_forbids_or_a_stored_script_needs() -> None:
    assert len(SCRIPT.encode()) < 32_000
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|localStorage|sessionStorage|indexedDB"
    assert re.findall(rf"{forbidden}|document\.cookie|\bimport\b|setAttribute\(\"style", SCRIPT) == []


def test_a_limit_of_a_day_is_refilled_evenly() -> None:
    now = [0.0]
    limit = RateLimit(24, Shared.alone(), "test", clock=lambda: now[0], seconds=24 * 3600)
    assert [limit.take("") for _ in range(24)] == [0.0] * 24
    assert limit.take("") == 3600
    now[0] = 3600
    assert limit.take("") == 0
    assert limit.take("") == 3600
