"""Times from outside, bounded once where they enter, and dates as people read them.

Postgres stores times before the year 1 and after 9999, which Python cannot read back: one such row would stop everything that reads its
table. The bounds leave a day at the end for time zones and for the day after a range.
"""

import re
from datetime import UTC, date, datetime

from resources.core.errors import InvalidRequestError

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, tzinfo=UTC)
"""Times are before this one. The migration `0040_bounded_times.sql` has the same bounds."""
BOUNDS = "must be a time from 1970-01-01 to 9999-12-30"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def bounded(moment: datetime) -> datetime | None:
    """Return a time in UTC, None outside of the bounds. A time without an offset is in UTC."""
    if moment.tzinfo is not UTC:
        try:
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:
            return None
    return moment if EARLIEST <= moment < END else None


def checked(moment: datetime, field: str) -> datetime:
    """Return a time of a request in UTC. Raises `InvalidRequestError` naming the field if it is outside of the bounds."""
    found = bounded(moment)
    if found is None:
        raise InvalidRequestError(f"{field}: {BOUNDS}.")
    return found


def parsed(text: str) -> datetime | None:
    """Return a time in ISO 8601 in UTC, None if it is not valid or outside of the bounds."""
    try:
        return bounded(datetime.fromisoformat(text))
    except ValueError:
        return None


def day(text: str, field: str) -> datetime:
    """Return the beginning of a day (`2025-12-31`) in UTC. Raises `InvalidRequestError` naming the field."""
    if not _DATE.fullmatch(text):
        raise InvalidRequestError(f"{field}: must be a day such as 2025-12-31.")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(f"{field}: must be a day such as 2025-12-31.") from None
    return checked(moment, field)


def of_seconds(seconds: float) -> datetime | None:
    """Return the time of seconds since 1970, None outside of the bounds."""
    try:
        return bounded(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def short_date(day: date, today: date) -> str:
    """Return `Nov 10`, followed by the year unless it is this year."""
    text = f"{_MONTHS[day.month - 1]} {day.day}"
    return text if day.year == today.year else f"{text}, {day.year}"


def long_date(day: date) -> str:
    """Return `10 Nov 2025`."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
