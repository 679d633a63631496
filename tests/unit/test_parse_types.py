"""OpenDocument files, old workbooks, notebooks, calendars, contacts, RTF tables and zip archives."""

import io
import json
import struct
import zipfile
from typing import Any

import pytest

from assets.stages.parse import parse
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import DOCX, MIME_TYPES, NOTEBOOK, ODP, ODS, ODT, PPTX, RTF, XLS, XLSX, ZIP, mime_type
from tests.fixtures import outlook
from tests.fixtures.packages import archive

SPACES = " ".join(
    f'xmlns:{name}="urn:{name}"'
    for name in (
        "office",
        "text",
        "table",
        "draw",
        "style",
        "fo",
        "xlink",
        "dc",
        "chart",
        "presentation",
        "svg",
        "form",
    )
)
CHART = (
    f"<office:document-content {SPACES}><office:body><office:chart><chart:chart><chart:title><text:p>Ducks</text:p></chart:title>"
    "<table:table><table:table-rows><table:table-row><table:table-cell><text:p>Year</text:p></table:table-cell><table:table-cell>"
    "<text:p>Count</text:p></table:table-cell></table:table-row><table:table-row><table:table-cell><text:p>2026</text:p>"
    "</table:table-cell><table:table-cell><text:p>12</text:p></table:table-cell></table:table-row></table:table-rows></table:table>"
    "</chart:chart></office:chart></office:body></office:document-content>"
)


def opened(kind: str, body: str, styles: str = "") -> ParsedDocument:
    content = (
        f"<office:document-content {SPACES}><office:automatic-styles>{styles}</office:automatic-styles><office:body><office:{kind}>"
        f"{body}</office:{kind}></office:body></office:document-content>"
    )
    data = archive({"content.xml": content, "Object 1/content.xml": CHART})
    return parse(data, {"text": ODT, "spreadsheet": ODS, "presentation": ODP}[kind], title="x")


