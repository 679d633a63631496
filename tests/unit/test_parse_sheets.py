"""Workbooks as they are shown: number formats, what is hidden, titles and headers, comments, texts and charts."""

import io
import zipfile
from datetime import date, time
from typing import Any

import pytest
from openpyxl import Workbook
from openpyxl.chart import BarChart, Reference
from openpyxl.comments import Comment
from openpyxl.utils import get_column_letter

from assets.stages.chunk import chunk
from assets.stages.parse import parse
from assets.stages.parse.number_format import BUILT_IN, formatter
from assets.stages.parse.sheets import COPIES
from assets.stages.profiles import resolve
from resources.core.domain import ParsedDocument
from resources.core.filetypes import XLSX
from resources.embedding import tokenizer
from tests.fixtures.packages import archive, relations

SHEET = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'


def saved(book: Any) -> bytes:
    target = io.BytesIO()
    book.save(target)
    return target.getvalue()


def workbook(*rows: list[Any]) -> tuple[Any, Any]:
    book = Workbook()
    sheet: Any = book.active
    sheet.title = "Prices"
    for row in rows:
        sheet.append(row)
    return book, sheet


def read(book: Any) -> ParsedDocument:
    return parse(saved(book) if isinstance(book, Workbook) else book, XLSX, title="x")


def lines(document: ParsedDocument) -> list[str]:
    return [line for line in document.text.split("\n") if line]


def raw(sheet: str, **parts: str) -> bytes:
    """Return a workbook whose sheet has this XML."""
    return archive(
        {
            "_rels/.rels": relations({"r1": ("officeDocument", "xl/workbook.xml")}),
            "xl/workbook.xml": f'<workbook {SHEET} xmlns:r="urn:r"><sheets><sheet name="Prices" r:id="s1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations(
                {"s1": ("worksheet", "worksheets/sheet1.xml")} | {name: (name, f"{name}.xml") for name in parts}
            ),
            "xl/worksheets/sheet1.xml": f"<worksheet {SHEET}>{sheet}</worksheet>",
        }
        | {f"xl/{name}.xml": content for name, content in parts.items()}
    )


@pytest.mark.parametrize(
    ("code", "value", "shown"),
    [
        ("0.00%", 0.025, "2.50%"),
        ('"$"#,##0.00', 1599.99, "$1,599.99"),
        ('"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', -1599.99, "($1,599.99)"),
        ("#,##0.00 [$€-407]", 1234.5, "1,234.50 €"),
        ("[$CHF] #,##0", 12, "CHF 12"),
        ('_-* #,##0.00\\ "€"_-;\\-* #,##0.00\\ "€"_-;_-* "-"??\\ "€"_-;_-@_-', 0, "- €"),
        ('0" kg"', 12.4, "12 kg"),
        ("0000", 7, "0007"),
        ("0.0,,\\M", 12_345_678, "12.3M"),
        ("0.00E+00", 12345.678, "1.23E+04"),
        ("(###) ###-####", 5551234567, "(555) 123-4567"),
        ("[>=100]0;[<100]0.0", 5.25, "5.3"),
        ("#,##0.0#", 2.5, "2.5"),
        ("0.0%;-0.0%", -0.051, "-5.1%"),
        ("h:mm AM/PM", 0.2604166667, "6:15 AM"),
        ("hh:mm:ss", 0.75, "18:00:00"),
        ("[h]:mm", 1.5, "36:00"),
        ("m/d/yy", 44197, "2021-01-01"),
        ("d. mmmm yyyy", 44197, "2021-01-01"),
        ("d/m/yyyy h:mm", 42488.479166666664, "2016-04-28 11:30:00"),
        ("mmm-yy", 44197, "Jan-2021"),
        ("yyyy", 44197, "2021"),
        ("General", 0.55000000000000004, "0.55"),
        ("General", 0.1 + 0.2, "0.3"),
        ("mm:ss.000", 65.25 / 86_400, "01:05.250"),
        ("[mm]:ss.0", 4000.3 / 86_400, "66:40.3"),
        ("h:mm:ss.0", 0.96 / 86_400, "0:00:01.0"),
        ("[s].00", 1.5 / 86_400, "1.50"),
        ("yyyy-mm-dd hh:mm:ss.00", 44197.5 + 1.5 / 86_400, "2021-01-01 12:00:01.50"),
        ("ss.000000", 1.5 / 86_400, "01.500000"),
        ("yyyymmdd", 44197, "2021-01-01"),
        ("hhmm", 0.75, "1800"),
        ("yyyymmdd hhmmss", 44197.75, "2021-01-01 18:00:00"),
        ('ggge"年"', 44197, "2021-01-01"),
        ("[$-411]ge.m", 44197, "2021-01-01"),
        ("bbbb", 44197, "2021-01-01"),
        ("aaaa", 44197, "2021-01-01"),
        ("0 kg", 5, "5 kg"),
        ("0 mg", 5, "5 mg"),
        ("#,##0.0 days", 5, "5.0 days"),
        ("General kg", 5, "5 kg"),
        ("Beleg", 5, "Beleg"),
        ("# ?/?", 0.5, "0.5"),
        ("# ?/?;-# ?/?", -0.5, "-0.5"),
        ("General;-General;", -5, "-5"),
        ("General;-General;;@", -0.25, "-0.25"),
        ("General;(General)", -5, "(5)"),
        ('General" kg"', -5, "-5 kg"),
        ("m/d/yy", -1, "-1"),
        ("m/d/yy", 1e300, "1e+300"),
        ("0", float("nan"), "nan"),
        ("0" * 10_000, 1, "1".rjust(500, "0")),
    ],
)
def test_a_number_is_shown_in_its_format(code: str, value: float, shown: str) -> None:
    assert formatter(code)(float(value)) == shown


