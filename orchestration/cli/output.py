"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from typing import Any

import msgspec


def say(text: str) -> None:
    """Print a line of the result."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line about what is going on."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """Print a value as one line of JSON. Times are RFC 3339."""
    say(msgspec.json.encode(value).decode())
