"""Durations: parsing those of settings (`30m`, `12h`, `7d`), and how people say them."""

import re
from datetime import datetime, timedelta

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST = timedelta(days=3650)


def duration(text: str) -> timedelta:
    """Return the duration that `30m`, `12h` or `7d` denotes. Raises `ValueError`."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is not a valid duration: write 30m, 12h or 7d.")
    value = timedelta(**{UNITS[match[2]]: int(match[1])})
    if not timedelta() < value <= LONGEST:
        raise ValueError(f"{text!r} is out of range: it must be more than zero and at most {LONGEST.days}d.")
    return value


def written(value: timedelta) -> str:
    """Return a duration of whole seconds as `duration` reads it, in its largest unit."""
    return next(f"{value // one}{unit}" for unit in "dhms" if not value % (one := timedelta(**{UNITS[unit]: 1})))


FOREVER = "forever"
PATTERN = r"^(\d+[smhd]|forever)$"
"""Format of a retention setting."""


def kept_for(text: str) -> timedelta | None:
    """Return the retention time; None means for ever. Raises `ValueError`."""
    return None if text == FOREVER else duration(text)


def in_words(text: str) -> str:
    """Return a retention setting as people say it: `7 days`, `1 hour`, `forever`."""
    value, unit = text[:-1], UNITS.get(text[-1])
    return text if unit is None else f"{value} {unit[:-1] if int(value) == 1 else unit}"


def how_long(seconds: float) -> str:
    """Return a duration as people say it: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def age_of(moment: datetime, now: datetime) -> str:
    """Return how long ago a moment was, in its largest unit."""
    seconds = max(0, int((now - moment).total_seconds()))
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
