"""Parser for the part of `files.list`'s search language (`q`) that the connector uses: it turns a query into a predicate.

Example: `('ID' in parents or 'ID' in parents) and mimeType != '…' and trashed = false`. Other terms are rejected.

Source: https://developers.google.com/workspace/drive/api/guides/ref-search-terms
"""

import re
from collections.abc import Callable

import msgspec

from simulators.drive.access import AccessRules
from simulators.drive.errors import bad_parameter
from simulators.drive.tree import DriveFile

_VISIBILITIES = ("anyoneCanFind", "anyoneWithLink", "domainCanFind", "domainWithLink", "limited")
Test = Callable[[DriveFile], bool]

_TOKEN = re.compile(r"\s*('[^']*'|!=|[=()]|\w+)")
_QUERY = re.compile(rf"(?:{_TOKEN.pattern})+\s*")


class FileQuery(msgspec.Struct):
    matches: Test
    parent: str | None = None
    """Only children of this item can match."""


def parse(text: str, access: AccessRules, my_drive: str) -> FileQuery:
    """Parse `q`. Raises `ApiError` (400) for what it does not know."""
    if not _QUERY.fullmatch(text):
        raise bad_parameter("q")
    parser = _Parser(_TOKEN.findall(text), access, my_drive)
    found = parser.alternatives()
    if parser.tokens:
        raise bad_parameter("q")
    return found


class _Parser:
    def __init__(self, tokens: list[str], access: AccessRules, my_drive: str) -> None:
        self.tokens = tokens
        self._access = access
        self._my_drive = my_drive

    def alternatives(self) -> FileQuery:
        found = self._conjunction()
        while self._skip("or"):
            found = _either(found.matches, self._conjunction().matches)
        return found

    def _conjunction(self) -> FileQuery:
        found = self._term()
        while self._skip("and"):
            found = _both(found, self._term())
        return found

    def _term(self) -> FileQuery:
        if self._skip("("):
            found = self.alternatives()
            if not self._skip(")"):
                raise bad_parameter("q")
            return found
        if len(self.tokens) < 3:
            raise bad_parameter("q")
        left, sign, right = self.tokens[:3]
        del self.tokens[:3]
        if (sign, right) == ("in", "parents") and left.startswith("'"):
            parent = self._my_drive if left == "'root'" else left[1:-1]
            return FileQuery(lambda file: file.parent == parent, parent)
        equal = {"=": True, "!=": False}.get(sign)
        if equal is None:
            raise bad_parameter("q")
        if left == "trashed" and right in ("true", "false"):
            wanted = (right == "true") is equal
            return FileQuery(lambda file: self._access.trashed(file) is wanted)
        if left == "sharedWithMe" and right in ("true", "false"):
            shared = (right == "true") is equal
            return FileQuery(lambda file: self._access.shared_with_viewer(file) is shared)
        if left == "visibility" and right.strip("'") in _VISIBILITIES:
            return FileQuery(lambda file: (self._access.visibility(file) == right[1:-1]) is equal)
        if left == "mimeType" and right.startswith("'"):
            return FileQuery(lambda file: (file.mime_type == right[1:-1]) is equal)
        raise bad_parameter("q")

    def _skip(self, token: str) -> bool:
        if self.tokens[:1] == [token]:
            del self.tokens[0]
            return True
        return False


def _either(one: Test, other: Test) -> FileQuery:
    return FileQuery(lambda file: one(file) or other(file))


def _both(one: FileQuery, other: FileQuery) -> FileQuery:
    return FileQuery(lambda file: one.matches(file) and other.matches(file), one.parent or other.parent)
