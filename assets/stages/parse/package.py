"""The parts of an Office Open XML file (a zip of XML parts) and what they refer to.

Elements and attributes are compared by their local names: "Strict Open XML" has the same ones in other namespaces.
Source: ECMA-376, part 2 (Open Packaging Conventions).
"""

import io
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from functools import cache
from typing import IO, Any
from urllib.parse import unquote

import msgspec

from assets.stages.normalize import MAX_NAME, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.markup import tree
from resources.core.errors import SkipDocumentError

_MAIN = {"word/": "word/document.xml", "ppt/": "ppt/presentation.xml", "xl/": "xl/workbook.xml"}
"""Where programs put the main part, for files that do not say it."""


class Relation(msgspec.Struct, frozen=True):
    """A reference from one part to another, or to an address outside the file."""

    kind: str
    """The last word of its type: `styles`, `comments`, `chart`."""
    target: str
    external: bool


class Package:
    """An Office file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""

    def __init__(self, data: bytes, *, part: str, kind: str) -> None:
        check(data, part="", kind=kind)
        self.kind = kind
        self._listed = part != "word/"
        """True if the main part has no text: it only lists slides or sheets, which its relations name."""
        self._archive = zipfile.ZipFile(io.BytesIO(data))
        self._relations: dict[str, dict[str, Relation]] = {}
        self.warnings: list[str] = []
        # some programs separate folders as Windows does
        self._names = {name.lower().replace("\\", "/"): name for name in self._archive.namelist()}
        found = self.related("", "officeDocument")
        self.main = found[0] if found else _MAIN[part]
        named = found and posixpath.basename(self.main) == posixpath.basename(_MAIN[part])
        if not named and not any(name.startswith(part) for name in self._names):
            raise SkipDocumentError(f"The file is a zip archive but not a {kind} file.")

    def read(self, name: str) -> bytes | None:
        """Return a part, or None if there is none of that name."""
        entry = self._names.get(name.lower())
        if entry is None:
            return None
        try:
            return self._archive.read(entry)
        except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, OSError, RuntimeError) as error:
            raise SkipDocumentError(f"The {self.kind} file is damaged: {one_line(str(error))[:160]}.") from None

    def open(self, name: str) -> IO[bytes]:
        """Open a part to read it piece by piece. Raises `SkipDocumentError` if there is none of that name."""
        entry = self._names.get(name.lower())
        if entry is None:
            raise SkipDocumentError(f"The {self.kind} file is damaged: it has no part {name}.")
        return self._archive.open(entry)

    def xml(self, name: str | None) -> Any:
        """Return the root element of a part, or None if there is no such part."""
        data = self.read(name) if name else None
        if not data:
            return None
        try:
            return tree(data)
        except ValueError as error:
            raise SkipDocumentError(f"The {self.kind} file is damaged: {one_line(str(error))[:160]}.") from None

    def optional(self, name: str | None) -> Any:
        """Return the root element of a part that the file can do without, or None; a warning names a damaged one."""
        try:
            return self.xml(name)
        except SkipDocumentError:
            if (warning := without(posixpath.basename(name or ""))) not in self.warnings:
                self.warnings.append(warning)
            return None

    def relations(self, name: str) -> dict[str, Relation]:
        """Return what a part refers to, by the ids that it uses. The file itself is the part without a name."""
        if name in self._relations:
            return self._relations[name]
        folder, _, file = name.rpartition("/")
        read = self.xml if name and name == self.main and self._listed else self.optional
        root = read(f"{folder}/_rels/{file}.rels" if folder else f"_rels/{file}.rels")
        found: dict[str, Relation] = {}
        for one in root if root is not None else ():
            target = one.get("Target") or ""
            external = one.get("TargetMode") == "External"
            if not external:
                target = posixpath.normpath(posixpath.join("/" + folder, unquote(target))).lstrip("/")
            found[one.get("Id") or ""] = Relation((one.get("Type") or "").rpartition("/")[2], target, external)
        self._relations[name] = found
        return found

    def related(self, name: str, kind: str) -> list[str]:
        """Return the names of the parts of a kind that a part refers to."""
        return [one.target for one in self.relations(name).values() if one.kind == kind and not one.external]

    def properties(self) -> tuple[str | None, str | None]:
        """Return the title and the author that the file states."""
        names = self.related("", "core-properties")
        root = self.optional(names[0]) if names else None
        found = {local(one.tag): one_line(one.text or "") for one in root if one.text} if root is not None else {}
        return found.get("title") or None, found.get("creator") or None


def without(name: str) -> str:
    """Return the warning about a part that is left out."""
    return f"A part of the file ({name[:MAX_NAME]}) is damaged and not read."


@cache
def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def local(tag: Any) -> str:
    """Return an element's or an attribute's name without its namespace."""
    return _local(tag) if isinstance(tag, str) else ""


def attribute(element: Any, name: str) -> str | None:
    """Return an attribute by its local name."""
    tag = element.tag
    value = element.get(f"{tag[: tag.index('}') + 1]}{name}") if tag.startswith("{") else None
    if value is None:
        value = element.get(name)
    return value if value is not None else next((v for k, v in element.attrib.items() if local(k) == name), None)


def child(element: Any, *path: str) -> Any:
    """Return the first child of a name, of the first child of another name and so on, or None."""
    for name in path:
        element = next((one for one in element if local(one.tag) == name), None)
        if element is None:
            return None
    return element


def within(element: Any, *names: str) -> Iterator[Any]:
    """Yield all elements of these names below an element."""
    return (one for one in element.iter() if local(one.tag) in names)


def is_on(element: Any) -> bool:
    """Return True if a switch is there and not off. Source: ECMA-376, part 1, 22.9.2.7 (ST_OnOff)"""
    return element is not None and attribute(element, "val") not in ("0", "false", "off")


def number(text: str | None, default: int, *, least: int = 0, most: int = 2**31) -> int:
    """Return an attribute's number within bounds; a missing or invalid one is `default`."""
    try:
        return min(max(int(text or ""), least), most)
    except ValueError:
        return default
