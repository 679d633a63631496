from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from resources.embedding.budget import Budget, month_key


@pytest.mark.parametrize(
    ("limit", "spent", "warn", "exceeded"),
    [
        (None, 1e9, False, False),
        (10, 7.99, False, False),
        (10, 8, True, False),
        (10, 10, True, False),
        (10, 10.01, True, True),
        (0, 0, True, False),
        (0, 0.01, True, True),
    ],
)
def test_a_budget_warns_at_four_fifths_and_is_exceeded_past_its_limit(
    limit: float | None, spent: float, warn: bool, exceeded: bool
) -> None:
    budget = Budget(limit=limit, spent=spent)
    assert (budget.warn, budget.exceeded) == (warn, exceeded)


def test_usage_is_booked_on_the_month_in_utc() -> None:
    assert month_key(datetime(2025, 3, 31, 23, 30, tzinfo=UTC)) == "2025-03"
    assert month_key(datetime(2025, 3, 31, 23, 30, tzinfo=timezone(timedelta(hours=-2)))) == "2025-04"