def shown(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def cell(text: str, attributes: str = "") -> str:
    return f"<table:table-cell {attributes}><text:p>{text}</text:p></table:table-cell>"


def test_notes_comments_boxes_and_charts_of_a_text() -> None:
    note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Without tax.</text:p></text:note-body></text:note>"
    comment = "<office:annotation><dc:creator>Ana</dc:creator><text:p>Too low.</text:p></office:annotation>"
    box = "<draw:frame><draw:text-box><text:p>In a box</text:p></draw:text-box></draw:frame>"
    shape = "<draw:custom-shape><text:p>In a shape</text:p></draw:custom-shape>"
    chart = '<draw:frame><draw:object xlink:href="./Object 1"/></draw:frame>'
    gone = "<text:tracked-changes><text:deletion><text:p>deleted</text:p></text:deletion></text:tracked-changes>"
    document = opened(
        "text",
        f"{gone}<text:p>4.2{note} million{comment}{box}{chart}</text:p>{shape}<text:p>End<text:tab/>of<text:s text:c='2'/>it</text:p>",
    )
    assert shown(document) == [
        ("paragraph", "4.2 [1] million"),
        ("paragraph", "[1] Without tax."),
        ("paragraph", "Comment by Ana: Too low."),
        ("paragraph", "In a box"),
        ("paragraph", "Chart: Ducks"),
        ("table", "Year | Count\n2026 | 12"),
        ("paragraph", "In a shape"),
        ("paragraph", "End of it"),
    ]


def test_forms_of_a_text() -> None:
    controls = [
        ("fixed-text", 'form:label="First name"'), ("text", 'form:current-value="Ada"'),
        ("radio", 'form:label="Pays" form:current-selected="true"'), ("checkbox", 'form:label="Agrees"'),
        ("password", 'form:current-value="secret"'), ("hidden", 'form:value="7"'), ("listbox", ""),
    ]  # fmt: skip
    option = '<form:option form:label="Norway" form:current-selected="true"/><form:option form:label="Sweden"/>'
    form = "".join(
        f'<form:{kind} form:id="c{number}" {rest}>{option if kind == "listbox" else ""}</form:{kind}>'
        for number, (kind, rest) in enumerate(controls)
    )
    drawn = [f'<draw:control draw:control="c{number}"/>' for number in range(len(controls))]
    document = opened(
        "text",
        f"<office:forms><form:form>{form}</form:form></office:forms><text:p>{''.join(drawn)}</text:p>{drawn[1]}",
    )
    assert shown(document) == [("paragraph", "First name Ada ☒ Pays ☐ Agrees Norway"), ("paragraph", "Ada")]


def test_styles_raise_hide_and_number_text() -> None:
    styles = (
        "<style:style style:name='up'><style:text-properties style:text-position='super 58%'/></style:style>"
        "<style:style style:name='no'><style:text-properties text:display='none'/></style:style>"
        "<text:list-style style:name='L'><text:list-level-style-number text:level='1' style:num-format='a' style:num-suffix=')'/>"
        "</text:list-style>"
    )
    one, two = (f"<text:list-item><text:p>{text}</text:p></text:list-item>" for text in ("one", "two"))
    items = f"<text:list text:style-name='L'>{one}{two}</text:list>"
    body = f"<text:p>4.2<text:span text:style-name='up'>1</text:span><text:span text:style-name='no'>secret</text:span></text:p>{items}"
    document = opened("text", body, styles)
    assert shown(document) == [("paragraph", "4.2 [1]"), ("list", "a) one\nb) two")]
    assert document.warnings == ["The file has 1 hidden text that is not indexed."]


NUMBERED = (
    "<text:list-style style:name='N'><text:list-level-style-number text:level='1' style:num-format='1'/>"
    "<text:list-level-style-number text:level='2' style:num-format='1' text:display-levels='2'/>"
    "<text:list-level-style-number text:level='3' style:num-prefix='(' style:num-format='a' style:num-suffix=')'/></text:list-style>"
)


def listed(content: str, depth: int, attributes: str = "text:continue-numbering='true'") -> str:
    """Return a list whose item is in lists of its own, as Word and LibreOffice write numbered headings."""
    before, after = "<text:list><text:list-item>" * depth, "</text:list-item></text:list>" * depth
    return f"<text:list text:style-name='N' {attributes}><text:list-item>{before}{content}{after}</text:list-item></text:list>"


def test_headings_in_lists_are_headings_with_their_numbers() -> None:
    def heading(text: str, level: int) -> str:
        return listed(f"<text:h text:outline-level='{level}'>{text}</text:h>", level - 1)

    item = "<text:p>either</text:p></text:list-item><text:list-item><text:p>or</text:p>"
    body = (
        heading("Scope", 1)
        + heading("Terms", 2)
        + "<text:p>They apply.</text:p>"
        + heading("Fees", 2)
        + listed(item, 2)
    )
    body += heading("Law", 1) + heading("Courts", 2)
    body += listed("<text:p>once</text:p><text:h text:outline-level='1'>Inner</text:h><text:p>more</text:p>", 0, "")
    document = opened("text", body, NUMBERED)
    assert shown(document) == [
        ("heading", "1. Scope"),
        ("heading", "1.1 Terms"),
        ("paragraph", "They apply."),
        ("heading", "1.2 Fees"),
        ("list", "    (a) either\n    (b) or"),
        ("heading", "2. Law"),
        ("heading", "2.1 Courts"),
        ("list", "1. once"),
        ("heading", "Inner"),
        ("list", "  more"),
    ]
    assert document.blocks[4].section_path == ("1. Scope", "1.2 Fees")


HIDING = (
    "<style:style style:name='no'><style:text-properties text:display='none'/></style:style>"
    "<style:style style:name='own' style:parent-style-name='no'/>"
    "<style:style style:name='yes' style:parent-style-name='no'><style:text-properties text:display='true'/></style:style>"
    "<style:style style:name='circle' style:parent-style-name='circle'/>"
)
SECRET = "<text:p text:style-name='{}'>secret</text:p>"
IF_TRUE = "text:display='condition' text:is-hidden='true'"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(SECRET.format("own"), id="inherited"),
        pytest.param("<text:p><text:span text:style-name='own'>secret</text:span></text:p>", id="span"),
        pytest.param(f"<text:list><text:list-item>{SECRET.format('no')}</text:list-item></text:list>", id="list"),
        pytest.param(
            f"<table:table><table:table-row><table:table-cell>{SECRET.format('no')}</table:table-cell></table:table-row></table:table>",
            id="cell",
        ),
        pytest.param(
            f"<text:p text:style-name='no'>x<text:note><text:note-body>{SECRET.format('')}</text:note-body></text:note></text:p>",
            id="note of a hidden paragraph",
        ),
        pytest.param(
            "<text:p>secret<text:hidden-paragraph text:condition='ooow:true' text:is-hidden='true'/></text:p>",
            id="field",
        ),
        pytest.param(f"<text:section {IF_TRUE}>{SECRET.format('')}</text:section>", id="section"),
    ],
)
def test_what_a_text_hides_is_not_indexed(body: str) -> None:
    document = opened("text", f"{body}<text:p>Shown.</text:p>", HIDING)
    assert document.text == "Shown."
    (warning,) = document.warnings
    assert warning.startswith("The file has 1 hidden ")


@pytest.mark.parametrize("style", ["yes", "circle", "missing"])
def test_what_a_style_shows_is_indexed(style: str) -> None:
    document = opened("text", f"<text:p text:style-name='{style}'>Shown.</text:p>", HIDING)
    assert (document.text, document.warnings) == ("Shown.", [])


