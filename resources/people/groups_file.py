"""The file of groups (CONCORDANCE_GROUPS_FILE): CSV with the columns `group` and `member`, one membership a line.

A member is a person's email, or another group: one that has lines of its own, or is written `group:NAME@DOMAIN`. A file with any fault is
refused whole, so that a file that is being written narrows nothing and grants nothing.
"""

from __future__ import annotations

import csv
from pathlib import Path

from resources.core import permissions
from resources.core.errors import ConfigurationError, InvalidRequestError
from resources.people.membership import DirectMembers

SETTING = "CONCORDANCE_GROUPS_FILE"
COLUMNS = ["group", "member"]
MAX_BYTES = 64 * 1024 * 1024


def read(path: Path) -> dict[str, DirectMembers]:
    """Return the direct members of each group. Raises `ConfigurationError` that names the line."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigurationError(f"{path} is larger than {MAX_BYTES // 1024**2} MB.", setting=SETTING)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigurationError(
            f"cannot read {path}: {error.strerror}.", "Correct the path or its rights.", setting=SETTING
        ) from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"{path} is not UTF-8 text.", "Save it as CSV in UTF-8.", setting=SETTING) from None
    return parse(text, str(path))


def parse(text: str, name: str) -> dict[str, DirectMembers]:
    """Return the direct members of each group in the text of a file. Raises `ConfigurationError`."""
    reader = csv.reader(text.splitlines(), strict=True, skipinitialspace=True)
    lines: list[tuple[int, str, str]] = []
    try:
        header = [column.strip().lower() for column in next(reader, list[str]())]
        if header != COLUMNS:
            raise _fault(name, 1, "the first line must be: group,member")
        for row in reader:
            if any(cell.strip() for cell in row):
                if len(row) != len(COLUMNS):
                    raise _fault(name, reader.line_num, f"expected two columns, found {len(row)}")
                lines.append((reader.line_num, _group(row[0], name, reader.line_num), row[1].strip()))
    except csv.Error as error:
        raise _fault(name, reader.line_num, f"it is not CSV ({error})") from None
    people: dict[str, list[str]] = {group: [] for _, group, _ in lines}
    nested: dict[str, list[str]] = {group: [] for group in people}
    for number, group, member in lines:
        if member.lower().startswith("group:"):
            nested[group].append(_group(member, name, number))
            continue
        if (inner := _group(member, name, number)) in people:
            nested[group].append(inner)
        else:
            people[group].append(_address(member, name, number))
    return {group: DirectMembers(people[group], tuple(nested[group])) for group in people}


def _group(text: str, name: str, number: int) -> str:
    return _address(permissions.visible(text).strip().removeprefix("group:").removeprefix("GROUP:"), name, number)


def _address(text: str, name: str, number: int) -> str:
    try:
        return permissions.email(text)
    except InvalidRequestError as error:
        raise _fault(name, number, str(error).rstrip(".")) from None


def _fault(name: str, number: int, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{name}, line {number}: {what}.", "The groups stay as they were read last.", setting=SETTING
    )
