"""Read the text of OpenDocument files: paragraphs, lists, tables, and what follows them.

Source: OpenDocument 1.3, part 3, https://docs.oasis-open.org/office/OpenDocument/v1.3/
"""

import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.alt_text import described
from assets.stages.parse.marks import raised
from assets.stages.parse.markup import tree
from assets.stages.parse.odf_lists import ListNumbers
from assets.stages.parse.package import attribute, child, local, number, within, without
from assets.stages.parse.tables import table
from resources.core.errors import SkipDocumentError

MAX_CELL = 1_000_000
"""Characters of a cell that is repeated: a file may claim any number of repetitions."""
MAX_COLUMNS = 16_384
_MAX_LEVEL = 8
_NESTING = 5
"""Maximum depth of text boxes within text boxes, and of tables within tables, that are read."""
_CHAIN = 20
"""Styles that are based on each other; longer chains exist in damaged files only."""
_REPEATED = 200
"""Characters of a cell that are repeated in each row that it spans."""
IGNORED = frozenset(
    {
        "tracked-changes",
        "sequence-decls",
        "forms",
        "event-listeners",
        "hidden-text",
        "hidden-paragraph",
        "ruby-text",
        "title",
        "desc",
    }
)
_BLOCKS = frozenset({"section", "text-box", "index-body", "index-title", "table-of-content", "page", "list-item"})
"""Elements that hold blocks."""
_FIELDS = frozenset({"text", "textarea", "combobox", "formatted-text", "number", "date", "time"})
"""Controls of forms that people fill in; passwords and hidden ones are not read."""