def test_a_spreadsheet_as_it_is_shown() -> None:
    styles = "<style:style style:name='off'><style:table-properties table:display='false'/></style:style>"
    header = "<table:table-row>" + cell("Item") + cell("Cost") + cell("Margin") + cell("Since") + "</table:table-row>"
    pump = cell("Pump") + cell("7", "office:value-type='float'") + cell("2.50%", "office:value-type='percentage'")
    pump += cell("1 Feb", "office:value-type='date' office:date-value='2026-02-01T00:00:00'")
    comment = "<office:annotation><dc:creator>Ana</dc:creator><text:p>Old.</text:p></office:annotation>"
    valve = (
        f"<table:table-cell><text:p>Valve</text:p>{comment}</table:table-cell>"
        + f"<table:table-cell><text:p>8</text:p>{comment.replace('Old.', 'Too much.')}</table:table-cell>"
        + "<table:table-cell table:formula='of:=[.B2]'/>"
    )
    columns = "<table:table-column/><table:table-column table:visibility='collapse'/>"
    columns += "<table:table-column table:number-columns-repeated='16000'/>"
    rows = (
        f"{header}<table:table-row>{pump}</table:table-row><table:table-row>{valve}</table:table-row>"
        f"<table:table-row table:visibility='filter'>{cell('gone')}</table:table-row>"
        "<table:table-row table:number-rows-repeated='1048000'><table:table-cell table:number-columns-repeated='16384'/></table:table-row>"
    )
    sheets = f"<table:table table:name='Prices'>{columns}{rows}</table:table>"
    sheets += f"<table:table table:name='Salaries' table:style-name='off'><table:table-row>{cell('Ana')}</table:table-row></table:table>"
    document = opened("spreadsheet", sheets, styles)
    assert [line for line in document.text.split("\n") if line] == [
        "Prices", "Item | Margin | Since", "Pump | 2.50% | 2026-02-01", "Valve | =[.B2]", "Comment on A3 by Ana: Old.",
    ]  # fmt: skip
    assert document.warnings == [
        "The file has 1 hidden row that is not indexed.",
        "The file has 1 hidden column that is not indexed.",
        "The file has 1 hidden sheet that is not indexed.",
        "The file has 1 formula that is stored without a result: the formula is shown.",
    ]


def test_merged_cells_of_a_spreadsheet() -> None:
    covered = "<table:covered-table-cell/>"
    rows = [
        cell("Region", "table:number-rows-spanned='2'") + cell("2023", "table:number-columns-spanned='2'") + covered,
        covered + cell("Plan") + cell("Actual"),
        cell("North", "table:number-rows-spanned='2'") + cell("1", "office:value-type='float'") * 2,
        covered + cell("2", "office:value-type='float'") * 2,
    ]
    grid = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    document = opened("spreadsheet", f"<table:table table:name='Sales'>{grid}</table:table>")
    assert [line for line in document.text.split("\n") if line] == [
        "Sales", "Region | 2023 Plan | 2023 Actual", "North | 1 | 1", "North | 2 | 2",
    ]  # fmt: skip


def test_what_a_spreadsheet_repeats_is_bounded() -> None:
    many = cell("x" * 1000, "office:value-type='string' table:number-columns-repeated='16384'")
    row = f"<table:table-row table:number-rows-repeated='1048576'>{many}</table:table-row>"
    with pytest.raises(SkipDocumentError, match="characters"):
        opened("spreadsheet", f"<table:table table:name='A'>{row}</table:table>")


def test_slides_with_notes() -> None:
    def frame(text: str, role: str = "") -> str:
        return f"<draw:frame presentation:class='{role}'><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"

    notes = f"<presentation:notes>{frame('Say hello.')}</presentation:notes>"
    document = opened(
        "presentation",
        f"<draw:page>{frame('First')}{frame('Plan', 'title')}{notes}</draw:page><draw:page>{frame('Next', 'title')}</draw:page>"
        f"<draw:page>{frame('Untitled')}</draw:page>",
    )
    assert [(block.page, *one) for block, one in zip(document.blocks, shown(document), strict=True)] == [
        (1, "paragraph", "First"),
        (1, "heading", "Plan"),
        (1, "paragraph", "Notes: Say hello."),
        (2, "heading", "Next"),
        (3, "paragraph", "Untitled"),
    ]
    assert document.page_count == 3
    assert [block.section_path for block in document.blocks] == [(), (), ("Plan",), (), ()]


