"""Parse OpenDocument texts, spreadsheets and presentations (LibreOffice) as they are shown.

Notes, comments, text boxes and charts follow the block that refers to them; what is hidden is left out, and the document says so.
Source: OpenDocument 1.3, part 3, https://docs.oasis-open.org/office/OpenDocument/v1.3/
"""

import io
import zipfile
import zlib
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from assets.stages.normalize import MAX_CHARACTERS, BlockDraft, one_line
from assets.stages.parse.archive import check
from assets.stages.parse.margins import margins
from assets.stages.parse.markup import tree
from assets.stages.parse.odf_text import IGNORED, MAX_CELL, MAX_COLUMNS, TextReader, rows_of
from assets.stages.parse.package import attribute, child, local, number, within
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import YEARS, SheetRow, Spans, counted, sheet
from resources.core.errors import SkipDocumentError

_MARGINS = frozenset({"header", "header-first", "header-left", "footer", "footer-first", "footer-left"})
_FIGURES = frozenset({"float", "percentage", "currency", "date", "time"})


def parse(data: bytes) -> Parsed:
    """Return the blocks of an ODT, ODS or ODP file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    check(data, part="content.xml", kind="OpenDocument")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            if "META-INF/manifest.xml" in names and b"encryption-data" in archive.read("META-INF/manifest.xml"):
                raise SkipDocumentError("The OpenDocument file is encrypted. Save it without a password.")
            document = _OpenDocument(archive, tree(archive.read("content.xml")))
            if (styles := document.optional("styles.xml")) is not None:
                document.learn(styles)
            drafts = document.read(styles)
            meta = document.optional("meta.xml")
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError, KeyError, ValueError) as error:
        raise SkipDocumentError(f"The OpenDocument file is damaged: {one_line(str(error))[:160]}.") from None
    found = {local(one.tag): one_line(one.text or "") for one in meta.iter() if one.text} if meta is not None else {}
    return Parsed(
        drafts=drafts,
        title=found.get("title") or None,
        author=found.get("creator") or found.get("initial-creator") or None,
        page_count=document.pages or None,
        warnings=document.warnings,
    )


class _OpenDocument(TextReader):
    def __init__(self, archive: zipfile.ZipFile, root: Any) -> None:
        super().__init__(archive, root)
        self._formulas = 0
        self._declared = {attribute(one, "name"): one_line(one.text or "") for one in within(root, "footer-decl")}
        self._masters: dict[str | None, Any] = {}
        self._footers = {""}

    def read(self, styles: Any) -> list[BlockDraft]:
        masters = list(within(styles, "master-page")) if styles is not None else []
        self._masters = {attribute(one, "name"): one for one in masters}
        body = child(self._root, "body")
        found: list[BlockDraft] = []
        for content in body if body is not None else ():
            match local(content.tag):
                case "spreadsheet":
                    for one in content:
                        if local(one.tag) == "table":
                            found += self._sheet(one)
                case "presentation" | "drawing":
                    for self.pages, one in enumerate((one for one in content if local(one.tag) == "page"), start=1):
                        found += self._slide(one, self.pages)
                case _:
                    found += self._blocks(content)
                    parts = (part for one in masters for part in one if attribute(part, "display") != "false")
                    found += margins(
                        draft for part in parts if local(part.tag) in _MARGINS for draft in self._blocks(part)
                    )
        self.warnings += [
            f"The file has {counted(count, f'hidden {kind}')} not indexed." for kind, count in self._left_out.items()
        ]
        if self._formulas:
            self.warnings.append(
                f"The file has {counted(self._formulas, 'formula')} stored without a result: the formula is shown."
            )
        return found

    # Presentations

    def _slide(self, element: Any, page: int) -> Iterator[BlockDraft]:
        if self._has(self._hiding, element):
            self._hide("slide")
            return
        self._page = page
        yield BlockDraft(kind="heading", text="", level=1)  # ends the section of the slide before
        notes: list[Any] = []
        titled = False
        for one in element:
            kind, role = local(one.tag), attribute(one, "class") or ""
            if kind == "notes":
                notes.append(one)
            elif kind not in IGNORED and role not in ("page-number", "date-time"):
                for draft in self._shown(one):
                    if role == "title" and not titled and draft.kind in ("paragraph", "list"):
                        titled = True
                        text = draft.text.removeprefix("- ")
                        yield BlockDraft(kind="heading", text=text, level=1, page=page)
                    else:
                        yield draft
        if (footer := self._footer(element)) not in self._footers:
            self._footers.add(footer)
            yield BlockDraft(kind="paragraph", text=footer, page=page)
        for one in notes:
            text = "\n".join(draft.text for draft in self._shown(one) if not draft.text.strip().isdigit())
            if text:
                yield BlockDraft(kind="paragraph", text=f"Notes: {text}", page=page)
        self._page = None

    def _footer(self, slide: Any) -> str:
        """Return the text of a slide's footer: the one that it names, or its master's. Source: presentation:use-footer-name"""
        if not self._has(self._footed, slide):
            return ""
        if name := attribute(slide, "use-footer-name"):
            return self._declared.get(name, "")
        master = self._masters.get(attribute(slide, "master-page-name"))
        frames = [one for one in master if attribute(one, "class") == "footer"] if master is not None else []
        own = [one for one in frames if next(within(one, "footer"), None) is None]
        return " ".join(draft.text for one in own for draft in self._shown(one))

    def _shown(self, element: Any) -> list[BlockDraft]:
        if local(element.tag) == "annotation":
            self._comment(element, "")
        else:
            self._drawing(element)
        return self._following()

    # Spreadsheets

    def _sheet(self, element: Any) -> Iterator[BlockDraft]:
        name = attribute(element, "name") or ""
        if self._has(self._hiding, element):
            self._hide("sheet")
            return
        shown = False
        for draft in sheet(name, self._sheet_rows(element)):
            shown = True
            yield draft
        for one in element:
            if local(one.tag) == "shapes":
                self._drawing(one)
        for draft in self._following():
            if not shown:
                shown = True
                yield BlockDraft(kind="heading", text=name, level=1, sheet=name)
            yield BlockDraft(kind=draft.kind, text=draft.text, sheet=name)

    def _sheet_rows(self, element: Any) -> Iterator[SheetRow]:
        hidden, spans = _hidden_columns(element), Spans()
        seen: set[int] = set()
        waiting = place = size = 0
        for row in rows_of(element):
            times = number(attribute(row, "number-rows-repeated"), 1, least=1, most=2**20)
            if attribute(row, "visibility") in ("collapse", "filter"):
                if any(one.text or len(one) for one in row):
                    self._left_out["row"] = self._left_out.get("row", 0) + times
                place += times
                continue
            found = self._sheet_row(row, hidden, seen, spans, place + 1)
            place += times
            if not found.cells:
                waiting += times
                continue
            size += sum(len(cell) + 1 for cell in found.cells) * times
            if size > MAX_CHARACTERS:
                raise SkipDocumentError(f"A sheet of the file has more than {MAX_CHARACTERS:,} characters. Split it.")
            yield from repeat(SheetRow([]), waiting)
            waiting = 0
            yield from repeat(found, times)
        if seen:
            self._left_out["column"] = self._left_out.get("column", 0) + len(seen)

    def _sheet_row(self, row: Any, hidden: set[int], seen: set[int], spans: Spans, place: int) -> SheetRow:
        found, merged = SheetRow([]), list[tuple[int, int, int]]()
        column = 0
        for cell in row:
            if local(cell.tag) not in ("table-cell", "covered-table-cell"):
                continue
            times = number(attribute(cell, "number-columns-repeated"), 1, least=1, most=MAX_COLUMNS)
            text = self._figure(cell, found) if local(cell.tag) == "table-cell" else ""
            for one in cell:
                if local(one.tag) == "annotation" and column not in hidden:
                    self._comment(one, f"{_letters(column)}{place}")
            if text and len(text) * times > MAX_CELL:
                times = 1
            if text:
                found.cells += [""] * (column - len(found.cells))
                found.cells += [text] * times
                across = number(attribute(cell, "number-columns-spanned"), 1, least=1, most=MAX_COLUMNS)
                down = number(attribute(cell, "number-rows-spanned"), 1, least=1, most=2**20)
                if column not in hidden and across + down > 2:
                    merged.append((column, column + across - 1, place + down - 1))
            column += times
        spans.fill(found, place, merged)
        if hidden:
            found.spans = []
            seen.update(at for at, text in enumerate(found.cells) if text and at in hidden)
            found.cells = [text for at, text in enumerate(found.cells) if at not in hidden]
        return found

    def _figure(self, cell: Any, row: SheetRow) -> str:
        """Return a cell as it is shown; dates as in other spreadsheets."""
        kind = attribute(cell, "value-type")
        text = " ".join(line for one in cell if local(one.tag) == "p" and (line := one_line(self.inline(one))))
        if kind == "date" and (moment := attribute(cell, "date-value")):
            text = moment[:19].replace("T00:00:00", "").replace("T", " ")
        formula = attribute(cell, "formula")
        if formula and not text and kind != "string":
            self._formulas += 1
            text = f"={formula.partition('=')[2]}"
        if kind in _FIGURES:
            year = kind == "float" and text.isdecimal() and int(text[:9]) in YEARS
            row.years, row.figures = row.years or year, row.figures or not year
        return text


def _hidden_columns(grid: Any) -> set[int]:
    found: set[int] = set()
    column = 0
    for one in within(grid, "table-column"):
        times = number(attribute(one, "number-columns-repeated"), 1, least=1, most=MAX_COLUMNS)
        if attribute(one, "visibility") in ("collapse", "filter") and column < MAX_COLUMNS:
            found.update(range(column, column + times))
        column += times
    return found


def _letters(column: int) -> str:
    text = ""
    column += 1
    while column:
        column, rest = divmod(column - 1, 26)
        text = chr(65 + rest) + text
    return text
