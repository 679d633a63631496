"""Parse a PowerPoint file; each slide becomes a page with its title as a heading, texts, tables, charts, comments and speaker notes.

Source: ECMA-376, part 1, sections 19 and 21.
"""

import re
from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.alt_text import described
from assets.stages.parse.drawing import graphics, has_text, is_hidden, paragraph, shapes
from assets.stages.parse.numbering import numeral
from assets.stages.parse.package import Package, attribute, child, local, number, within
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import counted
from assets.stages.parse.tables import table
from resources.core.errors import SkipDocumentError

_MAX_LEVEL = 8
_REPEATED = 200
"""Characters of a cell that are repeated in each row that it spans."""
_FORMS = {
    "alphaLc": "lowerLetter", "alphaUc": "upperLetter", "romanLc": "lowerRoman", "romanUc": "upperRoman", "arabic": "decimal",
}  # fmt: skip
_AROUND = {"ParenBoth": "({})", "ParenR": "{})", "Period": "{}.", "Plain": "{}"}
_SCHEME = re.compile(f"({'|'.join(_FORMS)})({'|'.join(_AROUND)})")
"""Source: ECMA-376, part 1, 20.1.10.61 (ST_TextAutonumberScheme)"""
_TITLES = frozenset({"title", "ctrTitle"})


def parse(data: bytes) -> Parsed:
    """Return the slides of a PPTX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    package = Package(data, part="ppt/", kind="PPTX")
    root = package.xml(package.main)
    if root is None:
        raise SkipDocumentError("The PPTX file is damaged: it has no presentation.")
    relations = package.relations(package.main)
    names = [relations[name].target for one in within(root, "sldId") if (name := _reference(one)) in relations]
    deck = _Deck(package)
    # a presentation may list a slide any number of times; it is read once
    slides = list(dict.fromkeys(names))
    drafts = [draft for page, name in enumerate(slides, start=1) for draft in deck.slide(name, page)]
    title, author = package.properties()
    return Parsed(
        drafts=drafts,
        title=title,
        author=author,
        page_count=len(slides),
        warnings=[*deck.warnings(), *package.warnings],
    )


def _reference(element: Any) -> str:
    return next((value for key, value in element.attrib.items() if local(key) == "id" and "}" in key), "")


class _Deck:
    def __init__(self, package: Package) -> None:
        self._package = package
        self._hidden = {"slide": 0, "shape": 0}
        self._footers: set[str] = set()
        self._authors: dict[str, str] = {}
        for kind in ("commentAuthors", "authors"):
            for name in package.related(package.main, kind):
                root = package.optional(name)
                for one in root if root is not None else ():
                    self._authors[attribute(one, "id") or ""] = one_line(attribute(one, "name") or "")

    def warnings(self) -> list[str]:
        """Return what is left out."""
        return [
            f"The presentation has {counted(count, f'hidden {kind}')} not indexed."
            for kind, count in self._hidden.items()
            if count
        ]

    def slide(self, name: str, page: int) -> Iterator[BlockDraft]:
        root = self._package.xml(name)
        if root is None:
            return
        if root.get("show") in ("0", "false"):
            self._hidden["slide"] += 1
            return
        shown = list(self._shapes(child(root, "cSld", "spTree")))
        titles = [one for one in shown if _placeholder(one) in _TITLES and _lines(one)]
        title = " ".join(text for _, _, text in _lines(titles[0])) if titles else ""
        yield BlockDraft(kind="heading", text=title, level=1, page=page)
        for one in shown:
            if not titles or one is not titles[0]:
                yield from self._shape(one, name, page)
        yield from self._comments(name, page)
        for notes in self._package.related(name, "notesSlide"):
            yield from self._notes(notes, page)

    def _shape(self, element: Any, part: str, page: int) -> Iterator[BlockDraft]:
        kind = local(element.tag)
        role = _placeholder(element)
        if role == "sldNum":
            return
        if kind == "graphicFrame":
            grid = next(within(element, "tbl"), None)
            if grid is not None:
                rows = _rows(grid)
                yield from table(rows[1:], header=rows[0], page=page) if len(rows) > 1 else table(rows, page=page)
            yield from graphics(self._package, part, element, page)
            return
        lines = _lines(element)
        if role in ("ftr", "dt", "hdr"):
            text = " ".join(line for _, _, line in lines)
            if text in self._footers:
                return
            self._footers.add(text)
        if lines:
            yield _text(lines, page)
        elif kind == "pic":
            yield from _picture(element, page)

    def _notes(self, name: str, page: int) -> Iterator[BlockDraft]:
        root = self._package.optional(name)
        for one in self._shapes(child(root, "cSld", "spTree")) if root is not None else ():
            if _placeholder(one) in ("sldNum", "sldImg", "hdr", "ftr", "dt"):
                continue
            if local(one.tag) == "graphicFrame":
                yield from self._shape(one, name, page)
            text = "\n".join(line for _, _, line in _lines(one))
            if text:
                yield BlockDraft(kind="paragraph", text=f"Notes: {text}", page=page)

    def _shapes(self, tree: Any) -> Iterator[Any]:
        """Yield the shapes of a slide without hidden ones."""
        for one in shapes(tree):
            if is_hidden(one):
                self._hidden["shape"] += has_text(one)
            else:
                yield one

    def _comments(self, name: str, page: int) -> Iterator[BlockDraft]:
        for part in [*self._package.related(name, "comments"), *self._package.related(name, "comment")]:
            root = self._package.optional(part)
            for one in within(root, "cm", "reply") if root is not None else ():
                written = child(one, "text")
                body = child(one, "txBody")
                text = (
                    one_line(written.text or "")
                    if written is not None
                    else one_line(" ".join(paragraph(line) for line in within(body, "p")) if body is not None else "")
                )
                author = self._authors.get(attribute(one, "authorId") or "", "")
                if text:
                    said = f"Comment by {author}: {text}" if author else f"Comment: {text}"
                    yield BlockDraft(kind="paragraph", text=said, page=page)


def _placeholder(shape: Any) -> str:
    """Return the role of a shape in the slide's layout: `title`, `body`, `sldNum`."""
    for properties in shape:
        if local(properties.tag).startswith("nv"):
            role = child(properties, "nvPr", "ph")
            return (role.get("type") or "obj") if role is not None else ""
    return ""