class TextReader:
    """A walk over one file. `pages`: slides seen so far."""

    def __init__(self, archive: zipfile.ZipFile, root: Any) -> None:
        self.warnings: list[str] = []
        self.pages = 0
        self._archive = archive
        self._root = root
        self._parents: dict[str, str | None] = {}
        self._raising: dict[str, bool] = {}
        self._hiding: dict[str, bool] = {}
        self._footed: dict[str, bool] = {}
        self._numbers = ListNumbers()
        self._after: list[BlockDraft] = []
        self._notes = 0
        self._depth = 0
        self._page: int | None = None
        self._left_out: dict[str, int] = {}
        self._controls = {attribute(one, "id"): _control(one) for form in within(root, "form") for one in form}
        self.learn(root)

    def optional(self, name: str) -> Any:
        """Return the root element of a part that the file can do without, or None; a warning names a damaged one."""
        try:
            return tree(self._archive.read(name)) if name in self._archive.namelist() else None
        except (SkipDocumentError, zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError, ValueError):
            if (warning := without(name)) not in self.warnings:
                self.warnings.append(warning)
            return None

    def learn(self, root: Any) -> None:
        """Remember which styles raise text, hide it, number the items of lists, or show the footers of slides."""
        for one in within(root, "style", "list-style"):
            name = attribute(one, "name") or ""
            if local(one.tag) == "list-style":
                self._numbers.learn(name, one)
                continue
            self._parents.setdefault(name, attribute(one, "parent-style-name"))
            for properties in one:
                if position := attribute(properties, "text-position"):
                    self._raising.setdefault(name, position.startswith("super") or position[:1].isdigit())
                if display := attribute(properties, "display"):
                    self._hiding.setdefault(name, display in ("none", "false"))
                if local(properties.tag) == "drawing-page-properties":
                    self._hiding.setdefault(name, attribute(properties, "visibility") == "hidden")
                    self._footed.setdefault(name, attribute(properties, "display-footer") == "true")

    def _has(self, looks: dict[str, bool], element: Any) -> bool:
        """Return what the style of an element says of a look, or the nearest that it is based on and says something."""
        name = attribute(element, "style-name")
        for _ in range(_CHAIN):
            if name is None or name in looks:
                break
            name = self._parents.get(name)
        return name is not None and looks.get(name, False)

    def _is_hidden(self, element: Any) -> bool:
        fields = (one for one in element if local(one.tag) == "hidden-paragraph")
        return self._has(self._hiding, element) or any(attribute(one, "is-hidden") == "true" for one in fields)

    # Blocks

    def _blocks(self, container: Any) -> Iterator[BlockDraft]:
        for element in container:
            kind = local(element.tag)
            if kind in ("p", "h"):
                yield from self._paragraph(element, kind)
            elif kind == "list":
                yield from self._items(element)
            elif kind == "table":
                rows = self._rows(element, 0)
                yield from (
                    table(rows[1:], header=rows[0], page=self._page) if len(rows) > 1 else table(rows, page=self._page)
                )
                yield from self._following()
            elif kind in _BLOCKS:
                if attribute(element, "display") == "none" or attribute(element, "is-hidden") == "true":
                    self._hide("section")
                else:
                    yield from self._blocks(element)
            elif kind not in IGNORED:
                self._drawing(element)
                yield from self._following()

    def _following(self) -> list[BlockDraft]:
        found, self._after = self._after, []
        return found

    def _hide(self, kind: str) -> None:
        self._left_out[kind] = self._left_out.get(kind, 0) + 1

    def _paragraph(self, element: Any, kind: str) -> Iterator[BlockDraft]:
        text = self._line(element)
        if text.strip() and kind == "h":
            yield self._heading(text, attribute(element, "outline-level"))
        elif text.strip():
            yield BlockDraft(kind="paragraph", text=text, page=self._page)
        yield from self._following()

    def _items(self, element: Any) -> Iterator[BlockDraft]:
        """Yield the blocks of a list: a heading among its items parts it."""
        lines: list[str] = []
        for one in chain(self._list(element), (None,)):
            if isinstance(one, str):
                lines.append(one)
                continue
            if lines:
                yield BlockDraft(kind="list", text="\n".join(lines), page=self._page)
                lines = []
            if one is not None:
                yield one
            yield from self._following()

    def _list(self, element: Any, depth: int = 0, inherited: str = "") -> Iterator[str | BlockDraft]:
        """Yield the lines of a list, and the headings that are its items."""
        style = attribute(element, "style-name") or inherited
        if style != inherited:
            self._numbers.begin(element, style)
        for item in element:
            if local(item.tag) not in ("list-item", "list-header"):
                continue
            marker: str | None = None
            for one in item:
                kind = local(one.tag)
                if kind in ("p", "h"):
                    text = one_line(self._line(one))
                    if not text:
                        continue
                    marker = self._numbers.marker(item, depth, style) if marker is None else ""
                    if kind == "h" and (level := attribute(one, "outline-level")):
                        yield self._heading(text if marker in ("", "-") else f"{marker} {text}", level)
                    else:
                        yield f"{'  ' * min(depth, _MAX_LEVEL)}{marker or ' '} {text}"
                elif kind == "list":
                    yield from self._list(one, depth + 1, style)

    def _heading(self, text: str, level: str | None) -> BlockDraft:
        return BlockDraft(kind="heading", text=text, level=number(level, 1, least=1, most=10), page=self._page)

    def _rows(self, grid: Any, depth: int) -> list[list[str]]:
        """Return a table's cells: one that spans columns appears once in its row, one that spans rows in each of them."""
        rows: list[list[str]] = []
        spanning: dict[int, tuple[int, str]] = {}
        for row in rows_of(grid):
            cells: list[str] = []
            column = 0
            for cell in row:
                kind = local(cell.tag)
                if kind not in ("table-cell", "covered-table-cell"):
                    continue
                times = number(attribute(cell, "number-columns-repeated"), 1, least=1, most=MAX_COLUMNS)
                left, above = spanning.get(column, (0, ""))
                if kind == "covered-table-cell":
                    if left:
                        cells.append(above)
                        spanning[column] = (left - 1, above)
                else:
                    text = self._cell(cell, depth)
                    cells += [text] * (times if len(text) * times < MAX_CELL else 1) if text else [""] * min(times, 100)
                    down = number(attribute(cell, "number-rows-spanned"), 1, most=2**20)
                    spanning[column] = (down - 1, text[:_REPEATED])
                column += times
            rows.append(cells)
        return rows

    def _cell(self, cell: Any, depth: int) -> str:
        texts: list[str] = []
        for one in cell:
            kind = local(one.tag)
            if kind in ("p", "h"):
                texts.append(self._line(one))
            elif kind == "list":
                texts += [(line if isinstance(line, str) else line.text).strip() for line in self._list(one)]
            elif kind == "table" and depth < _NESTING:
                texts += [text for row in self._rows(one, depth + 1) for text in row]
            elif kind == "annotation":
                self._comment(one, "")
            elif kind not in IGNORED:
                self._drawing(one)
        return " ".join(text for text in texts if text.strip())

    # Text within a paragraph

    def _line(self, element: Any, kind: str = "paragraph") -> str:
        """Return the text of a paragraph or of a part of one; nothing, and nothing that it refers to, if it is hidden."""
        kept = len(self._after)
        text = self.inline(element)
        if not self._is_hidden(element):
            return text
        if text.strip() or len(self._after) > kept:
            self._hide(kind)
        del self._after[kept:]
        return ""

    def inline(self, element: Any) -> str:
        """Return the text of a paragraph; what it refers to is kept for after the block."""
        text = element.text or ""
        for one in element:
            text += self._part(one, local(one.tag), text) + (one.tail or "")
        return text

    def _part(self, element: Any, kind: str, before: str) -> str:
        match kind:
            case "s":
                return " " * number(attribute(element, "c"), 1, most=1000)
            case "tab":
                return "\t"
            case "line-break":
                return "\n"
            case "note":
                return self._note(element)
            case "annotation":
                self._comment(element, "")
            case "span":
                text = self._line(element, "text")
                return raised(before, text) if self._has(self._raising, element) else text
            case _ if kind in IGNORED:
                return ""
            case "control":
                text = self._controls.get(attribute(element, "control") or "", "")
                return f" {text}" if text and before[-1:].strip() else text
            case (
                "frame"
                | "rect"
                | "custom-shape"
                | "line"
                | "ellipse"
                | "g"
                | "polygon"
                | "path"
                | "connector"
                | "caption"
            ):
                self._drawing(element)
            case _:
                return self.inline(element)
        return ""

    def _note(self, element: Any) -> str:
        self._notes += 1
        cited = child(element, "note-citation")
        mark = one_line("".join(cited.itertext())) if cited is not None else str(self._notes)
        body = child(element, "note-body")
        found = self._apart(body) if body is not None else []
        if found:
            self._after.append(BlockDraft(kind="paragraph", text=f"[{mark}] {found[0].text}", page=self._page))
            self._after += found[1:]
        return f" [{mark}]"

    def _comment(self, element: Any, place: str) -> None:
        author = child(element, "creator")
        name = one_line(author.text or "") if author is not None else ""
        body = [one for one in element if local(one.tag) in ("p", "list")]
        text = one_line(" ".join(draft.text for one in body for draft in self._apart([one])))
        if text:
            said = f"Comment on {place}" if place else "Comment"
            self._after.append(
                BlockDraft(
                    kind="paragraph", text=f"{said} by {name}: {text}" if name else f"{said}: {text}", page=self._page
                )
            )

    def _apart(self, container: Any) -> list[BlockDraft]:
        """Return the blocks of something that is not in the flow of the text: a note, a comment, a text box."""
        if self._depth >= _NESTING:
            return []
        after, self._after = self._after, []
        self._depth += 1
        found = list(self._blocks(container))
        self._depth -= 1
        self._after = after
        return found

    def _drawing(self, element: Any) -> None:
        """Keep the texts of a shape, the figures of a chart and the description of a picture for after the block."""
        if self._depth >= _NESTING:
            return
        if attribute(element, "display") == "none":
            self._hide("shape")
            return
        kind = local(element.tag)
        if kind == "object":
            self._after += self._embedded(attribute(element, "href") or "")
        elif kind in ("p", "h", "list", "table"):
            self._after += self._apart([element])
        elif kind == "control":
            if text := self._part(element, kind, ""):
                self._after.append(BlockDraft(kind="paragraph", text=text, page=self._page))
        elif kind in ("title", "desc"):
            if text := described("".join(element.itertext())):
                self._after.append(BlockDraft(kind="paragraph", text=f"Picture: {text}", page=self._page))
        else:
            for one in element:
                self._drawing(one)

    def _embedded(self, href: str) -> list[BlockDraft]:
        """Return the title and the data of a chart, or the text of another document within this one."""
        name = posixpath.normpath(posixpath.join(href.removeprefix("./"), "content.xml"))
        root = self.optional(name) if self._depth < _NESTING and name != "content.xml" else None
        drawn = child(root, "body", "chart", "chart") if root is not None else None
        if drawn is None:
            return []
        titles = [one_line("".join(one.itertext())) for one in within(drawn, "title") if child(one, "p") is not None]
        found = (
            [BlockDraft(kind="paragraph", text=f"Chart: {titles[0]}", page=self._page)] if titles and titles[0] else []
        )
        grid = child(drawn, "table")
        if grid is not None:
            rows = self._rows(grid, 0)
            found += table(rows[1:], header=rows[0], page=self._page) if len(rows) > 1 else []
        return found


def _control(element: Any) -> str:
    """Return what a control of a form shows: a label, a box and its label, what is filled in or chosen."""
    kind = local(element.tag)
    label = one_line(attribute(element, "label") or "")
    if kind == "fixed-text":
        return label
    if kind in ("radio", "checkbox"):
        ticked = attribute(element, "current-selected") == "true" or attribute(element, "current-state") == "checked"
        return f"{'☒' if ticked else '☐'} {label}"
    if kind == "listbox":
        chosen = [one for one in within(element, "option") if attribute(one, "current-selected") == "true"]
        return ", ".join(one_line(attribute(one, "label") or "") for one in chosen)
    if kind in _FIELDS:
        return one_line(attribute(element, "current-value") or attribute(element, "value") or "")
    return ""


def rows_of(grid: Any) -> Iterator[Any]:
    for one in grid:
        kind = local(one.tag)
        if kind == "table-row":
            yield one
        elif kind in ("table-rows", "table-header-rows", "table-row-group"):
            yield from rows_of(one)
