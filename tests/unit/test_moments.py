"""Times from outside: what is accepted can be stored, read back and compared."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources.core import moments
from resources.core.errors import InvalidRequestError
from serving.http.cursors import decode, encode
from serving.search.filters import DateRange, Filters, narrowing

OFFSETS = st.integers(-24 * 60 + 1, 24 * 60 - 1).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.datetimes(timezones=st.none() | OFFSETS))
def test_a_time_is_in_bounds_in_utc_or_none(moment: datetime) -> None:
    found = moments.bounded(moment)
    if found is not None:
        assert moments.EARLIEST <= found < moments.END
        assert found == (moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        for hours in (-14, 14):  # whatever the time zone in which it is shown
            found.astimezone(timezone(timedelta(hours=hours)))


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers())
def test_any_number_of_seconds_is_a_time_in_bounds_or_none(seconds: float) -> None:
    found = moments.of_seconds(seconds)
    assert found is None or moments.EARLIEST <= found < moments.END


@given(st.text() | st.datetimes(timezones=OFFSETS).map(datetime.isoformat))
def test_any_text_is_a_time_in_bounds_or_none(text: str) -> None:
    found = moments.parsed(text)
    assert found is None or moments.EARLIEST <= found < moments.END


@given(st.dates().map(str) | st.datetimes(timezones=st.none() | OFFSETS).map(datetime.isoformat))
def test_a_filter_by_any_date_is_valid_or_names_its_field(text: str) -> None:
    for field in ("start", "end"):
        try:
            made = narrowing(Filters(date_range=DateRange(**{field: text})))
        except InvalidRequestError as error:
            assert str(error).startswith(f"filters.date_range.{field}: ")  # noqa: PT017 (either is right)
        else:
            (edge,) = {made.since, made.before} - {None}
            assert moments.EARLIEST <= edge <= moments.END


@pytest.mark.parametrize("text", ["20251231", "2025-W52", "2025-W52-3", "2025W52T10", "20251231T100000Z"])
def test_a_filter_by_a_date_in_another_form_is_refused(text: str) -> None:
    for field in ("start", "end"):
        with pytest.raises(InvalidRequestError, match=rf"^filters\.date_range\.{field}: .* is not a valid date"):
            narrowing(Filters(date_range=DateRange(**{field: text})))
    assert narrowing(Filters(date_range=DateRange(end="2025-12-31"))).before == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("text", ["1969-12-31", "9999-12-31", "0001-01-01", "2026-1-1", "2026-W01-1", "tomorrow"])
def test_a_day_outside_of_the_bounds_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"^until: must be "):
        moments.day(text, "until")
    assert moments.day("9999-12-30", "until") + timedelta(days=1) == moments.END


def test_a_cursor_holds_times_in_bounds_only() -> None:
    kind = tuple[datetime, int]
    assert decode(encode((datetime(2026, 1, 1, tzinfo=UTC), 1)), kind)
    for time in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59Z"):
        with pytest.raises(InvalidRequestError, match=r"^cursor: is not one of this list"):
            decode(encode((time, 1)), kind)