def test_hidden_slides_and_shapes_are_not_indexed() -> None:
    style = (
        "<style:style style:name='off'><style:drawing-page-properties presentation:visibility='hidden'/></style:style>"
    )
    secret = "<draw:frame {}><draw:text-box><text:p>secret</text:p></draw:text-box></draw:frame>"
    slides = (
        f"<draw:page draw:style-name='off'>{secret.format('')}</draw:page>"
        "<draw:page>"
        + secret.format("draw:display='none'")
        + f"{secret.format('').replace('secret', 'Shown')}</draw:page>"
    )
    document = opened("presentation", slides, style)
    assert [(block.page, *one) for block, one in zip(document.blocks, shown(document), strict=True)] == [
        (2, "paragraph", "Shown")
    ]
    assert document.warnings == [
        "The file has 1 hidden slide that is not indexed.",
        "The file has 1 hidden shape that is not indexed.",
    ]


def record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def xls(
    *sheets: tuple[str, int, list[list[object]]],
    rows_hidden: tuple[int, ...] = (),
    columns_hidden: tuple[int, ...] = (),
) -> bytes:
    """Return a workbook of Excel 97 with a name, a visibility (0 is visible) and rows for each sheet. Source: MS-XLS."""
    begin = struct.pack("<HHHHII", 0x0600, 0x0010, 0, 0, 0, 0)
    bodies: list[bytes] = []
    for _, _, rows in sheets:
        cells = b"".join(record(0x007D, struct.pack("<6H", x, x, 2560, 15, 1, 0)) for x in columns_hidden)
        cells += b"".join(record(0x0208, struct.pack("<HHHHIHH", y, 0, 9, 255, 0, 0x20, 15)) for y in rows_hidden)
        for y, row in enumerate(rows):
            for x, value in enumerate(row):
                place = struct.pack("<HHH", y, x, 0)
                if isinstance(value, str):
                    cells += record(0x0204, place + struct.pack("<HB", len(value), 0) + value.encode("latin-1"))
                else:
                    cells += record(0x0203, place + struct.pack("<d", value))
        bodies.append(record(0x0809, begin) + cells + record(0x000A, b""))
    head = record(0x0809, begin.replace(b"\x10\x00", b"\x05\x00", 1))
    at = len(head) + sum(12 + len(name) for name, _, _ in sheets) + 4
    index = b""
    for (name, visible, _), body in zip(sheets, bodies, strict=True):
        index += record(0x0085, struct.pack("<IBBBB", at, visible, 0, len(name), 0) + name.encode("latin-1"))
        at += len(body)
    root = outlook.Entry("Root Entry", outlook.ROOT)
    root.children = [outlook.Entry("Workbook", outlook.STREAM, head + index + record(0x000A, b"") + b"".join(bodies))]
    return outlook.compound(root)


def test_an_old_workbook_without_its_hidden_sheets() -> None:
    data = xls(("Prices", 0, [["Item", "Price"], ["Pump", 9.5]]), ("Salaries", 1, [["Ana", 90000.0]]))
    document = parse(data, XLS, title="x")
    assert shown(document) == [("heading", "Prices"), ("table", "Item | Price"), ("table", "Pump | 9.5")]
    assert document.warnings == ["The workbook has 1 hidden sheet that is not indexed."]


TEAM: list[list[object]] = [["Name", "Salary", "Town"], ["Ana", 90000.0, "Oslo"], ["Ben", 70000.0, "Bergen"]]


def test_an_old_workbook_without_its_hidden_rows_and_columns() -> None:
    data = xls(("Team", 0, TEAM), rows_hidden=(2, 90), columns_hidden=(1, 9))
    document = parse(data, XLS, title="x")
    assert shown(document) == [("heading", "Team"), ("table", "Name | Town"), ("table", "Ana | Oslo")]
    assert document.warnings == [
        "The workbook has 1 hidden row that is not indexed.",
        "The workbook has 1 hidden column that is not indexed.",
    ]


