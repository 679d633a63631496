"""Parse an Excel workbook as it is shown: every sheet becomes a heading and its rows, then comments, texts and charts.

Hidden sheets, rows and columns are not read; the document says that it has some. The XML of a sheet is read row by row, since neither
its numbers' formats nor what is hidden come with the values that libraries return. Source: ECMA-376, part 1, section 18.
"""

import re
import zipfile
import zlib
from collections.abc import Iterator
from itertools import repeat
from typing import Any

from assets.stages.normalize import MAX_CHARACTERS, MAX_NAME, BlockDraft, one_line
from assets.stages.parse.drawing import graphics, has_text, is_hidden, paragraph, shapes
from assets.stages.parse.number_format import BUILT_IN, formatter, hides_text, is_date
from assets.stages.parse.package import Package, attribute, child, local, number, within
from assets.stages.parse.result import Parsed
from assets.stages.parse.sheets import SheetRow, Spans, counted, sheet
from assets.stages.parse.xlsx_cells import Cells, Format, HiddenPlaces, column_of, is_on_attribute, is_zero, rich
from resources.core.errors import SkipDocumentError

MAX_SHEETS = 1_000
MAX_CELLS = 50_000_000
"""Maximum cells between the first and the last of a sheet, including empty ones."""
MAX_ROWS = 2**20
"""Maximum rows of a sheet. Source: Excel's specifications and limits."""
_MERGED = re.compile(
    rb"<(?:\w{1,20}:)?mergeCell\s[^<>]{0,100}?\bref=[\"']([A-Z]{1,3})(\d{1,7}):([A-Z]{1,3})(\d{1,7})[\"']"
)
_SHEET = re.compile(r"'((?:[^']|''){1,100})'!|(?<![^\s'!,()])([^\s'!,()]{1,100})!")
"""The sheet in a reference to cells, with the number of its file if that is another one: `'Ana''s data'!$A$1`, `[1]Sheet1!$A$1`."""
_LONGEST_FORMULA = 8_192
"""Characters. Source: Excel's specifications and limits."""
_OTHER_FILE = re.compile(r"\[[1-9]")
_LONGEST_MERGED = 200
_MAX_MERGED = 100_000
"""Merged cells of a sheet that are followed."""
_PIECE = 2**20
_THREADED = "tc={"
"""How the author begins of what Excel writes for older versions in place of a comment that has replies, in the language of its user."""


def parse(data: bytes) -> Parsed:
    """Return the sheets of an XLSX file. Raises `SkipDocumentError` for zip bombs, protected and damaged files."""
    package = Package(data, part="xl/", kind="XLSX")
    root = package.xml(package.main)
    if root is None:
        raise SkipDocumentError("The XLSX file is damaged: it has no workbook.")
    book = _Workbook(package, root)
    try:
        drafts = list(book.drafts())
    except (zipfile.BadZipFile, NotImplementedError, EOFError, zlib.error, OSError, SyntaxError) as error:
        raise SkipDocumentError(f"The XLSX file is damaged: {one_line(str(error))[:160]}.") from None
    title, author = package.properties()
    return Parsed(
        drafts=drafts,
        title=title,
        author=author if author != "openpyxl" else None,
        warnings=[*book.warnings(), *package.warnings],
    )


