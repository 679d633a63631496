"""Output of commands: results go to standard output, everything else to standard error."""

import sys
from typing import Any

import msgspec


def say(text: str) -> None:
    """Print a line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def note(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def say_json(value: Any) -> None:
    """Print a value as one line of JSON. Times are RFC 3339."""
    say(msgspec.json.encode(value).decode())