def xlsb(rows: list[list[object]], *, rows_hidden: tuple[int, ...], columns_hidden: tuple[int, ...]) -> bytes:
    """Return a binary workbook with one sheet of cells and one that is a chart. Source: MS-XLSB."""

    def piece(kind: int, body: bytes = b"") -> bytes:
        number = bytes([kind]) if kind < 0x80 else bytes([kind & 0x7F | 0x80, kind >> 7])
        size = len(body)
        return number + (bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])) + body

    def text(value: str) -> bytes:
        return struct.pack("<I", len(value)) + value.encode("utf-16-le")

    columns = b"".join(piece(60, struct.pack("<4IH", x, x, 2560, 0, 1)) for x in columns_hidden)
    cells = b""
    for y, row in enumerate(rows):
        cells += piece(0, struct.pack("<IIHBBBI", y, 0, 300, 0, 0x10 if y in rows_hidden else 0, 0, 0))
        for x, value in enumerate(row):
            place = struct.pack("<II", x, 0)
            cells += (
                piece(6, place + text(value)) if isinstance(value, str) else piece(5, place + struct.pack("<d", value))
            )
    size = struct.pack("<4I", 0, len(rows) - 1, 0, max(map(len, rows)) - 1)
    sheet = (
        piece(129) + piece(148, size) + piece(390) + columns + piece(391) + piece(145) + cells + piece(146) + piece(130)
    )
    book = (
        piece(131)
        + piece(143)
        + piece(156, struct.pack("<II", 0, 1) + text("rId1") + text("Team"))
        + piece(156, struct.pack("<II", 0, 2) + text("rId2") + text("Chart"))
        + piece(144)
        + piece(132)
    )
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    relation = '<Relationships><Relationship Id="{}" Type="{}/{}" Target="{}"/>%s</Relationships>'
    chart = f'<Relationship Id="rId2" Type="{kind}/chartsheet" Target="chartsheets/sheet1.bin"/>'
    return archive(
        {
            "[Content_Types].xml": "<Types/>",
            "_rels/.rels": (relation % "").format("rId1", kind, "officeDocument", "xl/workbook.bin"),
            "xl/workbook.bin": book,
            "xl/_rels/workbook.bin.rels": (relation % chart).format("rId1", kind, "worksheet", "worksheets/sheet1.bin"),
            "xl/worksheets/sheet1.bin": sheet,
            "xl/chartsheets/sheet1.bin": piece(129) + piece(130),
        }
    )


def test_a_binary_workbook_that_stops_the_library_is_damaged() -> None:
    data = xlsb(TEAM, rows_hidden=(), columns_hidden=())
    with zipfile.ZipFile(io.BytesIO(data)) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    parts["xl/_rels/workbook.bin.rels"] = b"<Relationships/>"
    with pytest.raises(SkipDocumentError, match="damaged"):
        parse(archive(parts), MIME_TYPES[".xlsb"], title="x")


def test_a_binary_workbook_without_its_hidden_rows_and_columns() -> None:
    data = xlsb(TEAM, rows_hidden=(2,), columns_hidden=(1,))
    document = parse(data, MIME_TYPES[".xlsb"], title="x")
    assert shown(document) == [("heading", "Team"), ("table", "Name | Town"), ("table", "Ana | Oslo")]
    assert len(document.warnings) == 2


@pytest.mark.parametrize("cut", [0x0208, 0x007D])
def test_records_that_are_cut_short_hide_nothing(cut: int) -> None:
    from assets.stages.parse.biff import _records, _sheet_of_xls  # pyright: ignore[reportPrivateUsage]

    stream = record(0x0809, bytes(16)) + record(cut, b"\x01") + struct.pack("<HH", cut, 60_000) + b"\xff"
    assert _sheet_of_xls(stream, 0).rows == set()
    assert len(list(_records(stream, 0))) == 3
    assert list(_records(stream, 10**9)) == []


def test_a_notebook() -> None:
    book = {
        "cells": [
            {"cell_type": "markdown", "source": ["# Sizes\n", "The pump is 40 cm."]},
            {
                "cell_type": "code",
                "source": "print(wide)",
                "outputs": [
                    {"output_type": "stream", "text": ["40\n"]},
                    {
                        "output_type": "display_data",
                        "data": {"image/png": "iVBORw0KGgo", "text/plain": ["<Figure size 4x4>"]},
                    },
                    {"output_type": "error", "ename": "NameError", "evalue": "name 'x'", "traceback": ["\x1b[31m"]},
                ],
            },
            "no cell",
        ]
    }
    document = parse(json.dumps(book).encode(), NOTEBOOK, title="x")
    assert shown(document) == [
        ("heading", "Sizes"),
        ("paragraph", "The pump is 40 cm."),
        ("code", "print(wide)"),
        ("code", "40"),
        ("code", "NameError: name 'x'"),
    ]


