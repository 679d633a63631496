"""Parse a Word document into headings, paragraphs, lists and tables, as Word shows it with all changes accepted.

The XML is walked, since no library reads what people put into documents: content controls, changes, text boxes, notes, comments,
charts. Notes, comments, text boxes and charts follow the block that refers to them. Source: ECMA-376, part 1, section 17.
"""

from collections.abc import Iterator
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse import read
from assets.stages.parse.alt_text import described
from assets.stages.parse.docx_elements import (
    WRAPPERS,
    blocks_of,
    cells_of,
    continues,
    field,
    is_hidden,
    margin_references,
    outermost,
    rows_of,
    symbol,
    without_codes,
)
from assets.stages.parse.drawing import formula, graphics, has_text
from assets.stages.parse.margins import margins
from assets.stages.parse.marks import gap, raised
from assets.stages.parse.numbering import MAX_LEVEL, Numbering, numeral
from assets.stages.parse.package import Package, attribute, child, is_on, local, number
from assets.stages.parse.result import Parsed
from assets.stages.parse.styles import ParagraphStyle, Styles
from assets.stages.parse.symbols import codes_of, in_codes
from assets.stages.parse.tables import table
from resources.core.errors import DocumentError, SkipDocumentError
from resources.core.filetypes import MIME_TYPES, extension

_NESTING = 5
"""Maximum depth of nested tables and of text boxes within text boxes that are read."""
_HIDDEN = "The document has hidden text that is not indexed."
_REPEATED = 200
"""Characters of a cell that are repeated in each row that it spans."""
_GONE = frozenset(
    {"del", "moveFrom", "rt", "instrText", "delText", "delInstrText", "pPr", "sdtPr", "sdtEndPr", "rubyPr"}
)
_DRAWN = ("txbxContent", "textpath", "chart", "relIds", "docPr")
_TEXTS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_EMBEDDED = frozenset({".html", ".htm", ".xhtml", ".txt", ".rtf", ".xml", ".docx", ".mht", ".eml"})


