"""Durations as people write them: `30m`, `12h`, `7d` enter, a timedelta leaves."""

from __future__ import annotations

import re
from datetime import timedelta

UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
LONGEST = timedelta(days=3650)


def duration(text: str) -> timedelta:
    """Return the time that `30m`, `12h` or `7d` stands for. Raises `ValueError`."""
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text.strip().lower())
    if match is None:
        raise ValueError(f"{text!r} is no duration: write 30m, 12h or 7d.")
    value = timedelta(**{UNITS[match[2]]: int(match[1])})
    if not timedelta() < value <= LONGEST:
        raise ValueError(f"{text!r} is out of range: more than nothing, at most {LONGEST.days}d.")
    return value


FOREVER = "forever"
PATTERN = r"^(\d+[smhd]|forever)$"
"""What a setting of a retention may be."""


def kept_for(text: str) -> timedelta | None:
    """Return how long something is kept; None means for ever. Raises `ValueError`."""
    return None if text == FOREVER else duration(text)