@pytest.mark.parametrize(
    "code", [*BUILT_IN.values(), ";;;", '"', "\\", "[", "[$", "0,,,,", "%%%%", "E+", "@@", "y;m;d;h;s", "'"]
)
@pytest.mark.parametrize("value", [0, 1, -1, 0.5, -123456.789, 44197.25, 1e20, 1e-20, float("inf")])
def test_no_format_fails(code: str, value: float) -> None:
    assert isinstance(formatter(code)(float(value)), str)


def test_dates_that_count_from_1904() -> None:
    assert formatter("yyyy-mm-dd", from_1904=True)(42735.0) == "2021-01-01"


def test_cells_are_shown_in_their_formats() -> None:
    book, sheet = workbook(
        ["Item", "Margin", "Price", "Opens", "Since"], ["Pump", 0.025, 1599.99, time(6, 15), date(2026, 2, 1)]
    )
    sheet["B2"].number_format, sheet["C2"].number_format, sheet["D2"].number_format = (
        "0.00%",
        '"$"#,##0.00',
        "h:mm AM/PM",
    )
    assert lines(read(book))[-1] == "Pump | 2.50% | $1,599.99 | 6:15 AM | 2026-02-01"


def test_hidden_sheets_rows_and_columns_are_not_indexed_and_the_document_says_so() -> None:
    book, sheet = workbook(["Item", "Cost", "Price"], ["Pump", 7, 9], ["Valve", 8, 10], ["Seal", 1, 2])
    sheet.column_dimensions["B"].hidden = True
    sheet.row_dimensions[3].hidden = True
    for name, state in (("Salaries", "hidden"), ("Bonus", "veryHidden")):
        other = book.create_sheet(name)
        other.append(["Ana", 90_000])
        other.sheet_state = state
    document = read(book)
    assert lines(document) == ["Prices", "Item | Price", "Pump | 9", "Seal | 2"]
    assert document.warnings == [
        "The workbook has 2 hidden sheets that are not indexed.",
        "The workbook has 1 hidden row that is not indexed.",
        "The workbook has 1 hidden column that is not indexed.",
    ]


