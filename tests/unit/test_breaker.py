"""Breaker: a deadline for each call, and one call alone after a pause."""

from __future__ import annotations

import threading

import pytest

from resources.core.breaker import Breaker, UnresponsiveError
from resources.core.errors import ServiceUnavailableError

PATIENCE = 30.0


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class Hanging:
    """An action that ends when it is told to."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        assert self.release.wait(PATIENCE)
        return "late"


def fail() -> str:
    raise ValueError("refused")


def test_after_a_deadline_calls_are_refused_at_once_until_the_pause_is_over() -> None:
    clock, hanging = Clock(), Hanging()
    breaker = Breaker("The service", rest=15, clock=clock)
    with pytest.raises(UnresponsiveError, match=r"did not answer within 0\.01 s"):
        breaker.call(hanging, 0.01)
    for _ in range(5):
        with pytest.raises(UnresponsiveError, match="retried in 15 s") as refused:
            breaker.call(hanging, PATIENCE)
        assert refused.value.retry_after == 15
    assert hanging.calls == 1
    clock.now += 16
    assert breaker.call(lambda: "back", PATIENCE) == "back"
    assert breaker.call(lambda: "back", PATIENCE) == "back"
    hanging.release.set()


def test_one_call_alone_tries_after_the_pause() -> None:
    clock, hanging = Clock(), Hanging()
    breaker = Breaker("The service", rest=15, clock=clock)
    with pytest.raises(UnresponsiveError):
        breaker.call(hanging, 0.01)
    clock.now += 16
    with pytest.raises(UnresponsiveError):
        breaker.call(lambda: breaker.call(lambda: "second", PATIENCE), PATIENCE)
    hanging.release.set()


def test_an_error_in_time_is_an_answer() -> None:
    breaker = Breaker("The service")
    for _ in range(3):
        with pytest.raises(ValueError, match="refused"):
            breaker.call(fail, PATIENCE)
    assert breaker.call(lambda: "fine", PATIENCE) == "fine"


def test_without_a_pause_only_the_deadline_is_kept() -> None:
    hanging = Hanging()
    breaker = Breaker("The service", rest=0)
    with pytest.raises(UnresponsiveError):
        breaker.call(hanging, 0.01)
    assert breaker.call(lambda: "fine", PATIENCE) == "fine"
    hanging.release.set()


def test_calls_that_fail_in_a_row_cause_a_pause() -> None:
    clock, calls = Clock(), list[str]()

    def down() -> str:
        calls.append("down")
        raise ServiceUnavailableError("500")

    def limited() -> str:
        raise ServiceUnavailableError("429", 3.0)

    breaker = Breaker("The service", rest=15, faults=2, clock=clock)
    with pytest.raises(ServiceUnavailableError, match="500"):
        breaker.call(down, PATIENCE)
    with pytest.raises(ServiceUnavailableError, match="429"):  # it says itself when to try again
        breaker.call(limited, PATIENCE)
    for _ in range(2):
        with pytest.raises(ServiceUnavailableError, match="500"):
            breaker.call(down, PATIENCE)
    for _ in range(5):
        with pytest.raises(UnresponsiveError, match="failed a moment ago"):
            breaker.call(down, PATIENCE)
    assert len(calls) == 3
    clock.now += 16
    with pytest.raises(ServiceUnavailableError, match="500"):  # one trial, and the next pause
        breaker.call(down, PATIENCE)
    with pytest.raises(UnresponsiveError):
        breaker.call(down, PATIENCE)
    clock.now += 16
    assert breaker.call(lambda: "back", PATIENCE) == "back"
    with pytest.raises(ServiceUnavailableError, match="500"):
        breaker.call(down, PATIENCE)
    assert breaker.call(lambda: "back", PATIENCE) == "back"
