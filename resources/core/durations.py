"""Parsing of durations such as `30m`, `12h` and `7d`."""

import re
from datetime import timedelta

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


FOREVER = "forever"
PATTERN = r"^(\d+[smhd]|forever)$"
"""Format of a retention setting."""


def kept_for(text: str) -> timedelta | None:
    """Return the retention time; None means for ever. Raises `ValueError`."""
    return None if text == FOREVER else duration(text)