def test_rows_and_columns_of_no_size_and_texts_in_an_empty_format_are_not_indexed() -> None:
    styles = f'<styleSheet {SHEET}><numFmts><numFmt numFmtId="200" formatCode=";;;"/><numFmt numFmtId="201" formatCode=";;;@"/></numFmts>'
    styles += '<cellXfs><xf numFmtId="200"/><xf numFmtId="201"/></cellXfs></styleSheet>'
    strings = f"<sst {SHEET}><si><t>secret</t></si></sst>"
    sheet = (
        '<cols><col min="2" max="2" width="0.0"/></cols><sheetData>'
        '<row><c t="str"><v>Item</v></c><c t="str"><v>secret</v></c><c t="str"><v>Note</v></c></row>'
        '<row ht="0"><c t="str"><v>secret</v></c></row>'
        '<row ht="12.5"><c t="str" s="1"><v>Pump</v></c><c><v>8</v></c><c t="str" s="0"><v>secret</v></c></row>'
        '<row><c t="str"><v>Valve</v></c><c/><c t="s" s="0"><v>0</v></c></row>'
        '<row><c t="str"><v>Seal</v></c><c/><c t="inlineStr" s="0"><is><t>secret</t></is></c></row></sheetData>'
    )
    document = read(raw(sheet, styles=styles, sharedStrings=strings))
    assert lines(document) == ["Prices", "Item | Note", "Pump", "Valve", "Seal"]
    assert document.warnings == [
        "The workbook has 1 hidden row that is not indexed.",
        "The workbook has 1 hidden column that is not indexed.",
        "The workbook has 3 hidden texts that are not indexed.",
    ]


X = 'xmlns:x="urn:x" xmlns:a="urn:a" xmlns:c="urn:c" xmlns:r="urn:r" xmlns:mc="urn:mc"'


def on_a_sheet(drawing: str, **charts: str) -> bytes:
    """Return a workbook with a drawing on its sheet. `charts`: XML of charts by the ids that frames refer to."""
    return archive(
        {
            "xl/workbook.xml": f'<workbook {SHEET} xmlns:r="urn:r"><sheets><sheet name="Plan" r:id="s1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations({"s1": ("worksheet", "worksheets/1.xml")}),
            "xl/worksheets/1.xml": f"<worksheet {SHEET}><sheetData/></worksheet>",
            "xl/worksheets/_rels/1.xml.rels": relations({"d": ("drawing", "../drawings/1.xml")}),
            "xl/drawings/_rels/1.xml.rels": relations({name: ("chart", f"../charts/{name}.xml") for name in charts}),
            "xl/drawings/1.xml": f"<x:wsDr {X}>{drawing}</x:wsDr>",
        }
        | {f"xl/charts/{name}.xml": content for name, content in charts.items()}
    )


def shape(text: str, hidden: str = "") -> str:
    return f"<x:sp><x:nvSpPr><x:cNvPr{hidden}/></x:nvSpPr><x:txBody><a:p><a:r><a:t>{text}</a:t></a:r></a:p></x:txBody></x:sp>"


def frame(refers: str, hidden: str = "") -> str:
    return (
        f"<x:graphicFrame><x:nvGraphicFramePr><x:cNvPr{hidden}/></x:nvGraphicFramePr>"
        f"<a:graphic><a:graphicData>{refers}</a:graphicData></a:graphic></x:graphicFrame>"
    )


def anchored(*shapes: str) -> str:
    return "".join(f"<x:twoCellAnchor>{one}</x:twoCellAnchor>" for one in shapes)


def titled(title: str) -> str:
    return f"<c:chartSpace {X}><c:title><c:tx><a:p><a:r><a:t>{title}</a:t></a:r></a:p></c:tx></c:title></c:chartSpace>"


HIDDEN = ' hidden="1"'


