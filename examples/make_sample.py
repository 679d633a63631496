"""Create the binary files of the sample company from the texts in `examples/sources`.

`NAME.pdf.md`, `NAME.docx.md`, `NAME.pptx.md` and `NAME.xlsx.md` are written in a subset of Markdown; `NAME.png.json` and
`NAME.jpg.json` describe boxes, lines and labels. One output file is damaged on purpose. Dates and IDs are fixed, so a second
run with the same libraries produces the same bytes.

Usage: `python examples/make_sample.py [FOLDER]` (needs the development dependencies).
"""

from __future__ import annotations

import io
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "sources"
DESTINATION = HERE / "sample_company"
MADE = datetime(2026, 7, 1, 9, 0, tzinfo=UTC)
BROKEN = "company/legal/signed-lease.docx"
"""Truncated, like an interrupted copy."""


@dataclass
class Source:
    """A source text: its front lines and the blocks below them."""

    meta: dict[str, str]
    body: str

    @property
    def title(self) -> str:
        """Return the title of the document."""
        return self.meta["title"]

    @property
    def author(self) -> str:
        """Return the author that the file names."""
        return self.meta.get("author", "Larkmoor Instruments")


@dataclass
class Part:
    """One block: `heading` (with level), `text`, `bullet`, `notes`, `break` (a new page or slide) or `table` (rows)."""

    kind: str
    text: str = ""
    level: int = 0
    rows: list[list[str]] = field(default_factory=list)


def read(path: Path) -> Source:
    """Split the `key: value` lines before `---` from the text."""
    head, _, body = path.read_text(encoding="utf-8").partition("\n---\n")
    return Source(dict(line.split(": ", 1) for line in head.splitlines()), body)


def parts(body: str) -> Iterator[Part]:
    """Yield the blocks of a source text in order."""
    table: list[list[str]] = []
    for line in [*body.splitlines(), ""]:
        if line.startswith("|"):
            if not re.fullmatch(r"[|\s-]+", line):
                table.append([cell.strip() for cell in line.strip().strip("|").split("|")])
            continue
        if table:
            yield Part("table", rows=table)
            table = []
        if line in ("---", r"\newpage"):
            yield Part("break")
        elif heading := re.match(r"(#+) (.+)", line):
            yield Part("heading", heading[2], len(heading[1]))
        elif line.startswith("- "):
            yield Part("bullet", line[2:])
        elif line.startswith("notes: "):
            yield Part("notes", line[7:])
        elif line.strip():
            yield Part("text", line)


def pdf(source: Source) -> bytes:
    """Lay out a PDF with a running footer; `\\newpage` begins a page."""
    from reportlab.lib.pagesizes import A4
    from reportlab.lib.styles import getSampleStyleSheet
    from reportlab.pdfgen.canvas import Canvas
    from reportlab.platypus import PageBreak, Paragraph, SimpleDocTemplate, Spacer, Table

    styles = getSampleStyleSheet()
    story: list[Any] = []
    for part in parts(source.body):
        if part.kind == "break":
            story.append(PageBreak())
        elif part.kind == "table":
            story += [Table(part.rows, hAlign="LEFT", style=[("GRID", (0, 0), (-1, -1), 0.5, "#888888")]), Spacer(1, 8)]
        else:
            style = styles[f"Heading{part.level}"] if part.kind == "heading" else styles["BodyText"]
            story.append(Paragraph(part.text, style))

    def footer(canvas: Canvas, template: SimpleDocTemplate) -> None:
        canvas.setFont("Helvetica", 8)
        canvas.drawString(56, 34, source.meta["footer"])
        canvas.drawRightString(A4[0] - 56, 34, f"Page {template.page}")

    out = io.BytesIO()
    template = SimpleDocTemplate(
        out, pagesize=A4, title=source.title, author=source.author, invariant=1, pageCompression=0
    )
    template.build(story, onFirstPage=footer, onLaterPages=footer)
    return out.getvalue()


def _repacked(data: bytes) -> bytes:
    """Repack an Office archive with fixed dates, since the library stamps every entry with the current time."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for name in old.namelist():
            if name != "docProps/thumbnail.jpeg":
                entry = zipfile.ZipInfo(name, MADE.timetuple()[:6])
                new.writestr(entry, _without_thumbnail(name, old.read(name)), zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _without_thumbnail(name: str, data: bytes) -> bytes:
    """Remove the reference to the preview picture of the library's template, which shows another document."""
    if name != "_rels/.rels":
        return data
    return re.sub(rb"<Relationship [^>]*thumbnail\.jpeg[^>]*/>", b"", data)


def _stamp(properties: Any, source: Source) -> None:
    properties.title, properties.author, properties.last_modified_by = source.title, source.author, source.author
    properties.created = properties.modified = MADE.replace(tzinfo=None)
    properties.comments = ""


