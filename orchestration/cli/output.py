"""Output of commands: results go to standard output, everything else to standard error."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from resources.settings import Settings


def say(text: str) -> None:
    """Print a line to standard output."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def program() -> str:
    """Return the path of this command as one can paste it in this folder."""
    path = Path(sys.executable).with_name("concordance")
    if shutil.which("concordance") == str(path):
        return "concordance"
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def note(text: str) -> None:
    """Print a line to standard error."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def note_changed(settings: Settings) -> None:
    """Print which settings have changed since the running services were started, if any."""
    from orchestration.supervision.changes import apply, changed_settings

    if names := changed_settings(settings):
        note(f"Note: {apply(names)}")


def say_json(value: Any) -> None:
    """Print a value as one line of JSON. Times are RFC 3339."""
    say(msgspec.json.encode(value).decode())


def say_json_each(values: Iterable[Any]) -> None:
    """Print values as one line of JSON, an array, without keeping them."""
    sys.stdout.write("[")
    for number, value in enumerate(values):
        sys.stdout.write(("," if number else "") + msgspec.json.encode(value).decode())
    say("]")


def confirmed(question: str) -> bool:
    """Ask on standard error and return True if the answer is yes; without a terminal, False."""
    if not sys.stdin.isatty():
        return False
    sys.stderr.write(question)
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