def test_hidden_shapes_groups_and_charts_of_a_sheet_are_not_indexed() -> None:
    group = f"<x:grpSp><x:nvGrpSpPr><x:cNvPr{HIDDEN}/></x:nvGrpSpPr>{shape('secret')}</x:grpSp>"
    chart = frame('<c:chart r:id="one"/>', HIDDEN)
    document = read(on_a_sheet(anchored(shape("secret", HIDDEN), group, chart, shape("Shown")), one=titled("secret")))
    assert lines(document) == ["Plan", "Shown"]
    assert document.warnings == ["The workbook has 3 hidden shapes that are not indexed."]


def test_shapes_and_charts_of_a_sheet_are_read_in_order() -> None:
    chart = frame('<c:chart r:id="one"/>')
    group = f"<x:grpSp><x:nvGrpSpPr><x:cNvPr/></x:nvGrpSpPr>{shape('Two')}{chart}</x:grpSp>"
    document = read(on_a_sheet(anchored(shape("One"), group, shape("Three")), one=titled("Ducks"), unused=titled("no")))
    assert lines(document) == ["Plan", "One", "Two", "Chart: Ducks", "Three"]


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("Plan!$B$1:$B$2", ["- Ducks"]),
        ("[0]!Sales", ["- Ducks"]),
        ("Data!$B$1:$B$2", ["| Ducks", "2025 | 12"]),
        ("('Ana''s data'!$B$1,'Ana''s data'!$B$3)", ["| Ducks", "2025 | 12"]),
        ("'[1]Data'!$B$1:$B$2", ["| Ducks", "2025 | 12"]),
        ("", ["| Ducks", "2025 | 12"]),
    ],
)
def test_figures_of_a_chart_that_are_on_no_sheet_that_is_read_are_shown(reference: str, expected: list[str]) -> None:
    def points(value: str, refers: str) -> str:
        cache = f"<c:numCache><c:pt idx='0'><c:v>{value}</c:v></c:pt></c:numCache>"
        return f"<c:numRef><c:f>{refers}</c:f>{cache}</c:numRef>" if refers else cache.replace("Cache", "Lit")

    series = f"<c:ser><c:tx><c:v>Ducks</c:v></c:tx><c:cat>{points('2025', '')}</c:cat><c:val>{points('12', reference)}</c:val></c:ser>"
    data = on_a_sheet(anchored(frame('<c:chart r:id="one"/>')), one=f"<c:chartSpace {X}>{series}</c:chartSpace>")
    hidden = "".join(f'<sheet name="{name}" state="hidden"/>' for name in ("Data", "Ana's data"))
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    parts["xl/workbook.xml"] = parts["xl/workbook.xml"].replace(b"</sheets>", f"{hidden}</sheets>".encode())
    assert lines(read(archive(parts))) == ["Plan", *expected]


@pytest.mark.parametrize("hidden", ["", HIDDEN])
def test_what_stands_for_a_newer_chart_in_older_programs_is_not_indexed(hidden: str) -> None:
    chart = frame('<c:chart r:id="one"/>', hidden)
    both = (
        f'<mc:AlternateContent><mc:Choice Requires="cx1">{chart}</mc:Choice>'
        f"<mc:Fallback>{shape('not available in your version')}</mc:Fallback></mc:AlternateContent>"
    )
    document = read(on_a_sheet(anchored(both, shape("Shown")), one=titled("Ducks")))
    assert lines(document) == ["Plan", *([] if hidden else ["Chart: Ducks"]), "Shown"]


def test_a_formula_without_a_stored_result_is_shown_itself() -> None:
    book, _ = workbook(["Item", "Price"], ["Pump", 9], ["Sum", "=SUM(B2:B2)"])
    document = read(book)
    assert lines(document)[-1] == "Sum | =SUM(B2:B2)"
    assert document.warnings == ["The workbook has 1 formula that is stored without a result: the formula is shown."]
    stored = raw('<sheetData><row r="1"><c r="A1"><f>SUM(1,2)</f><v>3</v></c></row></sheetData>')
    assert read(stored).warnings == []
    assert lines(read(stored))[-1] == "3"