def docx(source: Source) -> bytes:
    """Create a Word file with real headings, lists and tables."""
    from docx import Document

    document = Document()
    _stamp(document.core_properties, source)
    for part in parts(source.body):
        if part.kind == "heading":
            document.add_heading(part.text, part.level)
        elif part.kind == "table":
            table = document.add_table(0, len(part.rows[0]), style="Table Grid")
            for row in part.rows:
                for cell, text in zip(table.add_row().cells, row, strict=True):
                    cell.text = text
        else:
            document.add_paragraph(part.text, style="List Bullet" if part.kind == "bullet" else None)
    out = io.BytesIO()
    document.save(out)
    return _repacked(out.getvalue())


def pptx(source: Source) -> bytes:
    """Create a presentation: `---` begins a slide, its heading is the title, and `notes:` become speaker notes."""
    from pptx import Presentation

    deck = Presentation()
    _stamp(deck.core_properties, source)
    slide: Any = None
    for part in parts(source.body):
        if part.kind == "heading":
            slide = deck.slides.add_slide(deck.slide_layouts[1])
            slide.shapes.title.text = part.text
        elif part.kind == "notes":
            slide.notes_slide.notes_text_frame.text = part.text
        elif part.kind != "break":
            frame = slide.placeholders[1].text_frame
            (frame.add_paragraph() if frame.text else frame.paragraphs[0]).text = part.text
    out = io.BytesIO()
    deck.save(out)
    return _repacked(out.getvalue())


def xlsx(source: Source) -> bytes:
    """Create a workbook: a heading begins a sheet, and numbers become numeric cells."""
    from openpyxl import Workbook
    from openpyxl.styles import Font
    from openpyxl.writer.excel import ExcelWriter

    book = Workbook()
    book.remove(book.active)
    sheet: Any = None
    for part in parts(source.body):
        if part.kind == "heading":
            sheet = book.create_sheet(part.text)
        for row in part.rows:
            sheet.append([_number(cell) for cell in row])
        if part.rows:
            for cell in sheet[1]:
                cell.font = Font(bold=True)
    _stamp_book(book, source)
    out = io.BytesIO()
    # Workbook.save() would put the present time into the properties.
    ExcelWriter(book, zipfile.ZipFile(out, "w")).save()
    return _repacked(out.getvalue())


def _stamp_book(book: Any, source: Source) -> None:
    book.properties.title, book.properties.creator = source.title, source.author
    book.properties.created = book.properties.modified = MADE.replace(tzinfo=None)


def _number(cell: str) -> str | int | float:
    if re.fullmatch(r"\d+", cell):
        return int(cell)
    return float(cell) if re.fullmatch(r"\d+\.\d+", cell) else cell


def picture(spec: dict[str, Any], kind: str) -> bytes:
    """Draw a picture from its boxes, lines and labels."""
    from PIL import Image, ImageDraw, ImageFont

    image = Image.new("RGB", tuple(spec["size"]), spec["background"])
    draw = ImageDraw.Draw(image)
    for shape in spec["shapes"]:
        if "box" in shape:
            draw.rectangle(shape["box"], fill=shape["fill"], outline=shape["line"], width=2)
        elif "line" in shape:
            draw.line(shape["line"], fill=shape["fill"], width=4)
        if "text" in shape:
            left, top = shape.get("at") or (shape["box"][0] + 8, shape["box"][1] + 8)
            font = ImageFont.load_default(shape.get("size", 16))
            draw.text((left, top), shape["text"], fill=shape.get("color", "#222222"), font=font)
    out = io.BytesIO()
    image.save(out, "PNG") if kind == "png" else image.save(out, "JPEG", quality=85)
    return out.getvalue()


def make(source: Path) -> bytes:
    """Create one binary file."""
    kind = source.suffixes[-2][1:]
    if source.suffix == ".json":
        return picture(json.loads(source.read_text(encoding="utf-8")), kind)
    return {"pdf": pdf, "docx": docx, "pptx": pptx, "xlsx": xlsx}[kind](read(source))


def make_all(destination: Path) -> list[Path]:
    """Write every binary file below `destination` and return their sorted paths."""
    made: dict[str, bytes] = {}
    for source in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        made[source.relative_to(SOURCES).with_suffix("").as_posix()] = make(source)
    whole = made["company/legal/data-processing-agreement.docx"]
    made[BROKEN] = whole[: len(whole) // 2]
    for name, data in made.items():
        path = destination / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return sorted(destination / name for name in made)


if __name__ == "__main__":
    for written in make_all(Path(sys.argv[1]) if len(sys.argv) > 1 else DESTINATION):
        print(f"{written.stat().st_size:>8}  {written}")
