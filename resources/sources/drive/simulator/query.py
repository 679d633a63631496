"""Parser for the search language of `files.list` (`q`): it turns a query into a predicate on files.

The parent is extracted too if the query restricts the results to its children.
Example: `'ID' in parents and trashed = false and (mimeType = '…' or name contains '…')`
Source: https://developers.google.com/workspace/drive/api/guides/ref-search-terms
"""

import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from resources.sources.drive.simulator.access import AccessRules
from resources.sources.drive.simulator.errors import ApiError, bad_parameter
from resources.sources.drive.simulator.tree import RANKS, DriveFile

Test = Callable[[DriveFile], bool]
_TOKEN = re.compile(r"\s*(?:'((?:[^'\\]|\\.)*)'|(<=|>=|!=|[=<>()])|([A-Za-z][\w.]*))")
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TIMES: dict[str, Callable[[DriveFile], datetime | None]] = {
    "modifiedTime": lambda file: file.modified,
    "createdTime": lambda file: file.created,
    "sharedWithMeTime": lambda file: file.shared_at,
}
_ROLES = {"owners": ("owner",), "writers": ("writer", "fileOrganizer", "organizer", "owner"), "readers": tuple(RANKS)}


class FileQuery(msgspec.Struct):
    matches: Test
    parent: str | None = None
    """Only children of this item can match."""


class _Text(str):
    """A quoted value; every other token is a word or an operator."""

    __slots__ = ()


def parse(text: str, access: AccessRules, my_drive: str) -> FileQuery:
    """Parse `q`. Raises `ApiError` (400) for what Google would reject."""
    parser = _Parser(_tokens(text), access, my_drive)
    found = parser.alternatives()
    if parser.left():
        raise bad_parameter("q")
    return found


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise bad_parameter("q")
        quoted, sign, word = match.groups()
        found.append(_Text(re.sub(r"\\(.)", r"\1", quoted)) if quoted is not None else sign or word)
        position = match.end()
    return found


class _Parser:
    def __init__(self, tokens: list[str], access: AccessRules, my_drive: str) -> None:
        self._tokens = tokens
        self._access = access
        self._my_drive = my_drive

    def left(self) -> bool:
        return bool(self._tokens)

    def alternatives(self) -> FileQuery:
        found = self._conjunction()
        while self._skip("or"):
            found = _either(found.matches, self._conjunction().matches)
        return found

    def _conjunction(self) -> FileQuery:
        found = self._term()
        while self._skip("and"):
            other = self._term()
            found = _both(found, other)
        return found

    def _term(self) -> FileQuery:
        if self._skip("not"):
            test = self._term().matches
            return FileQuery(lambda file: not test(file))
        if self._skip("("):
            found = self.alternatives()
            if not self._skip(")"):
                raise bad_parameter("q")
            return found
        first, sign, last = self._take(), self._take(), self._take()
        if sign == "in" and isinstance(first, _Text):
            return self._membership(first, last)
        if isinstance(first, _Text):
            raise bad_parameter("q")
        return FileQuery(self._comparison(first, sign, last))

    def _membership(self, value: str, field: str) -> FileQuery:
        if field == "parents":
            parent = self._my_drive if value == "root" else value
            return FileQuery(lambda file: file.parent == parent, parent)
        roles = _ROLES.get(field)
        if roles is None:
            raise bad_parameter("q")
        access = self._access
        return FileQuery(
            lambda file: any(held[0].name == value and held[0].role in roles for held in access.grants(file).values())
        )

    def _comparison(self, field: str, sign: str, value: str) -> Test:
        access = self._access
        if field in ("trashed", "starred", "sharedWithMe"):
            if sign not in ("=", "!=") or value not in ("true", "false"):
                raise bad_parameter("q")
            wanted = (value == "true") == (sign == "=")
            if field == "trashed":
                return lambda file: access.trashed(file) is wanted
            if field == "starred":
                return lambda file: file.starred is wanted
            return lambda file: (file.shared_at is not None) is wanted
        if not isinstance(value, _Text):
            raise bad_parameter("q")
        if field in _TIMES:
            return _time(_TIMES[field], sign, value)
        if field == "name":
            return _name(sign, value)
        if field == "mimeType":
            return _mime_type(sign, value)
        if field == "shortcutDetails.targetId" and sign in ("=", "!="):
            return lambda file: (file.target == value) is (sign == "=")
        if field == "fullText":
            raise ApiError(400, "badRequest", "The simulator has no full-text search.", location="q")
        raise bad_parameter("q")

    def _skip(self, token: str) -> bool:
        if self._tokens and self._tokens[0] == token and not isinstance(self._tokens[0], _Text):
            del self._tokens[0]
            return True
        return False

    def _take(self) -> str:
        if not self._tokens:
            raise bad_parameter("q")
        return self._tokens.pop(0)


def _either(one: Test, other: Test) -> FileQuery:
    return FileQuery(lambda file: one(file) or other(file))


def _both(one: FileQuery, other: FileQuery) -> FileQuery:
    first, second = one.matches, other.matches
    return FileQuery(lambda file: first(file) and second(file), one.parent or other.parent)


def _time(read: Callable[[DriveFile], datetime | None], sign: str, value: str) -> Test:
    try:
        limit = datetime.fromisoformat(value)
    except ValueError:
        raise bad_parameter("q") from None
    limit = limit.replace(tzinfo=UTC) if limit.tzinfo is None else limit
    compare = _compare(sign)
    return lambda file: (at := read(file)) is not None and compare(at, limit)


def _name(sign: str, value: str) -> Test:
    if sign != "contains":
        if sign not in ("=", "!="):
            raise bad_parameter("q")
        return lambda file: (file.name == value) is (sign == "=")
    # `contains` matches prefixes of words only: `Hello` in HelloWorld, but not `World`
    begins = re.compile(rf"(?:^|\W|_){re.escape(value)}", re.IGNORECASE)
    return lambda file: begins.search(file.name) is not None


def _mime_type(sign: str, value: str) -> Test:
    if sign == "contains":
        return lambda file: value in file.mime_type
    if sign not in ("=", "!="):
        raise bad_parameter("q")
    return lambda file: (file.mime_type == value) is (sign == "=")


def _compare(sign: str) -> Callable[[Any, Any], bool]:
    if sign not in _COMPARE:
        raise bad_parameter("q")
    return _COMPARE[sign]