@pytest.mark.parametrize("result", ["<v></v>", "<v/>"])
def test_a_formula_whose_result_is_empty_shows_nothing(result: str) -> None:
    cells = f'<c t="str"><v>Pump</v></c><c t="str"><f>IF(A1=0,"none","")</f>{result}</c>'
    document = read(raw(f'<sheetData><row><c t="str"><v>Item</v></c></row><row>{cells}</row></sheetData>'))
    assert (lines(document), document.warnings) == (["Prices", "Item", "Pump"], [])


def test_titles_stay_above_the_header() -> None:
    book, _ = workbook(
        ["Price list 2026"], ["In euros", None], ["Item", "Price", "Since"], ["Pump", 9, 2024], ["Valve", 10, 2025]
    )
    document = read(book)
    kinds = [(block.kind, block.row_start, document.text[block.start : block.end]) for block in document.blocks]
    assert kinds == [
        ("heading", None, "Prices"),
        ("paragraph", None, "Price list 2026"),
        ("paragraph", None, "In euros"),
        ("table", 0, "Item | Price | Since"),
        ("table", 1, "Pump | 9 | 2024\nValve | 10 | 2025"),
    ]


def test_several_tables_on_a_sheet_have_their_own_headers() -> None:
    book, _ = workbook(
        ["Sales"], ["City", "2024", "2025"], ["Rome", 1, 2], [], ["Staff"], ["Name", "Age"], ["Ana", 40], [], ["Ben", 41]
    )  # fmt: skip
    found = lines(read(book))
    assert found == [
        "Prices",
        "Sales",
        "City | 2024 | 2025",
        "Rome | 1 | 2",
        "Staff",
        "Name | Age",
        "Ana | 40",
        "-",
        "Ben | 41",
    ]


def test_years_may_be_in_a_header() -> None:
    book, _ = workbook(["Segment", 2024, 2025], ["Coffee", 12.5, 13.75])
    document = read(book)
    assert document.blocks[1].row_start == 0
    book, _ = workbook(["Ana", 1990], ["Ben", 1991])
    assert read(book).blocks[1].row_start == 1


@pytest.mark.parametrize("width", [2, 8, 15])
def test_every_chunk_of_a_table_begins_with_its_header(width: int) -> None:
    header = [f"Column {number}" for number in range(width)]
    book, _ = workbook(header, *([row * 1.37 + column for column in range(width)] for row in range(300)))
    document = read(book)
    first = " | ".join(header)
    for one in chunk(document, tokenizer(), resolve("auto", 256)):
        assert first in one.text.split("\n"), one.text[:200]


def test_comments_name_their_cell_and_author() -> None:
    book, sheet = workbook(["Item", "Price"], ["Pump", 9])
    sheet["B2"].comment = Comment("Ana Ruiz:\nToo low.", "Ana Ruiz")
    assert lines(read(book))[-1] == "Comment on B2 by Ana Ruiz: Too low."


@pytest.mark.parametrize("text", ["[Threaded comment]\n\nYour version", "[Kommentarthread]\n\nIhre Version"])
def test_a_comment_with_replies_is_read_once(text: str) -> None:
    book, sheet = workbook(["Item"], ["Pump"])
    sheet["A2"].comment = Comment(text, "tc={4C21A9F5-1F4A-4E2B-9E3B-0B2D1C3E5A77}")
    sheet["A1"].comment = Comment("hums", "Ana")
    document = read(book)
    assert [line for line in lines(document) if "Comment" in line] == ["Comment on A1 by Ana: hums"]


def test_comments_on_hidden_cells_are_not_indexed() -> None:
    book, sheet = workbook(["Item", "Salary", "Note"], ["Ada", 5000, "a"], ["Bob", 4000, "b"], ["Cy", 3000, "c"])
    sheet.column_dimensions["B"].hidden = True
    sheet.row_dimensions[3].hidden = True
    for place in ("A2", "B2", "A3", "C4"):
        sheet[place].comment = Comment(f"Said of {place}.", "Ana")
    said = [line for line in lines(read(book)) if line.startswith("Comment")]
    assert said == ["Comment on A2 by Ana: Said of A2.", "Comment on C4 by Ana: Said of C4."]