class _Workbook:
    def __init__(self, package: Package, root: Any) -> None:
        self._package = package
        self._root = root
        self._from_1904 = is_on_attribute(child(root, "workbookPr"), "date1904")
        self._strings = self._shared_strings()
        self._formats = self._cell_formats()
        self._people = self._persons()
        self._unread: set[str | None] = set()
        """Names of hidden sheets."""
        self._hidden: dict[str, int] = {}
        self._formulas = 0

    def warnings(self) -> list[str]:
        """Return what is left out or shown differently."""
        found: list[str] = []
        if self._unread:
            found.append(f"The workbook has {counted(len(self._unread), 'hidden sheet')} not indexed.")
        found += [
            f"The workbook has {counted(count, f'hidden {kind}')} not indexed." for kind, count in self._hidden.items()
        ]
        if self._formulas:
            found.append(
                f"The workbook has {counted(self._formulas, 'formula')} stored without a result: the formula is shown."
            )
        return found

    def drafts(self) -> Iterator[BlockDraft]:
        relations = self._package.relations(self._package.main)
        sheets = [one for group in self._root if local(group.tag) == "sheets" for one in group]
        if len(sheets) > MAX_SHEETS:
            raise SkipDocumentError(f"The XLSX file has more than {MAX_SHEETS:,} sheets. Split it.")
        hidden = [one for one in sheets if attribute(one, "state") in ("hidden", "veryHidden")]
        self._unread = {attribute(one, "name") for one in hidden}
        for one in sheets:
            relation = relations.get(next((v for k, v in one.attrib.items() if local(k) == "id" and "}" in k), ""))
            if one not in hidden and relation is not None and not relation.external:
                yield from self._sheet(attribute(one, "name") or "", relation.target, relation.kind)

    def _sheet(self, name: str, part: str, kind: str) -> Iterator[BlockDraft]:
        name = name[:MAX_NAME]
        shown = False
        hidden = HiddenPlaces()
        if kind == "worksheet":
            for draft in sheet(name, self._rows(part, hidden)):
                shown = True
                yield draft
        for draft in [*self._comments(part, name, hidden), *self._drawings(part, name)]:
            if not shown:
                shown = True
                yield BlockDraft(kind="heading", text=name, level=1, sheet=name)
            yield draft

    # Cells

    def _rows(self, part: str, hidden: HiddenPlaces) -> Iterator[SheetRow]:
        from lxml import etree

        cells, spans, merged = Cells(self._strings, self._formats), Spans(), self._merged(part)
        expected = size = 0
        with self._package.open(part) as file:
            events = etree.iterparse(
                file, events=("end",), tag=("{*}row", "{*}cols", "{*}sheetFormatPr"), resolve_entities=False, no_network=True,
                load_dtd=False, remove_comments=True, remove_pis=True, remove_blank_text=False,
            )  # fmt: skip
            for _, element in events:
                kind = local(element.tag)
                if kind == "cols":
                    hidden.columns_of(element)
                elif kind == "row":
                    place = number(element.get("r"), expected + 1, least=expected + 1)
                    if place > MAX_ROWS:
                        break
                    if is_on_attribute(element, "hidden") or is_zero(element.get("ht")):
                        hidden.rows.add(place)
                        expected = place
                    else:
                        row = cells.row(element, hidden)
                        spans.fill(row, place, merged.get(place, ()))
                        if hidden:
                            hidden.leave_out(row)
                        size += sum(map(len, row.cells))
                        self._bound(place, len(row.cells), size)
                        if row.cells:
                            yield from repeat(SheetRow([]), place - expected - 1)
                            expected = place
                            yield row
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        for kind, count in (("row", len(hidden.rows)), ("column", len(hidden.seen)), ("text", cells.hidden)):
            self._hide(kind, count)
        self._formulas += cells.formulas

    def _merged(self, part: str) -> dict[int, list[tuple[int, int, int]]]:
        """Return the merged cells by their first row: first and last column, and last row. They follow the rows in the file."""
        found: dict[int, list[tuple[int, int, int]]] = {}
        count, data = 0, b""
        with self._package.open(part) as file:
            while count < _MAX_MERGED and (piece := file.read(_PIECE)):
                data, end = data[-_LONGEST_MERGED:] + piece, 0
                for match in _MERGED.finditer(data):
                    first, top, right, bottom = match.groups()
                    columns = column_of(first.decode()), column_of(right.decode())
                    found.setdefault(int(top), []).append((*columns, int(bottom)))
                    count, end = count + 1, match.end()
                data = data[end:]
        return found

    def _hide(self, kind: str, count: int) -> None:
        if count:
            self._hidden[kind] = self._hidden.get(kind, 0) + count

    def _bound(self, height: int, width: int, size: int) -> None:
        if size > MAX_CHARACTERS:
            raise SkipDocumentError(f"A sheet of the XLSX file has more than {MAX_CHARACTERS:,} characters. Split it.")
        if height * width > MAX_CELLS:
            raise SkipDocumentError(
                f"A sheet of the XLSX file spans {height:,} rows and {width:,} columns, more than {MAX_CELLS:,} cells. "
                "Delete its empty rows and columns, or split it."
            )

    def _shared_strings(self) -> list[str]:
        names = self._package.related(self._package.main, "sharedStrings")
        root = self._package.xml(names[0]) if names else None
        return [rich(one) for one in root if local(one.tag) == "si"] if root is not None else []

    def _cell_formats(self) -> list[Format]:
        """Return, for each style of a cell, how it shows numbers, whether as a date, and whether it hides texts."""
        names = self._package.related(self._package.main, "styles")
        root = self._package.xml(names[0]) if names else None
        codes: dict[int, str] = dict(BUILT_IN)
        found: list[Format] = []
        for group in root if root is not None else ():
            if local(group.tag) == "numFmts":
                codes |= {number(one.get("numFmtId"), 0): one.get("formatCode") or "" for one in group}
            elif local(group.tag) == "cellXfs":
                for one in group:
                    code = codes.get(number(one.get("numFmtId"), 0), "")
                    found.append((formatter(code, from_1904=self._from_1904), is_date(code), hides_text(code)))
        return found

    # What is on a sheet beside its cells

    def _persons(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in self._package.related(self._package.main, "person"):
            root = self._package.optional(name)
            for one in root if root is not None else ():
                found[attribute(one, "id") or ""] = one_line(attribute(one, "displayName") or "")
        return found

    def _comments(self, part: str, name: str, hidden: HiddenPlaces) -> Iterator[BlockDraft]:
        for target in self._package.related(part, "comments"):
            root = self._package.optional(target)
            if root is None:
                continue
            authors = [one_line(one.text or "") for one in within(root, "author")]
            for one in within(root, "comment"):
                text = one_line(rich(body)) if (body := child(one, "text")) is not None else ""
                at = number(one.get("authorId"), 0)
                author = authors[at] if at < len(authors) else ""
                if not author.startswith(_THREADED) and not hidden.covers(one.get("ref") or ""):
                    yield from _comment(one.get("ref") or "", author, text, name)
        for target in self._package.related(part, "threadedComment"):
            root = self._package.optional(target)
            for one in root if root is not None else ():
                text = one_line(body.text or "") if (body := child(one, "text")) is not None else ""
                author = self._people.get(one.get("personId") or "", "")
                if not hidden.covers(one.get("ref") or ""):
                    yield from _comment(one.get("ref") or "", author, text, name)

    def _drawings(self, part: str, name: str) -> Iterator[BlockDraft]:
        for target in self._package.related(part, "drawing"):
            root = self._package.optional(target)
            if root is None:
                continue
            for one in shapes(root):
                if is_hidden(one):
                    self._hide("shape", has_text(one))
                    continue
                body = child(one, "txBody")
                lines = [one_line(paragraph(part)) for part in within(body, "p")] if body is not None else []
                if text := "\n".join(filter(None, lines)):
                    yield BlockDraft(kind="paragraph", text=text, sheet=name)
                yield from graphics(self._package, target, one, sheet=name, data=self._is_elsewhere)

    def _is_elsewhere(self, chart: Any) -> bool:
        """Return True if the figures of a chart are on no sheet that is read: on a hidden one, in another file, in the chart alone."""
        references = {one.text[:_LONGEST_FORMULA] for one in within(chart, "f") if one.text}
        names = (quoted.replace("''", "'") or bare for one in references for quoted, bare in _SHEET.findall(one))
        return not references or any(name in self._unread or _OTHER_FILE.match(name) for name in names)


def _comment(place: str, author: str, text: str, name: str) -> Iterator[BlockDraft]:
    if author and text.startswith(f"{author}:"):
        text = text[len(author) + 1 :].strip()
    if text:
        said = f"Comment on {place}" if place else "Comment"
        yield BlockDraft(
            kind="paragraph", text=f"{said} by {author}: {text}" if author else f"{said}: {text}", sheet=name
        )
