"""Arguments that several commands share, with their converters. An invalid value is wrong usage (exit status 2)."""

import getpass
import os
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, TypeAlias

import msgspec
from cyclopts import Parameter, Token

from resources.core import permissions
from resources.core.durations import duration, written
from resources.core.errors import InvalidRequestError
from resources.sources import parse
from sql.fields import Moment


def _duration(_kind: Any, tokens: Sequence[Token]) -> timedelta:
    return duration(tokens[0].value)


def moment(_kind: Any, tokens: Sequence[Token]) -> datetime:
    """Return a time in UTC. Raises `InvalidRequestError` for another text."""
    try:
        return msgspec.convert(tokens[0].value, Moment)
    except msgspec.ValidationError:
        raise InvalidRequestError(f"{tokens[0].value}: is no time such as 2026-11-22T00:10:00Z.") from None


DIRECTORY = "directory"
"""What `sync` calls the sources of people and groups."""


def _source(_kind: Any, tokens: Sequence[Token]) -> str:

    return parse(tokens[0].value).value


def _source_or_directory(kind: Any, tokens: Sequence[Token]) -> str:
    return DIRECTORY if tokens[0].value.strip().lower() == DIRECTORY else _source(kind, tokens)


def person(email: str | None, example: str) -> str:
    """Return the email given with --as. Raises `InvalidRequestError` that says who is meant if there is none."""
    if email is None:
        raise InvalidRequestError(
            f"Add --as EMAIL: the person whose permissions count, since everyone finds only what they may read. For example: {example}"
        )
    return permissions.email(email)


Duration: TypeAlias = Annotated[timedelta, Parameter(converter=_duration, n_tokens=1, show_default=written)]
Source: TypeAlias = Annotated[
    str, Parameter(converter=_source, n_tokens=1, help="google_drive, slack, files, upload or push.")
]
SourceOrDirectory: TypeAlias = Annotated[
    str,
    Parameter(
        converter=_source_or_directory,
        n_tokens=1,
        help="google_drive, slack, files, upload, push, or directory: people and groups.",
    ),
]
OneOrEverySource: TypeAlias = Annotated[
    str | None,
    Parameter(
        converter=_source,
        n_tokens=1,
        help="google_drive, slack, files, upload or push. Without it, every source that is set up.",
    ),
]
Groups: TypeAlias = Annotated[
    list[str] | None,
    Parameter(name="--group", negative="", help="A group of the person, such as eng@acme.com. Can be repeated."),
]
Json: TypeAlias = Annotated[
    bool, Parameter(name="--json", negative="", help="Print the result as one line of JSON, last on standard output.")
]


def operator() -> str:
    """Return the account that runs the command, for records; in a container, it often has no name."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return f"uid {os.getuid()}"