def test_charts_are_named_and_their_figures_are_not_repeated() -> None:
    book, sheet = workbook(["Year", "Ducks"], [2024, 12], [2025, 15])
    chart = BarChart()
    chart.title = "Ducks by year"
    chart.add_data(Reference(sheet, min_col=2, min_row=1, max_row=3), titles_from_data=True)
    sheet.add_chart(chart, "D2")
    assert "Chart: Ducks by year" in lines(read(book))


@pytest.mark.parametrize(("old", "new"), [("/", "\\"), ("xl/", "")])
def test_parts_in_unusual_places(old: str, new: str) -> None:
    with zipfile.ZipFile(io.BytesIO(raw('<sheetData><row r="1"><c r="A1"><v>42</v></c></row></sheetData>'))) as file:
        parts = {
            name.replace(old, new): file.read(name).replace(b"xl/", b"" if not new else b"xl/")
            for name in file.namelist()
        }
    assert lines(read(archive(parts))) == ["Prices", "42"]


def test_a_sheet_that_has_only_a_shape_and_a_diagram() -> None:
    data = archive(
        {
            "xl/workbook.xml": f'<workbook {SHEET} xmlns:r="urn:r"><sheets><sheet name="Plan" r:id="s1"/></sheets></workbook>',
            "xl/_rels/workbook.xml.rels": relations({"s1": ("worksheet", "worksheets/1.xml")}),
            "xl/worksheets/1.xml": f"<worksheet {SHEET}><sheetData/></worksheet>",
            "xl/worksheets/_rels/1.xml.rels": relations({"d": ("drawing", "../drawings/1.xml")}),
            "xl/drawings/_rels/1.xml.rels": relations({"g": ("diagramData", "../diagrams/data1.xml")}),
            "xl/diagrams/data1.xml": '<x:dataModel xmlns:x="urn:x" xmlns:a="urn:a"><x:pt><x:t><a:p><a:r><a:t>In a diagram</a:t></a:r>'
            "</a:p></x:t></x:pt></x:dataModel>",
            "xl/drawings/1.xml": '<x:wsDr xmlns:x="urn:x" xmlns:a="urn:a" xmlns:r="urn:r"><x:sp><x:txBody><a:p><a:r><a:t>Some text'
            '</a:t></a:r></a:p></x:txBody></x:sp><x:graphicFrame><x:relIds r:dm="g"/></x:graphicFrame></x:wsDr>',
        }
    )
    assert lines(read(data)) == ["Plan", "Some text", "- In a diagram"]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        ('<c t="inlineStr"><is><t>a</t><r><t>b</t></r><rPh><t>no</t></rPh></is></c>', "ab"),
        ('<c t="str"><v>line_x000D__x0041_</v></c>', "line A"),
        ('<c t="b"><v>1</v></c>', "TRUE"),
        ('<c t="e"><v>#N/A</v></c>', "#N/A"),
        ('<c t="s"><v>99</v></c><c t="inlineStr"><is><t>x</t></is></c>', "| x"),
        ('<c s="99999999999999999999"><v>1.5</v></c>', "1.5"),
        ("<c><v>not a number</v></c>", "not a number"),
        ('<c r="B1"><v>2</v></c><c><v>3</v></c>', "| 2 | 3"),
        ('<c r="ZZZZZZ1"><v>2</v></c><c r="A1"><v>3</v></c>', None),
    ],
)
def test_cells_of_all_kinds(cell: str, text: str | None) -> None:
    found = read(raw(f'<sheetData><row r="1">{cell}</row><row><c><v>7</v></c></row></sheetData>'))
    assert text is None or lines(found)[1] == text