TABLE = (
    "<style>#T {color: red}</style><table><tr><th>Item</th><th>Cost</th></tr><tr><td>Pump</td><td>9</td></tr></table>"
)
SHOWN = [("table", "Item | Cost\nPump | 9")]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"data": {"text/plain": "<IPython.core.display.Markdown object>", "text/markdown": ["## Sum\n", "It is **40**."]}},
         [("heading", "Sum"), ("paragraph", "It is 40.")]),
        ({"data": {"text/plain": "<IPython.core.display.HTML object>", "text/html": TABLE}}, SHOWN),
        ({"data": {"text/plain": ["<pandas.io.formats.style.Styler at 0x7f3a>"], "text/html": TABLE}}, SHOWN),
        ({"data": {"text/html": TABLE}}, SHOWN),
        ({"text": "<IPython.core.display.HTML object>", "html": TABLE}, SHOWN),
        ({"data": {"text/plain": "   Item\n0  Pump", "text/html": TABLE}}, [("code", "   Item\n0  Pump")]),
        ({"data": {"text/plain": "<IPython.core.display.Image object>", "image/png": "iVBORw0KGgo"}}, []),
        ({"data": {"text/plain": "[<matplotlib.lines.Line2D at 0x7f3a>,\n <matplotlib.lines.Line2D at 0x7f3b>]"}}, []),
        ({"output_type": "stream", "text": "<Figure size 640x480 with 1 Axes>\nAccuracy 0.93"},
         [("code", "<Figure size 640x480 with 1 Axes>\nAccuracy 0.93")]),
        ({"output_type": "stream", "text": "<__main__.Pump object at 0x7f3a>"}, [("code", "<__main__.Pump object at 0x7f3a>")]),
        ({"data": {"text/plain": "<b at 0x7f> is 5"}}, [("code", "<b at 0x7f> is 5")]),
        ({"data": {"text/plain": "<IPython.core.display.HTML object>", "text/html": f"<p>{'word ' * 2_000}</p>"}},
         [("paragraph", "word " * 799 + "word")]),
    ],
)  # fmt: skip
def test_what_a_cell_of_a_notebook_displays(output: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    cell = {"cell_type": "code", "source": "show()", "outputs": [{"output_type": "display_data", **output}]}
    document = parse(json.dumps({"cells": [cell]}).encode(), NOTEBOOK, title="x")
    assert shown(document) == [("code", "show()"), *expected]


def test_rules_in_a_cell_of_a_notebook_are_no_front_matter() -> None:
    cell = {"cell_type": "markdown", "source": "---\nlimit: 500 EUR\n\n---\n"}
    assert "limit: 500 EUR" in parse(json.dumps({"cells": [cell]}).encode(), NOTEBOOK, title="x").text


def test_a_calendar_and_contacts() -> None:
    event = (
        "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nBEGIN:VTIMEZONE\r\nTZID:Rome\r\nBEGIN:STANDARD\r\nDTSTART:19700101T000000\r\nEND:STANDARD\r\n"
        "END:VTIMEZONE\r\nBEGIN:VEVENT\r\nUID:1@x\r\nDTSTART;TZID=Rome:20260203T093000\r\nSUMMARY:Pump\\, again\r\n"
        'ATTENDEE;CN="Ana Ruiz";ROLE=X:mailto:ana@acme.com\r\nDESCRIPTION:It\r\n  hums.\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n'
    )
    assert shown(parse(event.encode(), "text/calendar", title="x")) == [
        (
            "list",
            "Start: 2026-02-03 09:30 Rome\nSummary: Pump, again\nAttendee: Ana Ruiz (ana@acme.com)\nDescription: It hums.",
        ),
    ]
    card = "BEGIN:VCARD\nVERSION:3.0\nN:Ruiz;Ana\nFN:Ana Ruiz\nORG:Acme;Pumps\nTEL;TYPE=work:+39 06 1\nEND:VCARD\n"
    card += "BEGIN:VCARD\nFN:Ben\nEND:VCARD\n"
    assert shown(parse(card.encode(), "text/vcard", title="x")) == [
        ("list", "Name: Ana Ruiz\nOrganization: Acme, Pumps\nPhone: +39 06 1"),
        ("list", "Name: Ben"),
    ]


def test_the_tables_and_notes_of_rtf() -> None:
    row = r"\trowd\cellx1\cellx2 {0}\par\cell {1}\cell\row "
    data = (
        r"{\rtf1\ansi Before{\footnote Without tax.}.\par "
        + row.format("City", "Days")
        + row.format("Rome", "30")
        + r"\pard After \u-10179?\u-8704?.\par}"
    )
    found = shown(parse(data.encode(), RTF, title="x"))
    assert found[:2] == [("paragraph", "Before [1]."), ("paragraph", "[1] Without tax.")]
    assert found[2:] == [("table", "City | Days\nRome | 30"), ("paragraph", "After 😀.")]


def test_an_archive_is_listed() -> None:
    document = parse(archive({"plans/pump.docx": "x", "plans/": "", "readme.txt": "y"}), ZIP, title="x")
    assert shown(document) == [("paragraph", "Zip archive of 2 files"), ("list", "- plans/pump.docx\n- readme.txt")]
    assert "not read" in document.warnings[0]


def test_a_long_archive_is_cut() -> None:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as file:
        for number in range(10_050):
            file.writestr(f"file{number}", "")
    document = parse(target.getvalue(), ZIP, title="x")
    assert "file9999\n" in f"{document.text}\n"
    assert "file10000" not in document.text
    assert "10,050 files" in document.warnings[1]


@pytest.mark.parametrize(
    ("kind", "data", "reason"),
    [
        (XLS, bytes.fromhex("d0cf11e0a1b11ae1") + bytes(600), "damaged or protected"),
        (XLS, b"PK\x03\x04", "damaged"),
        (NOTEBOOK, b"[1]", "not a notebook"),
        (NOTEBOOK, b"{", "not a notebook"),
        (NOTEBOOK, b"{}", "no text"),
        (NOTEBOOK, b"[" * 100_000, "not a notebook"),
        ("text/calendar", b"nothing of it", "no text"),
        (ZIP, b"PK\x03\x04cut", "damaged"),
        (ZIP, archive({}), "no files"),
        (ODS, archive({"content.xml": "<x/>"}), "no text"),
        (ODS, archive({"content.xml": "not xml"}), "damaged"),
        (ODP, archive({"content.xml": '<!DOCTYPE x [<!ENTITY e "a">]><x>&e;</x>'}), "refers to the entity"),
    ],
)
def test_what_cannot_be_read_says_why(kind: str, data: bytes, reason: str) -> None:
    with pytest.raises(SkipDocumentError, match=reason):
        parse(data, kind, title="x")


WORD = archive({"word/document.xml": "<x/>"})


@pytest.mark.parametrize(
    ("name", "data", "mime"),
    [
        ("a.docm", WORD, DOCX),
        ("a.dotx", WORD, DOCX),
        ("a.xltx", archive({"xl/workbook.xml": "<x/>"}), XLSX),
        ("a.xlsm", archive({"xl/workbook.xml": "<x/>"}), XLSX),
        ("a.potx", archive({"ppt/presentation.xml": "<x/>"}), PPTX),
        ("a.pptm", archive({"ppt/presentation.xml": "<x/>"}), PPTX),
        ("a.xls", xls(), XLS),
        ("a.xlsb", archive({"xl/workbook.bin": "x"}), MIME_TYPES[".xlsb"]),
        ("a.ods", archive({"content.xml": "<x/>"}), ODS),
        ("a.zip", archive({"a": "x"}), ZIP),
        ("a.ipynb", b"{}", NOTEBOOK),
        ("a.ics", b"BEGIN:VCALENDAR", "text/calendar"),
        ("a.vcf", b"BEGIN:VCARD", "text/vcard"),
        ("a.srt", b"1\n00:00:01,000 --> 00:00:02,000\nHi", "text/plain"),
        ("a.tex", b"\\section{x}", "text/plain"),
        ("a.org", b"* x", "text/plain"),
    ],
)
def test_content_fits_its_name(name: str, data: bytes, mime: str) -> None:
    assert mime_type(name, data[:8192]) == mime


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("a.doc", "Save it as .docx"), ("a.PPT", "Save it as .pptx"), ("a.pages", "Export it as .docx or .pdf")],
)
def test_a_type_that_is_not_read_names_the_remedy(name: str, remedy: str) -> None:
    with pytest.raises(SkipDocumentError, match=rf"not supported\. {remedy}\. Supported:"):
        mime_type(name, bytes.fromhex("d0cf11e0a1b11ae1"))


