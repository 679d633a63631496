"""Arguments that several commands share, and how text becomes their values. Wrong text is wrong usage (exit status 2)."""

from __future__ import annotations

import getpass
import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, TypeAlias

from cyclopts import Parameter, Token

from resources.core.durations import duration


def _duration(_kind: Any, tokens: Sequence[Token]) -> timedelta:
    return duration(tokens[0].value)


def _source(_kind: Any, tokens: Sequence[Token]) -> str:
    from resources.core.domain import SourceName

    return SourceName.parse(tokens[0].value).value


Duration: TypeAlias = Annotated[timedelta, Parameter(converter=_duration, n_tokens=1)]
Source: TypeAlias = Annotated[str, Parameter(converter=_source, n_tokens=1)]
Groups: TypeAlias = Annotated[
    list[str] | None, Parameter(name="--group", negative="", help="A group of that person (eng@acme.com). May repeat.")
]
Json: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative="", help="Print one line of JSON, last on standard output.")
]


def operator() -> str:
    """Return who runs the command, for the record: in a container often a number without a name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
