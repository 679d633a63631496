"""Calls that fail for a moment are repeated; a service that stays away does not hold up every call to it."""

from __future__ import annotations

from contextlib import suppress

from resources.core.errors import RateLimitedError, RetryLaterError
from resources.core.retrying import OUTAGE, Tally, call_with_retry

WAITS = (1.0, 5.0)


class Service:
    """A service that is away for some attempts, with a clock."""

    def __init__(self, away: int) -> None:
        self.away = away
        self.tally = Tally()
        self.slept: list[float] = []

    def answer(self) -> str:
        self.away -= 1
        if self.away >= 0:
            raise RetryLaterError("It does not answer.")
        return "here"

    def ask(self) -> list[float]:
        """Return how long the call waited, each time; it may fail."""
        self.slept.clear()
        with suppress(RetryLaterError):
            call_with_retry(self.answer, self.tally, waits=WAITS, sleep=self.slept.append)
        return list(self.slept)


def test_a_call_that_fails_for_a_moment_is_repeated() -> None:
    service = Service(away=2)
    assert (service.ask(), service.tally.retries, service.tally.gave_up) == ([1.0, 5.0], 2, 0)


def test_while_a_service_is_away_calls_no_longer_wait_for_it() -> None:
    service = Service(away=100)
    assert [service.ask() for _ in range(OUTAGE + 3)] == [[1.0, 5.0]] * OUTAGE + [[]] * 3
    assert service.tally.gave_up == OUTAGE + 3
    service.away = 0
    assert service.ask() == []
    service.away = 2
    assert service.ask() == [1.0, 5.0], "it has answered since"


def test_single_calls_that_fail_are_no_outage() -> None:
    service = Service(away=0)
    for _ in range(2 * OUTAGE):
        service.away = 3
        assert service.ask() == [1.0, 5.0]
        service.away = 0
        assert service.ask() == []


def test_limits_are_waited_out_even_after_an_outage() -> None:
    service = Service(away=100)
    for _ in range(OUTAGE):
        service.ask()
    answers = iter([RateLimitedError("Slower.", 7.0), None])

    def limited() -> None:
        if (fault := next(answers)) is not None:
            raise fault

    slept: list[float] = []
    call_with_retry(limited, service.tally, waits=WAITS, sleep=slept.append)
    assert slept == [7.0]