@pytest.mark.parametrize("name", ["a.xlsm", "a.docm"])
def test_a_password_is_named(name: str) -> None:
    with pytest.raises(SkipDocumentError, match="has a password or is in the old Office format"):
        mime_type(name, bytes.fromhex("d0cf11e0a1b11ae1") + bytes(100))


def test_damaged_parts_of_an_opendocument_file_are_named_in_warnings() -> None:
    body = "<office:text><text:p>It hums.</text:p><draw:object xlink:href='./Object 1'/></office:text>"
    content = f"<office:document-content {SPACES}><office:body>{body}</office:body></office:document-content>"
    parts = dict.fromkeys(("styles.xml", "meta.xml", "Object 1/content.xml"), "<a>A & B</a>")
    document = parse(archive({"content.xml": content, **parts}), ODT, title="x")
    assert document.text == "It hums."
    assert document.warnings == [
        f"A part of the file ({name}) is damaged and not read."
        for name in ("styles.xml", "Object 1/content.xml", "meta.xml")
    ]


def test_headers_and_footers_of_a_text_follow_it() -> None:
    content = f"<a {SPACES}><office:body><office:text><text:p>It hums.</text:p></office:text></office:body></a>"
    page = (
        "<text:p>Duck Ltd.</text:p></style:header><style:footer><text:p>Confidential</text:p></style:footer><style:footer-first>"
        "<text:p>Page <text:page-number>1</text:page-number></text:p><text:p>Confidential</text:p></style:footer-first>"
        '<style:footer-left style:display="false"><text:p>Draft</text:p></style:footer-left>'
    )
    styles = f'<a {SPACES}><style:master-page style:name="Standard"><style:header>{page}</style:master-page></a>'
    document = parse(archive({"content.xml": content, "styles.xml": styles}), ODT, title="x")
    assert shown(document) == [
        ("paragraph", "It hums."),
        ("heading", "Header and footer"),
        ("paragraph", "Duck Ltd."),
        ("paragraph", "Confidential"),
    ]