def test_hidden_columns_by_the_thousand_take_no_time() -> None:
    columns = '<col min="1" max="16384" hidden="1"/>' * 20_000
    rows = '<row><c r="A1"><v>1</v></c></row>' * 1000
    with pytest.raises(Exception, match="no text"):
        read(raw(f"<cols>{columns}</cols><sheetData>{rows}</sheetData>"))


def test_a_damaged_part_beside_the_cells_is_named_in_a_warning() -> None:
    book, page = workbook(["Part", "Price"], ["Pump", 12])
    page["A2"].comment = Comment("hums", "Ana")
    with zipfile.ZipFile(io.BytesIO(saved(book))) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    parts |= {name: b"<a><b>" for name in parts if "comment" in name.lower() and name.endswith(".xml")}
    document = parse(archive(parts | {"docProps/core.xml": b"<a>A & B</a>"}), XLSX, title="x")
    assert "Pump | 12" in document.text
    assert len(document.warnings) == 2


def test_a_text_merged_over_rows_is_in_each_of_them() -> None:
    book, sheet = workbook(
        ["Region", "City"], ["North", "Oslo"], [None, "Bergen"], [None, None], ["South", "Rome"], ["A note"]
    )
    for place in ("A2:A4", "A6:B9"):
        sheet.merge_cells(place)
    assert lines(read(book)) == [
        "Prices",
        "Region | City",
        "North | Oslo",
        "North | Bergen",
        "-",
        "South | Rome",
        "A note",
    ]


def test_a_header_of_two_rows_is_joined() -> None:
    book, sheet = workbook(
        ["Sales by region"],
        ["Region", 2023, None, 2024],
        [None, "Plan", "Actual", "Plan", "Actual"],
        ["North", 1, 2, 3, 4],
    )
    for place in ("A1:E1", "A2:A3", "B2:C2", "D2:E2"):
        sheet.merge_cells(place)
    assert lines(read(book)) == [
        "Prices", "Sales by region", "Region | 2023 Plan | 2023 Actual | 2024 Plan | 2024 Actual", "North | 1 | 2 | 3 | 4",
    ]  # fmt: skip


def test_texts_merged_in_hidden_rows_and_columns_are_not_repeated() -> None:
    book, sheet = workbook(
        ["Item", "Pay", "Cost"], ["Pump", "secret", 7], ["Valve", None, 8], ["secret", "x", 9], [None, "y", 10]
    )
    for place in ("B2:B3", "A4:A5"):
        sheet.merge_cells(place)
    sheet.column_dimensions["B"].hidden = True
    sheet.row_dimensions[4].hidden = True
    assert lines(read(book)) == ["Prices", "Item | Cost", "Pump | 7", "Valve | 8", "| 10"]


def test_texts_merged_over_many_rows_are_repeated_up_to_a_bound_and_all_rows_are_read() -> None:
    text, rows = "x" * 200, "<row><c><v>1</v></c></row>" * 20_000
    first = "<c><v>1</v></c>" + f'<c t="str"><v>{text}</v></c>' * 100
    merges = "".join(
        f'<mergeCell ref="{get_column_letter(column)}1:{get_column_letter(column)}20001"/>' for column in range(2, 102)
    )
    document = read(raw(f"<sheetData><row>{first}</row>{rows}</sheetData><mergeCells>{merges}</mergeCells>"))
    assert document.text.count(text) == 100 + COPIES // len(text)
    assert len(lines(document)) == 20_002


@pytest.mark.parametrize("merged", ["A1:XFD1", "A1:XFD1048576", "A1:A1048576", "B9:A1", "A1", "ZZZ9999999:ZZZ9999999"])
def test_merged_cells_by_the_thousand_take_no_time(merged: str) -> None:
    merges = f'<mergeCells>{f"""<mergeCell ref="{merged}"/>""" * 50_000}</mergeCells>'
    rows = '<row><c t="str"><v>a</v></c><c><v>1</v></c></row>' * 3
    assert lines(read(raw(f"<sheetData>{rows}</sheetData>{merges}")))[1:] == ["a | 1"] * 3