def parse(data: bytes) -> Parsed:
    """Return the blocks of a DOCX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    package = Package(data, part="word/", kind="DOCX")
    document = _Document(package, 0)
    drafts = document.read()
    title, author = package.properties()
    return Parsed(
        drafts=drafts,
        title=title,
        author=author if author != "python-docx" else None,
        warnings=[*document.warnings, *package.warnings],
    )


class _Document:
    """A walk over one document: what it has seen decides numbers, and what follows a block."""

    def __init__(self, package: Package, depth: int) -> None:
        self.warnings: list[str] = []
        self._package = package
        self._part = package.main
        self._styles = Styles(self._related("styles"))
        self._numbering = Numbering(self._related("numbering"))
        self._notes = {kind: self._by_id(f"{kind}s") for kind in ("footnote", "endnote")}
        self._comments = self._by_id("comments")
        self._numbers: dict[str, int] = {"footnote": 0, "endnote": 0}
        self._items: list[str] = []
        self._after: list[BlockDraft] = []
        self._held = ""
        self._hides = self._struck = False
        self._depth = depth

    def read(self) -> list[BlockDraft]:
        root = without_codes(self._package.xml(self._package.main))
        body = child(root, "body") if root is not None else None
        if body is None:
            raise SkipDocumentError("The DOCX file is damaged: it has no body.")
        return [*self.blocks(body, self._package.main), *self.margins(body)]

    def _related(self, kind: str) -> Any:
        names = self._package.related(self._part, kind)
        return self._package.optional(names[0]) if names else None

    def _by_id(self, kind: str) -> dict[str, tuple[str, Any]]:
        names = self._package.related(self._part, kind)
        root = without_codes(self._package.optional(names[0])) if names else None
        return {attribute(one, "id") or "": (names[0], one) for one in root} if root is not None else {}

    # Blocks

    def blocks(self, container: Any, part: str) -> Iterator[BlockDraft]:
        """Yield the blocks of a body, a cell, a note or a text box. `part` is the part whose references it uses."""
        outer, self._part = self._part, part
        for element in blocks_of(container):
            match local(element.tag):
                case "p":
                    yield from self._paragraph(element)
                case "tbl":
                    yield from self._ended()
                    yield from self._table(element)
                    yield from self._following()
                case _:
                    yield from self._ended()
                    yield from self._embedded(element)
        yield from self._ended()
        self._part = outer

    def _ended(self) -> Iterator[BlockDraft]:
        """Yield the list that is open, and the paragraph whose end is deleted."""
        yield from self._list_end()
        if self._held:
            yield BlockDraft(kind="paragraph", text=self._held)
            self._held = ""

    def _list_end(self) -> Iterator[BlockDraft]:
        if self._items:
            yield BlockDraft(kind="list", text="\n".join(self._items))
            self._items = []
            yield from self._following()

    def _following(self) -> list[BlockDraft]:
        """Return what belongs after the block that was just written."""
        found, self._after = self._after, []
        return found

    def _paragraph(self, element: Any) -> Iterator[BlockDraft]:
        properties = child(element, "pPr")
        style = self._style(properties)
        text = self._line(element, style)
        if continues(properties):
            self._held = text.strip() if child(properties, "framePr") is not None else text
            return
        level = self._styles.heading(style, properties)
        depth, marker = self._marker(style, properties)
        if not text.strip():
            if not self._items:
                yield from self._following()
            return
        if level is None and depth is not None:
            self._items.append(f"{'  ' * min(depth, MAX_LEVEL)}{marker or '-'} {one_line(text)}")
            return
        yield from self._list_end()
        if level is not None:
            yield BlockDraft(kind="heading", text=f"{marker} {text}" if marker else text, level=level)
        else:
            yield BlockDraft(kind="paragraph", text=text)
        yield from self._following()

    def _line(self, element: Any, style: ParagraphStyle) -> str:
        """Return the text of a paragraph, after that of the one that it continues."""
        outer, self._hides = self._hides, self._styles.hides(style.identifier)
        self._struck = False
        text = self._held + self.inline(element)
        self._hides, self._held = outer, ""
        return text

    def _style(self, properties: Any) -> ParagraphStyle:
        named = child(properties, "pStyle") if properties is not None else None
        return self._styles.of(attribute(named, "val") if named is not None else None)

    def _marker(self, style: ParagraphStyle, properties: Any) -> tuple[int | None, str]:
        """Count a paragraph that belongs to a list; return its depth, or None, and its number."""
        list_id, depth = self._styles.numbering(style, properties)
        if list_id is not None:
            depth = self._numbering.level_of(list_id, (style.identifier, style.listed)) if depth is None else depth
            return depth, self._numbering.next(list_id, depth)
        if style.name.startswith("list ") and not style.name.startswith("list paragraph"):
            return 0, "1." if "number" in style.name else ""
        return None, ""

    def _table(self, element: Any) -> Iterator[BlockDraft]:
        cells = [[*cells_of(row)] for row in self._rows(element)]
        if (
            all(len(row) == 1 for row in cells)
            and any(len([*blocks_of(row[0])]) > 1 for row in cells)
            and self._depth < _NESTING
        ):
            # a frame around text, not a table
            self._depth += 1
            for row in cells:
                yield from self.blocks(row[0], self._part)
            self._depth -= 1
            return
        rows = self._texts(element)
        yield from table(rows[1:], header=rows[0]) if len(rows) > 1 else table(rows)

    def _rows(self, grid: Any) -> Iterator[Any]:
        for row in rows_of(grid):
            if is_on(child(row, "trPr", "hidden")):
                self._warn(_HIDDEN)
            else:
                yield row

    def _texts(self, grid: Any, depth: int = 0) -> list[list[str]]:
        """Return a table's cells: one that spans columns appears once in its row, one that spans rows in each of them.

        Spans are never unrolled: a file may claim a hundred million columns.
        """
        rows: list[list[str]] = []
        above: dict[int, str] = {}
        for row in self._rows(grid):
            properties = child(row, "trPr")
            before = child(properties, "gridBefore") if properties is not None else None
            column = number(attribute(before, "val"), 0) if before is not None else 0
            cells: list[str] = []
            spanning: dict[int, str] = {}
            for cell in cells_of(row):
                own = child(cell, "tcPr")
                merge = child(own, "vMerge") if own is not None else None
                span = child(own, "gridSpan") if own is not None else None
                continues = merge is not None and attribute(merge, "val") != "restart"
                cells.append(above.get(column, "") if continues else self._cell(cell, depth))
                spanning[column] = cells[-1][:_REPEATED]
                column += number(attribute(span, "val"), 1, least=1) if span is not None else 1
            rows.append(cells)
            above = spanning
        return rows

    def _cell(self, cell: Any, depth: int) -> str:
        texts: list[str] = []
        for element in blocks_of(cell):
            if local(element.tag) == "p":
                properties = child(element, "pPr")
                style = self._style(properties)
                text = self._line(element, style)
                self._held = text if continues(properties) else ""
                if not self._held:
                    _, marker = self._marker(style, properties)
                    texts.append(f"{marker} {text}" if marker and text.strip() else text)
            elif local(element.tag) == "tbl" and depth < _NESTING:
                texts += [text for row in self._texts(element, depth + 1) for text in row]
            elif local(element.tag) == "altChunk":
                texts += [draft.text for draft in self._embedded(element)]
        if self._held:
            texts.append(self._held)
            self._held = ""
        return " ".join(text for text in texts if text.strip())

    def _embedded(self, element: Any) -> Iterator[BlockDraft]:
        """Yield the blocks of a document of another format within this one (`w:altChunk`)."""
        relation = self._package.relations(self._part).get(attribute(element, "id") or "")
        data = self._package.read(relation.target) if relation is not None and not relation.external else None
        end = extension(relation.target) if relation is not None else ""
        if not data or end not in _EMBEDDED:
            return
        if end == ".mht":
            end = ".eml"
            data = b"Subject:\n" + data.lstrip()
        if self._depth >= _NESTING:
            return
        try:
            if end == ".docx":
                within = _Document(Package(data, part="word/", kind="DOCX"), self._depth + 1)
                yield from within.read()
            else:
                yield from read(data, MIME_TYPES.get(end, "text/html"), title="").drafts
        except DocumentError as error:
            self._warn(f"A part of the document ({end}) is not read: {error}")

    def margins(self, body: Any) -> Iterator[BlockDraft]:
        """Yield the texts of all headers and footers that pages have."""
        return margins(draft for root, name in self._margins(body) for draft in self.blocks(without_codes(root), name))

    def _margins(self, body: Any) -> Iterator[tuple[Any, str]]:
        for reference in margin_references(body, self._related("settings")):
            relation = self._package.relations(self._package.main).get(reference)
            root = self._package.optional(relation.target) if relation is not None and not relation.external else None
            if relation is not None and root is not None:
                yield root, relation.target

    # Text within a paragraph

    def inline(self, container: Any, before: str = "") -> str:
        """Return the text of a paragraph or of a part of one; what it refers to is kept for after the block."""
        text = ""
        for element in container:
            name = local(element.tag)
            if name == "t":
                text += element.text or ""
            elif name in _TEXTS:
                text += _TEXTS[name]
            elif name in _GONE:
                continue
            elif name == "r":
                text += self._apart_from_struck(element, before + text)
            elif name == "sdt" and (box := child(element, "sdtPr", "checkbox")) is not None:
                state = child(box, "checked")
                text += "☒" if state is not None and is_on(state) else "☐"
            elif name in WRAPPERS:
                text += self.inline(element, before + text)
            elif name == "AlternateContent":
                text += self._alternative(element, before + text)
            elif name in ("drawing", "pict", "object"):
                text += self._drawing(element)
            else:
                text += self._other(name, element)
        return text

    def _apart_from_struck(self, element: Any, before: str) -> str:
        properties = child(element, "rPr")
        struck = properties is not None and any(is_on(child(properties, name)) for name in ("strike", "dstrike"))
        text = self._run(element, before)
        if text:
            text = gap(before, text) + text if self._struck and not struck else text
            self._struck = struck
        return text

    def _run(self, element: Any, before: str) -> str:
        properties = child(element, "rPr")
        if self._is_hidden(properties):
            kept = len(self._after)
            if self.inline(element).strip() or len(self._after) > kept:
                self._warn(_HIDDEN)
            del self._after[kept:]
            return ""
        if properties is not None:
            if child(properties, "del") is not None:
                return ""
            fonts = child(properties, "rFonts")
            if fonts is not None and (codes := codes_of(attribute(fonts, "ascii") or "")):
                return in_codes(self.inline(element, before), codes)
            align = child(properties, "vertAlign")
            if align is not None and attribute(align, "val") == "superscript":
                return raised(before, self.inline(element, before))
        return self.inline(element, before)

    def _is_hidden(self, properties: Any) -> bool:
        """Return True if a run is hidden. Styles of a paragraph and of characters cancel each other. Source: ECMA-376, part 1, 17.7.3"""
        own = child(properties, "vanish") if properties is not None else None
        if own is not None:
            return is_on(own)
        named = child(properties, "rStyle") if properties is not None else None
        return self._hides != (named is not None and self._styles.hides(attribute(named, "val") or ""))

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _alternative(self, element: Any, before: str) -> str:
        kept = len(self._after)
        for choice in element:
            text = self.inline(choice, before)
            if text.strip() or len(self._after) > kept or any(map(is_hidden, outermost(choice, *_DRAWN))):
                return text
        return ""

    def _other(self, name: str, element: Any) -> str:
        match name:
            case "sym":
                return symbol(element)
            case "oMath" | "oMathPara" if self._hides:
                self._warn(_HIDDEN)
            case "oMath" | "oMathPara":
                return formula(element)
            case "footnoteReference" | "endnoteReference":
                return self._note(name.removesuffix("Reference"), element)
            case "commentReference":
                self._comment(element)
            case "fldChar":
                return field(element)
            case _:
                pass
        return ""

    def _note(self, kind: str, element: Any) -> str:
        found = self._notes[kind].get(attribute(element, "id") or "")
        mark = ""
        if attribute(element, "customMarkFollows") not in (
            "1",
            "true",
            "on",
        ):  # such a mark is text, here and in the note
            self._numbers[kind] += 1
            mark = f"[{numeral(self._numbers[kind], 'decimal' if kind == 'footnote' else 'lowerRoman')}]"
        text = self._apart(found[1], found[0]) if found is not None else []
        if text:
            self._after.append(BlockDraft(kind="paragraph", text=f"{mark} {text[0].text}".lstrip()))
            self._after += text[1:]
        return mark and f" {mark}"

    def _comment(self, element: Any) -> None:
        found = self._comments.get(attribute(element, "id") or "")
        if found is None:
            return
        author = one_line(attribute(found[1], "author") or "")
        text = " ".join(one_line(draft.text) for draft in self._apart(found[1], found[0]))
        if text:
            self._after.append(
                BlockDraft(kind="paragraph", text=f"Comment by {author}: {text}" if author else f"Comment: {text}")
            )

    def _apart(self, container: Any, part: str) -> list[BlockDraft]:
        """Return the blocks of something that is not in the flow of the text: a note, a comment, a text box."""
        if self._depth >= _NESTING:
            return []
        items, after, held = self._items, self._after, self._held
        self._items, self._after, self._held = [], [], ""
        self._depth += 1
        found = list(self.blocks(container, part))
        self._depth -= 1
        self._items, self._after, self._held = items, after, held
        return [draft if draft.kind != "heading" else BlockDraft(kind="paragraph", text=draft.text) for draft in found]

    def _drawing(self, element: Any) -> str:
        """Keep the text boxes, charts and diagrams of a drawing, and its description, for after the block."""
        for one in outermost((element,), *_DRAWN):
            if is_hidden(one):
                if has_text(one):
                    self._warn(_HIDDEN)
                continue
            match local(one.tag):
                case "txbxContent":
                    self._after += self._apart(one, self._part)
                case "textpath":
                    if text := one.get("string"):
                        self._after.append(BlockDraft(kind="paragraph", text=text))
                case "docPr":
                    if text := described(one.get("descr")):
                        self._after.append(BlockDraft(kind="paragraph", text=f"Picture: {text}"))
                case _:
                    self._after += graphics(self._package, self._part, one)
        return ""