def test_footers_of_slides_are_there_once() -> None:
    frame = '<draw:frame presentation:class="footer"><draw:text-box><text:p>{}</text:p></draw:text-box></draw:frame>'
    masters = {"A": "Duck Ltd.", "B": "<presentation:footer>&lt;footer&gt;</presentation:footer>"}
    styles = "".join(
        f'<style:master-page style:name="{name}">{frame.format(text)}</style:master-page>'
        for name, text in masters.items()
    )
    look = (
        '<style:style style:name="{}"><style:drawing-page-properties presentation:display-footer="{}"/></style:style>'
    )
    slides = [("A", "on", ""), ("A", "on", ""), ("A", "off", ""), ("B", "on", "f"), ("B", "on", ""), ("B", "off", "g")]
    pages = "".join(
        f'<draw:page draw:master-page-name="{master}" draw:style-name="{style}" presentation:use-footer-name="{footer}"/>'
        for master, style, footer in slides
    )
    content = (
        f"<a {SPACES}><a>{look.format('on', 'true')}{look.format('off', 'false')}</a><office:body><office:presentation>"
        '<presentation:footer-decl presentation:name="f">Confidential</presentation:footer-decl>'
        f'<presentation:footer-decl presentation:name="g">Draft</presentation:footer-decl>{pages}'
        "</office:presentation></office:body></a>"
    )
    document = parse(archive({"content.xml": content, "styles.xml": f"<a {SPACES}>{styles}</a>"}), ODP, title="x")
    assert [(block.page, document.text[block.start : block.end]) for block in document.blocks] == [
        (1, "Duck Ltd."),
        (4, "Confidential"),
    ]


def test_a_contact_without_a_full_name_and_old_ones() -> None:
    card = "BEGIN:VCARD\nVERSION:2.1\nN:Ruiz;Ana;;Dr.;\nURL:https://acme.com/?q=\nTEL:1\n"
    card += "NOTE;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:Gr=F6=\n=DFe\nEND:VCARD\n"
    assert shown(parse(card.encode(), "text/vcard", title="x")) == [
        ("list", "Name: Dr. Ana Ruiz\nURL: https://acme.com/?q=\nPhone: 1\nNote: Größe")
    ]


def test_times_of_a_calendar_say_their_zone() -> None:
    event = "BEGIN:VEVENT\nDTSTART:20260202T120000Z\nDTEND;TZID=Europe/Rome:20260202T140000\nDUE;VALUE=DATE:20260203\nEND:VEVENT\n"
    assert shown(parse(event.encode(), "text/calendar", title="x")) == [
        ("list", "Start: 2026-02-02 12:00 UTC\nEnd: 2026-02-02 14:00 Europe/Rome\nDue: 2026-02-03")
    ]


def test_a_day_long_event_ends_on_its_last_day() -> None:
    event = "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20260227\nDTEND;VALUE=DATE:20260301\nEND:VEVENT\n"
    event += "BEGIN:VEVENT\nDTEND;VALUE=DATE:20269999\nDTSTART;VALUE=DATE:20260301\nEND:VEVENT\n"
    event += "BEGIN:VEVENT\nDTSTART;VALUE=DATE:20240101\nDTEND;VALUE=DATE:20240101\nEND:VEVENT\n"
    event += "BEGIN:VEVENT\nDTEND;VALUE=DATE:20240102\nDTSTART;VALUE=DATE:20240101\nEND:VEVENT\n"
    event += "BEGIN:VEVENT\nDTEND;VALUE=DATE:20240102\nEND:VEVENT\n"
    assert shown(parse(event.encode(), "text/calendar", title="x")) == [
        ("list", "Start: 2026-02-27\nEnd: 2026-02-28"),
        ("list", "End: 2026-99-99\nStart: 2026-03-01"),
        ("list", "Start: 2024-01-01\nEnd: 2024-01-01"),
        ("list", "End: 2024-01-01\nStart: 2024-01-01"),
        ("list", "End: 2024-01-02"),
    ]


def test_a_calendar_says_what_guests_replied() -> None:
    event = (
        "BEGIN:VEVENT\nATTENDEE;PARTSTAT=DECLINED;CN=Ana:mailto:ana@acme.com\nATTENDEE;partstat=accepted:mailto:ben@acme.com\n"
        'ATTENDEE;PARTSTAT=NEEDS-ACTION;CN="PARTSTAT=DECLINED":mailto:cleo@acme.com\nEND:VEVENT\n'
    )
    assert shown(parse(event.encode(), "text/calendar", title="x")) == [
        (
            "list",
            "Attendee: Ana (ana@acme.com), declined\nAttendee: ben@acme.com, accepted\n"
            "Attendee: PARTSTAT=DECLINED (cleo@acme.com)",
        )
    ]