def _lines(shape: Any) -> list[tuple[int, str, str]]:
    """Return a shape's lines with their level and number."""
    body = child(shape, "txBody")
    lines: list[tuple[int, str, str]] = []
    counts: dict[int, int] = {}
    for one in body if body is not None else ():
        if local(one.tag) != "p":
            continue
        properties = child(one, "pPr")
        level = number(properties.get("lvl"), 0, most=_MAX_LEVEL) if properties is not None else 0
        text = one_line(paragraph(one))
        if not text:
            continue
        counts = {depth: count for depth, count in counts.items() if depth <= level}
        numbering = child(properties, "buAutoNum") if properties is not None else None
        if numbering is None:
            counts.pop(level, None)
            lines.append((level, "-", text))
            continue
        counts[level] = counts[level] + 1 if level in counts else number(numbering.get("startAt"), 1)
        lines.append((level, _marker(counts[level], numbering.get("type") or ""), text))
    return lines


def _marker(count: int, scheme: str) -> str:
    """Return a number in one of the forms of slides (`alphaLcParenR`); those that are not known are decimals."""
    found = _SCHEME.fullmatch(scheme)
    if found is None:
        return f"{count}."
    return _AROUND[found[2]].format(numeral(count, _FORMS[found[1]]))


def _text(lines: list[tuple[int, str, str]], page: int) -> BlockDraft:
    if len(lines) == 1:
        return BlockDraft(kind="paragraph", text=lines[0][2], page=page)
    return BlockDraft(
        kind="list", text="\n".join(f"{'  ' * level}{marker} {line}" for level, marker, line in lines), page=page
    )


def _picture(element: Any, page: int) -> Iterator[BlockDraft]:
    properties = child(element, "nvPicPr", "cNvPr")
    if properties is not None and (text := described(properties.get("descr"))):
        yield BlockDraft(kind="paragraph", text=f"Picture: {text}", page=page)


def _rows(grid: Any) -> list[list[str]]:
    """Return the cells of a table: one that spans columns appears once in its row, one that spans rows in each of them."""
    rows: list[list[str]] = []
    above: list[str] = []
    for row in grid:
        if local(row.tag) != "tr":
            continue
        cells: list[str] = []
        texts: list[str] = []
        for column, cell in enumerate(one for one in row if local(one.tag) == "tc"):
            text = " ".join(one_line(paragraph(one)) for one in within(cell, "p"))
            if cell.get("vMerge") in ("1", "true") and not text.strip() and column < len(above):
                text = above[column]
            texts.append(text[:_REPEATED])
            if cell.get("hMerge") not in ("1", "true"):
                cells.append(text)
        rows.append(cells)
        above = texts
    return rows
