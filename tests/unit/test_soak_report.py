"""The soak test's verdict: what makes it fail."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from bench.soak.report import print_report


def passes(
    *, latencies: tuple[float, ...] = (0.1,), kills: int = 1, searches: str = "", changes: str = "", syncs: str = ""
) -> bool:
    """Return the verdict on a run without faults but with these errors of requests."""

    def errors(kind: str) -> Counter[str]:
        return Counter({"503 unavailable": 9, **({kind: 1} if kind else {})})

    nothing: dict[str, Any] = {"warnings": Counter[str](), "doubled": [], "leaks": [], "missed": [], "longest": 0.1}
    observed: Any = SimpleNamespace(errors=errors(searches), **nothing)
    held: Any = SimpleNamespace(roles={}, processes=9, megabytes=900, descriptors=99)
    kill: Any = SimpleNamespace(role="serving", search=0.0, services=1.0)
    return print_report(
        seconds=60.0,
        latencies=latencies,
        observed=observed,
        changes=SimpleNamespace(made=Counter[str](), errors=errors(changes)),  # type: ignore[arg-type]
        syncs=SimpleNamespace(ended=Counter[str](), errors=errors(syncs)),  # type: ignore[arg-type]
        hostile=SimpleNamespace(answers=Counter[str](), server_errors=[]),  # type: ignore[arg-type]
        visitors=[],
        broken=[],
        kills=[kill] * kills,
        tracked=1,
        held=[held],
        lost=[],
        unaudited=0,
        left=[],
    )


def test_services_that_are_away_for_a_while_are_no_fault() -> None:
    assert passes()


@pytest.mark.parametrize("of", ["searches", "changes", "syncs"])
def test_a_request_that_is_answered_with_500_is_a_fault(of: str) -> None:
    assert not passes(**{of: "500 internal"})  # type: ignore[arg-type]


def test_a_run_that_killed_or_answered_nothing_proves_nothing() -> None:
    assert not passes(kills=0)
    assert not passes(latencies=())
