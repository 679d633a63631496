"""Word and PowerPoint files as people write them: changes, forms, notes, comments, text boxes, numbers, charts and diagrams."""

import io
import zipfile
from collections.abc import Mapping

import pytest

from assets.stages.parse import parse
from assets.stages.parse.alt_text import described
from assets.stages.parse.marks import raised
from assets.stages.parse.numbering import numeral
from resources.core.domain import ParsedDocument
from resources.core.errors import SkipDocumentError
from resources.core.filetypes import DOCX, PPTX
from tests.fixtures.packages import R, archive, relations

W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
A = "http://schemas.openxmlformats.org/drawingml/2006/main"
SPACES = (
    f'xmlns:r="{R}" xmlns:a="{A}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
    'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" xmlns:wps="urn:wps" xmlns:v="urn:schemas-microsoft-com:vml" '
    'xmlns:c="http://schemas.openxmlformats.org/drawingml/2006/chart" xmlns:dgm="urn:dgm" xmlns:w14="urn:w14" xmlns:wp="urn:wp"'
)
CHART = (
    f"<c:chartSpace {SPACES}><c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Ducks by year</a:t></a:r></a:p></c:rich></c:tx></c:title>"
    "<c:plotArea><c:barChart><c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>Mallards</c:v></c:pt></c:strCache></c:strRef></c:tx>"
    "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>2024</c:v></c:pt><c:pt idx='1'><c:v>2025</c:v></c:pt></c:strCache></c:strRef></c:cat>"
    "<c:val><c:numRef><c:numCache><c:pt idx='0'><c:v>12</c:v></c:pt><c:pt idx='1'><c:v>15</c:v></c:pt></c:numCache></c:numRef></c:val>"
    "</c:ser></c:barChart></c:plotArea></c:chart></c:chartSpace>"
)
POINT = "<dgm:pt><dgm:t><a:p><a:r><a:t>President</a:t></a:r></a:p></dgm:t></dgm:pt>"
DIAGRAM = f"<dgm:dataModel {SPACES}><dgm:ptLst>{POINT}</dgm:ptLst></dgm:dataModel>"


def docx(body: str, parts: Mapping[str, str | bytes] | None = None, *, space: str = W) -> bytes:
    """Return a Word file. `parts`: by their name in `word/`; each is also a relation whose kind and id are its stem."""
    parts = parts or {}
    kinds = {name.split(".")[0]: name for name in parts}
    return archive(
        {
            "_rels/.rels": relations(
                {"r1": ("officeDocument", "word/document.xml")},
                space.replace("wordprocessingml/main", "officeDocument/relationships"),
            ),
            "word/document.xml": f'<w:document xmlns:w="{space}" {SPACES}><w:body>{body}</w:body></w:document>',
            "word/_rels/document.xml.rels": relations({kind: (kind, name) for kind, name in kinds.items()}),
        }
        | {f"word/{name}": content for name, content in parts.items()}
    )


def part(name: str, content: str) -> str:
    return f'<w:{name} xmlns:w="{W}" {SPACES}>{content}</w:{name}>'


def run(text: str, properties: str = "") -> str:
    return f'<w:r>{f"<w:rPr>{properties}</w:rPr>" if properties else ""}<w:t xml:space="preserve">{text}</w:t></w:r>'


def line(content: str, properties: str = "") -> str:
    return f"<w:p>{f'<w:pPr>{properties}</w:pPr>' if properties else ''}{content}</w:p>"


def read(data: bytes, kind: str = DOCX) -> ParsedDocument:
    return parse(data, kind, title="x")


def shown(document: ParsedDocument) -> list[tuple[str, str]]:
    return [(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def text(body: str, parts: Mapping[str, str | bytes] | None = None) -> str:
    return read(docx(body, parts)).text


def ticked(value: int) -> str:
    properties = f"<w:sdtPr><w14:checkbox><w14:checked w14:val='{value}'/></w14:checkbox></w:sdtPr>"
    return f"<w:sdt>{properties}<w:sdtContent/></w:sdt>"


def control(content: str) -> str:
    return f"<w:sdt><w:sdtPr/><w:sdtContent>{content}</w:sdtContent></w:sdt>"


def form(content: str) -> str:
    return f"<w:r><w:fldChar><w:ffData>{content}</w:ffData></w:fldChar></w:r>"


def maths(name: str, **parts: str) -> str:
    content = "".join(f"<m:{part}><m:r><m:t>{text}</m:t></m:r></m:{part}>" for part, text in parts.items())
    return f"<m:oMath><m:{name}>{content}</m:{name}></m:oMath>"


def mark(kind: str) -> str:
    return f"<w:r><w:fldChar w:fldCharType='{kind}'/></w:r>"


CHANGED = f"{run('The limit is ')}<w:ins>{run('600')}</w:ins><w:del><w:r><w:delText>500</w:delText></w:r></w:del>{run(' EUR.')}"
FIELD = "<w:r><w:fldChar w:fldCharType='begin'/></w:r><w:r><w:instrText>HYPERLINK</w:instrText></w:r>"
CHOICE = "<w:ddList><w:result w:val='1'/><w:listEntry w:val='red'/><w:listEntry w:val='blue'/></w:ddList>"
UP, DOWN = "<w:vertAlign w:val='superscript'/>", "<w:vertAlign w:val='subscript'/>"
SYMBOL = "<w:r><w:sym w:font='Symbol' w:char='{}'/></w:r>"
IN_SYMBOL = "<w:rFonts w:ascii='Symbol' w:hAnsi='Symbol'/>"
IN_WINGDINGS = "<w:rFonts w:ascii='Wingdings' w:hAnsi='Wingdings'/>"
CODE = "<w:r><w:instrText>IF</w:instrText></w:r>"
STRUCK = "<w:strike/>"
INLINE = {
    "insertion": (CHANGED, "The limit is 600 EUR."),
    "move": (f"<w:moveTo>{run('here')}</w:moveTo><w:moveFrom>{run('there')}</w:moveFrom>", "here"),
    "insertion in a link": (f"<w:hyperlink><w:ins>{run('our terms')}</w:ins></w:hyperlink>", "our terms"),
    "smart tags": (
        f"<w:smartTag>{run('King of ')}<w:smartTag>{run('Egypt')}</w:smartTag></w:smartTag>",
        "King of Egypt",
    ),
    "content control": (control(control(run("Ana Ruiz"))), "Ana Ruiz"),
    "custom xml": (f"<w:customXml>{run('Rome')}</w:customXml>", "Rome"),
    "simple field": (f'<w:fldSimple w:instr="DATE">{run("2 May")}</w:fldSimple>', "2 May"),
    "field": (FIELD + run("site"), "site"),
    "field in the code of another": (
        run("Dear ")
        + mark("begin")
        + CODE
        + mark("begin")
        + CODE
        + mark("separate")
        + run("M")
        + mark("end")
        + CODE
        + mark("separate")
        + run("Ms")
        + mark("end")
        + run(" Day"),
        "Dear Ms Day",
    ),
    "field in the result of another": (
        mark("begin")
        + CODE
        + mark("separate")
        + run("a")
        + mark("begin")
        + CODE
        + mark("separate")
        + run("b")
        + mark("end")
        + run("c")
        + mark("end"),
        "abc",
    ),
    "field without a result": (run("a") + mark("begin") + CODE + run("x") + mark("end") + run("b"), "ab"),
    "text in a code": (
        mark("begin") + run("IF x") + SYMBOL.format("F0B1") + mark("separate") + run("y") + mark("end"),
        "y",
    ),
    "fields without an end": (
        mark("begin") + run("a") + mark("begin") + run("b") + mark("end") + mark("end") * 2 + run("c"),
        "c",
    ),
    "field that never ends": (
        mark("begin") + run("a") + mark("begin") + CODE + run("x") + mark("end") + run("b"),
        "ab",
    ),
    "struck": (run("Price ") + run("500", STRUCK) + run("600 EUR"), "Price 500 600 EUR"),
    "struck twice": (run("50", STRUCK) + run("0", "<w:dstrike/>") + run("600"), "500 600"),
    "struck and apart": (
        run("500", STRUCK) + run(" EUR, ") + run("x", STRUCK) + run(", y") + run("z", STRUCK),
        "500 EUR, x, yz",
    ),
    "not struck": (run("50", "<w:strike w:val='0'/>") + run("0"), "500"),
    "ticked": (ticked(1) + run(" yes"), "☒ yes"),
    "not ticked": (ticked(0) + run(" no"), "☐ no"),
    "old box": (form("<w:checkBox><w:default w:val='0'/><w:checked/></w:checkBox>") + run(" yes"), "☒ yes"),
    "old list": (form(CHOICE), "blue"),
    "symbol": ("<w:r><w:sym w:font='Wingdings' w:char='F0FE'/></w:r>" + run(" yes"), "☒ yes"),
    "arrow": (run("A ") + "<w:r><w:sym w:font='Wingdings' w:char='F0E0'/></w:r>" + run(" B"), "A → B"),
    "arrow without an offset": (run("A ") + "<w:r><w:sym w:font='Wingdings' w:char='E0'/></w:r>" + run(" B"), "A → B"),
    "picture": ("<w:r><w:sym w:font='Wingdings 2' w:char='E0'/></w:r>" + run("a"), "a"),
    "words in Wingdings": (run("Text box options", IN_WINGDINGS), "Text box options"),
    "text in Wingdings": (
        run("A ") + run("\uf0dfà\uf021", IN_WINGDINGS) + run(" B ") + run("J", IN_WINGDINGS),
        "A ←→ B ☺",
    ),
    "characters of Symbol": (
        run("5 ")
        + SYMBOL.format("F0B1")
        + run("0.2; age ")
        + SYMBOL.format("F0B3")
        + run("18; ")
        + SYMBOL.format("61")
        + run("-ray"),
        "5 ±0.2; age ≥18; α-ray",
    ),
    "text in Symbol": (run("\uf0a3 5 mg", IN_SYMBOL), "≤ 5 \u00b5γ"),
    "large number as a symbol": (SYMBOL.format("FFFFFFFFFF") + run("x"), "x"),
    "tab and break": ("<w:r><w:t>a</w:t><w:tab/><w:t>b</w:t><w:br/><w:t>c</w:t></w:r>", "a b\nc"),
    "hyphen": ("<w:r><w:t>e</w:t><w:noBreakHyphen/><w:t>mail</w:t></w:r>", "e-mail"),
    "ruby": (
        f"<w:r><w:ruby><w:rt>{run('とう')}</w:rt><w:rubyBase>{run('東')}</w:rubyBase></w:ruby></w:r>{run('京')}",
        "東京",
    ),
    "formula": (run("so ") + maths("sSup", e="E=mc", sup="2"), "so E=mc2"),
    "fraction": (maths("f", num="a+1", den="b"), "(a+1)/b"),
    "power": (maths("sSup", e="10", sup="-4"), "10^-4"),
    "mark": (run("4.2") + run("1", UP) + run(" million"), "4.2 [1] million"),
    "unit": (run("40 m") + run("2", UP), "40 m²"),
    "water": (run("H") + run("2", DOWN) + run("O"), "H2O"),
}


@pytest.mark.parametrize(("content", "expected"), INLINE.values(), ids=INLINE)
def test_a_paragraph_is_what_word_shows(content: str, expected: str) -> None:
    assert text(line(content)) == expected


@pytest.mark.parametrize(("content", "expected"), INLINE.values(), ids=INLINE)
def test_a_cell_is_what_word_shows(content: str, expected: str) -> None:
    cells = f"<w:tc>{line(content)}</w:tc><w:tc>{line(run('next'))}</w:tc>"
    assert text(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>") == f"{' '.join(expected.split())} | next"


@pytest.mark.parametrize(
    ("before", "mark", "expected"),
    [
        ("4.2", "1", " [1]"),
        ("profit", "12", " [12]"),
        ("Ltd.", "3", " [3]"),
        ("1,000", "*", " [*]"),
        ("10", "6", "^6"),
        ("3.2×10", "-9", "^-9"),
        ("m", "2", "²"),
        ("(note)", "2", " [2]"),
        ("1", "st", "st"),
        ("Acme", "TM", "TM"),
        ("", "1", "1"),
        ("see ", "1", "1"),
    ],
)
def test_a_mark_stays_apart_and_a_power_readable(before: str, mark: str, expected: str) -> None:
    assert raised(before, mark) == expected


def test_a_strict_document() -> None:
    assert read(docx(line(run("Some text")), space=STRICT)).text == "Some text"


def test_paragraphs_that_continue_each_other() -> None:
    drop = line(run("O"), "<w:framePr w:dropCap='drop'/>")
    assert text(drop + line(run("nce upon a time."))) == "Once upon a time."
    merged = line(run("It ") + f"<w:del>{run('not')}</w:del>", "<w:rPr><w:del/></w:rPr>")
    assert text(merged + line(run("hums."))) == "It hums."


def test_deleted_rows_and_cells_are_gone() -> None:
    row = "<w:tr>{0}<w:tc>{1}</w:tc><w:tc>{2}</w:tc></w:tr>"
    rows = [("", "a", "b"), ("<w:trPr><w:del/></w:trPr>", "gone", "gone"), ("<w:trPr><w:ins/></w:trPr>", "c", "d")]
    body = "".join(row.format(head, line(run(one)), line(run(two))) for head, one, two in rows)
    assert text(f"<w:tbl>{body}</w:tbl>") == "a | b\nc | d"


def test_controls_around_rows_and_cells() -> None:
    cell = "<w:tc>{}</w:tc>"
    inner = f"<w:sdt><w:sdtContent>{cell.format(line(run('b')))}</w:sdtContent></w:sdt>"
    row = f"<w:sdt><w:sdtContent><w:tr>{cell.format(line(run('a')))}{inner}</w:tr></w:sdtContent></w:sdt>"
    assert text(f"<w:sdt><w:sdtContent><w:tbl>{row}</w:tbl></w:sdtContent></w:sdt>") == "a | b"


def test_notes_follow_the_paragraph_that_refers_to_them() -> None:
    notes = {
        "footnotes.xml": part("footnotes", f"<w:footnote w:id='2'>{line(run('Without tax.'))}</w:footnote>"),
        "endnotes.xml": part("endnotes", f"<w:endnote w:id='2'>{line(run('See annex.'))}</w:endnote>"),
    }
    body = line(run("4.2") + "<w:r><w:footnoteReference w:id='2'/></w:r>" + run(" million"))
    body += line(run("More.") + "<w:r><w:endnoteReference w:id='2'/></w:r>") + line(run("End."))
    assert text(body, notes).split("\n\n") == [
        "4.2 [1] million",
        "[1] Without tax.",
        "More. [i]",
        "[i] See annex.",
        "End.",
    ]


def test_a_note_with_a_mark_of_its_own_has_no_number() -> None:
    notes = "".join(
        f"<w:footnote w:id='{n}'>{line(run(one))}</w:footnote>" for n, one in ((1, "* Without tax."), (2, "See annex."))
    )
    own = f"<w:r><w:footnoteReference w:id='1' w:customMarkFollows='1'/></w:r>{run('*', UP)}"
    body = line(run("4.2") + own) + line(run("More.") + "<w:r><w:footnoteReference w:id='2'/></w:r>")
    assert text(body, {"footnotes.xml": part("footnotes", notes)}).split("\n\n") == [
        "4.2 [*]", "* Without tax.", "More. [1]", "[1] See annex.",
    ]  # fmt: skip


def test_comments_name_their_author() -> None:
    comments = part("comments", f"<w:comment w:id='0' w:author='Ana Ruiz'>{line(run('Too low.'))}</w:comment>")
    body = line(run("500 EUR") + "<w:r><w:commentReference w:id='0'/></w:r>") + line(run("End."))
    assert text(body, {"comments.xml": comments}) == "500 EUR\n\nComment by Ana Ruiz: Too low.\n\nEnd."


def box(content: str) -> str:
    return f"<wps:txbx><w:txbxContent>{content}</w:txbxContent></wps:txbx>"


@pytest.mark.parametrize(
    "drawing",
    [
        f"<w:drawing>{box(line(run('In a box')))}</w:drawing>",
        f"<mc:AlternateContent><mc:Choice><w:drawing>{box(line(run('In a box')))}</w:drawing></mc:Choice><mc:Fallback><w:pict>"
        f"{box(line(run('In a box')))}</w:pict></mc:Fallback></mc:AlternateContent>",
        f"<mc:AlternateContent><mc:Choice><w:drawing/></mc:Choice><mc:Fallback><w:pict>{box(line(run('In a box')))}</w:pict>"
        "</mc:Fallback></mc:AlternateContent>",
        f"<w:drawing>{box('<w:sdt><w:sdtContent>' + line(run('In a box')) + '</w:sdtContent></w:sdt>')}</w:drawing>",
        "<w:pict><v:textpath string='In a box'/></w:pict>",
    ],
)
def test_text_boxes_are_read_once(drawing: str) -> None:
    assert text(line(run("Before.") + f"<w:r>{drawing}</w:r>") + line(run("After."))) == "Before.\n\nIn a box\n\nAfter."


def test_charts_diagrams_and_descriptions_of_pictures() -> None:
    drawing = "<w:r><w:drawing>{}</w:drawing></w:r>"
    body = line(drawing.format("<c:chart r:id='chart'/>")) + line(drawing.format("<dgm:relIds r:dm='diagram'/>"))
    body += line(drawing.format("<wp:docPr id='1' descr='A map of Rome'/>"))
    found = shown(read(docx(body, {"chart.xml": CHART, "diagram.xml": DIAGRAM})))
    assert found == [
        ("paragraph", "Chart: Ducks by year"),
        ("table", "| Mallards\n2024 | 12\n2025 | 15"),
        ("list", "- President"),
        ("paragraph", "Picture: A map of Rome"),
    ]


def test_a_chart_in_a_text_box_follows_its_paragraph() -> None:
    inner = line(run("Above.") + "<w:r><w:drawing><c:chart r:id='chart'/></w:drawing></w:r>") + line(run("Below."))
    found = shown(read(docx(line(f"<w:r><w:drawing>{box(inner)}</w:drawing></w:r>"), {"chart.xml": CHART})))
    assert [one for _, one in found] == ["Above.", "Chart: Ducks by year", "| Mallards\n2024 | 12\n2025 | 15", "Below."]


@pytest.mark.parametrize(
    ("description", "shown_text"),
    [
        ("Electricity generated by wind,\nin TWh", "Electricity generated by wind, in TWh"),
        ("See logo.png for the colours", "See logo.png for the colours"),
        ("C:\\Users\\ana\\AppData\\Local\\Content.IE5\\MC900438451[1].jpg", ""),
        ("Team photo.JPG", ""),
        ("A graph of a company. Description automatically generated", ""),
        ("Ein Bild, das Text enthält.\n\nAutomatisch generierte Beschreibung", ""),
        ("Une image contenant texte\n\nDescription générée automatiquement", ""),
        ("Eine Tabelle. KI-generierte Inhalte können fehlerhaft sein.", ""),
        (None, ""),
    ],
)
def test_a_picture_is_described_by_people_only(description: str | None, shown_text: str) -> None:
    assert described(description) == shown_text


def test_figures_of_a_chart_are_shown_in_their_formats() -> None:
    def cache(code: str, *values: str) -> str:
        points = "".join(f"<c:pt idx='{place}'><c:v>{value}</c:v></c:pt>" for place, value in enumerate(values))
        return f"<c:numRef><c:numCache><c:formatCode>{code}</c:formatCode>{points}</c:numCache></c:numRef>"

    series = "".join(
        f"<c:ser><c:cat>{cache('m/d/yyyy', '45292', '45323')}</c:cat><c:val>{cache(code, *values)}</c:val></c:ser>"
        for code, values in (("General", ("4.4000000000000004", "none")), ("0%", ("0.25", "1")))
    )
    part = f"<c:chartSpace {SPACES}>{{}}<c:chart>{series}</c:chart></c:chartSpace>"
    body = line("<w:r><w:drawing><c:chart r:id='chart'/></w:drawing></w:r>")
    assert text(body, {"chart.xml": part.format("")}).split("\n")[-2:] == [
        "2024-01-01 | 4.4 | 25%",
        "2024-02-01 | none | 100%",
    ]
    assert "2028-01-02 | 4.4 | 25%" in text(body, {"chart.xml": part.format("<c:date1904 val='1'/>")})


def test_series_that_are_filtered_out_of_a_chart_are_not_indexed() -> None:
    series = "<c:ser><c:tx><c:v>{0}</c:v></c:tx><c:val><c:numLit><c:pt idx='0'><c:v>{1}</c:v></c:pt></c:numLit></c:val></c:ser>"
    filtered = f"<x:filteredBarSeries xmlns:x='urn:x'>{series.format('Pay', 90_000)}</x:filteredBarSeries>"
    filtered = f"<c:extLst><c:ext>{filtered}</c:ext></c:extLst>"
    part = f"<c:chartSpace {SPACES}><c:chart>{series.format('Ducks', 12)}{filtered}</c:chart></c:chartSpace>"
    assert (
        text(line("<w:r><w:drawing><c:chart r:id='chart'/></w:drawing></w:r>"), {"chart.xml": part}) == "| Ducks\n| 12"
    )


def test_documents_of_other_formats_within_one() -> None:
    parts: dict[str, str | bytes] = {
        "page.html": "<p>Simple <b>page</b></p><table><tr><td>ROW 1</td><td>w</td></tr><tr><td>ROW 2</td><td>x</td></tr></table>",
        "inner.docx": docx(line(run("Inner text."))),
    }
    body = "<w:altChunk r:id='page'/><w:altChunk r:id='inner'/><w:altChunk r:id='nothing'/>"
    assert text(body, parts) == "Simple page\n\nROW 1 | w\nROW 2 | x\n\nInner text."


NUMBERING = part(
    "numbering",
    "<w:abstractNum w:abstractNumId='0'>"
    + "".join(
        f"<w:lvl w:ilvl='{level}'><w:start w:val='1'/><w:numFmt w:val='{form}'/>{style}<w:lvlText w:val='{shape}'/></w:lvl>"
        for level, form, shape, style in [
            (0, "decimal", "%1", "<w:pStyle w:val='h1'/>"),
            (1, "decimal", "%1.%2", "<w:pStyle w:val='h2'/>"),
            (2, "lowerLetter", "(%3)", ""),
        ]
    )
    + "</w:abstractNum><w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='0'><w:start w:val='3'/><w:numFmt w:val='upperRoman'/>"
    "<w:lvlText w:val='Article %1.'/></w:lvl></w:abstractNum><w:abstractNum w:abstractNumId='2'><w:lvl w:ilvl='0'>"
    "<w:numFmt w:val='bullet'/><w:lvlText w:val='·'/></w:lvl></w:abstractNum>"
    "<w:num w:numId='1'><w:abstractNumId w:val='0'/></w:num><w:num w:numId='2'><w:abstractNumId w:val='1'/></w:num>"
    "<w:num w:numId='3'><w:abstractNumId w:val='2'/></w:num><w:num w:numId='4'><w:abstractNumId w:val='1'/>"
    "<w:lvlOverride w:ilvl='0'><w:startOverride w:val='1'/></w:lvlOverride></w:num>",
)
STYLES = part(
    "styles",
    "".join(
        f"<w:style w:type='paragraph' w:styleId='h{level}'><w:name w:val='heading {level}'/>"
        "<w:pPr><w:numPr><w:numId w:val='1'/></w:numPr></w:pPr></w:style>"
        for level in (1, 2)
    )
    + "<w:style w:type='paragraph' w:styleId='own'><w:name w:val='Klausel'/><w:basedOn w:val='h2'/></w:style>",
)


def item(content: str, list_id: int, level: int = 0) -> str:
    return line(run(content), f"<w:numPr><w:ilvl w:val='{level}'/><w:numId w:val='{list_id}'/></w:numPr>")


def test_headings_and_items_have_the_numbers_that_word_shows() -> None:
    def heading(content: str, style: str) -> str:
        return line(run(content), f"<w:pStyle w:val='{style}'/>")

    body = heading("Scope", "h1") + heading("Terms", "h2") + heading("Liability", "own") + item("first", 1, 2)
    body += item("second", 1, 2) + heading("Law", "h1") + heading("Courts", "h2") + item("third", 1, 2)
    document = read(docx(body, {"numbering.xml": NUMBERING, "styles.xml": STYLES}))
    assert [line for _, found in shown(document) for line in found.split("\n")] == [
        "1 Scope", "1.1 Terms", "1.2 Liability", "    (a) first", "    (b) second", "2 Law", "2.1 Courts", "    (a) third",
    ]  # fmt: skip
    assert document.blocks[3].section_path == ("1 Scope", "1.2 Liability")


def test_lists_start_where_they_say_and_bullets_have_no_numbers() -> None:
    body = item("three", 2) + item("four", 2) + item("again", 4) + item("bullet", 3) + item("none", 0) + item("odd", 99)
    assert text(body, {"numbering.xml": NUMBERING}).split("\n") == [
        "Article III. three", "Article IV. four", "Article I. again", "- bullet", "", "none", "", "- odd",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("count", "form", "expected"),
    [
        (4, "lowerRoman", "iv"),
        (1999, "upperRoman", "MCMXCIX"),
        (28, "upperLetter", "BB"),
        (5, "decimalZero", "05"),
        (7, "chicago", "7"),
        (10**9, "upperRoman", "1000000000"),
        (0, "lowerLetter", "0"),
    ],
)
def test_numerals(count: int, form: str, expected: str) -> None:
    assert numeral(count, form) == expected


def test_headers_and_footers_once_and_without_page_numbers() -> None:
    parts = {
        "header1.xml": part("hdr", line(run("Acme, confidential")) + line(run("Page 1 of 3"))),
        "footer1.xml": part("ftr", line(run("Acme, confidential")) + line(run("Version 7"))),
    }
    body = (
        line(run("Text."))
        + "<w:sectPr><w:headerReference r:id='header1'/><w:footerReference r:id='footer1'/></w:sectPr>"
    )
    assert text(body, parts) == "Text.\n\nHeader and footer\n\nAcme, confidential\n\nVersion 7"


FIRST, EVEN = (f"<w:headerReference w:type='{kind}' r:id='{kind}'/>" for kind in ("first", "even"))


@pytest.mark.parametrize(
    ("sections", "switch", "expected"),
    [
        ([FIRST + EVEN], "", []),
        ([FIRST + "<w:titlePg w:val='0'/>"], "<w:evenAndOddHeaders w:val='0'/>", []),
        ([FIRST + "<w:titlePg/>"], "", ["Cover"]),
        ([EVEN], "<w:evenAndOddHeaders/>", ["Left"]),
        ([FIRST, "<w:titlePg/>"], "", ["Cover"]),
        ([FIRST + "<w:sectPrChange><w:sectPr><w:titlePg/></w:sectPr></w:sectPrChange>"], "", []),
    ],
)
def test_headers_that_no_page_has_are_not_indexed(sections: list[str], switch: str, expected: list[str]) -> None:
    parts = {
        "first.xml": part("hdr", line(run("Cover"))),
        "even.xml": part("hdr", line(run("Left"))),
        "settings.xml": part("settings", switch),
    }
    body = line(run("Text.")) + "".join(f"<w:sectPr>{section}</w:sectPr>" for section in sections)
    assert text(body, parts).split("\n\n") == ["Text.", *(["Header and footer", *expected] if expected else [])]


def test_hidden_text_is_not_indexed_and_the_document_says_so() -> None:
    document = read(docx(line(run("Shown.") + run("secret", "<w:vanish/>") + run("not", "<w:vanish w:val='0'/>"))))
    assert document.text == "Shown.not"
    assert document.warnings == ["The document has hidden text that is not indexed."]


HIDING = part(
    "styles",
    "<w:style w:type='character' w:styleId='Note'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='paragraph' w:styleId='Teacher'><w:rPr><w:vanish/></w:rPr></w:style>"
    "<w:style w:type='character' w:styleId='Own'><w:basedOn w:val='Note'/></w:style>"
    "<w:style w:type='paragraph' w:styleId='Pupil'><w:basedOn w:val='Teacher'/><w:rPr><w:vanish w:val='0'/></w:rPr></w:style>"
    "<w:style w:type='paragraph' w:styleId='Circle'><w:basedOn w:val='Circle'/></w:style>",
)
STYLED, PARAGRAPH = "<w:rStyle w:val='{}'/>", "<w:pStyle w:val='{}'/>"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(line(run("secret", STYLED.format("Note")) + run("Shown.")), id="style of characters"),
        pytest.param(line(run("secret", STYLED.format("Own")) + run("Shown.")), id="inherited"),
        pytest.param(
            line(run("secret") + run("Shown.", "<w:vanish w:val='0'/>"), PARAGRAPH.format("Teacher")),
            id="style of a paragraph",
        ),
        pytest.param(
            f"<w:tbl><w:tr><w:tc>{line(run('Shown.'))}</w:tc></w:tr><w:tr><w:trPr><w:hidden/></w:trPr>"
            f"<w:tc>{line(run('secret'))}</w:tc></w:tr></w:tbl>",
            id="row",
        ),
        pytest.param(
            f"<w:tbl><w:tr><w:tc>{line(run('Shown.'))}</w:tc></w:tr><w:tr>"
            f"<w:tc>{line(run('secret'), PARAGRAPH.format('Teacher'))}</w:tc></w:tr></w:tbl>",
            id="cell",
        ),
        pytest.param(
            line(run("Shown.") + "<w:r><w:rPr><w:vanish/></w:rPr><w:t>x</w:t><w:footnoteReference w:id='1'/></w:r>"),
            id="note of hidden text",
        ),
        pytest.param(
            line(f"{maths('f', num='secret', den='2')}", PARAGRAPH.format("Teacher")) + line(run("Shown.")),
            id="formula",
        ),
    ],
)
def test_what_styles_and_rows_hide_is_not_indexed(body: str) -> None:
    notes = part("footnotes", f"<w:footnote w:id='1'>{line(run('secret'))}</w:footnote>")
    document = read(docx(body, {"styles.xml": HIDING, "footnotes.xml": notes}))
    assert document.text == "Shown."
    assert document.warnings == ["The document has hidden text that is not indexed."]


@pytest.mark.parametrize(
    ("style", "character"),
    [("Pupil", "Missing"), ("Circle", "Missing"), ("Teacher", "Note")],
)
def test_what_styles_show_is_indexed(style: str, character: str) -> None:
    document = read(
        docx(line(run("Shown.", STYLED.format(character)), PARAGRAPH.format(style)), {"styles.xml": HIDING})
    )
    assert (document.text, document.warnings) == ("Shown.", [])


def test_a_frame_around_text_is_no_table() -> None:
    cell = f"<w:tc>{line(run('First.'))}{line(run('Second.'))}</w:tc>"
    assert shown(read(docx(f"<w:tbl><w:tr>{cell}</w:tr></w:tbl>"))) == [
        ("paragraph", "First."),
        ("paragraph", "Second."),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<w:tbl><w:tr><w:tc>", "</w:tc></w:tr></w:tbl>"),
        ("<w:p><w:r><w:drawing><w:txbxContent>", "</w:txbxContent></w:drawing></w:r></w:p>"),
        ("<w:sdt><w:sdtContent>", "</w:sdtContent></w:sdt>"),
    ],
)
def test_what_is_nested_deeply_is_read_or_refused(before: str, after: str) -> None:
    assert "first" in text(line(run("first")) + before * 20 + line(run("deep")) + after * 20)
    with pytest.raises(SkipDocumentError, match=r"damaged|nested"):
        text(line(run("first")) + before * 5000 + line(run("deep")) + after * 5000)


@pytest.mark.parametrize("kind", [DOCX, PPTX])
def test_entities_in_a_part_are_refused(kind: str) -> None:
    name = "word/document.xml" if kind == DOCX else "ppt/presentation.xml"
    data = archive({name: '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><x>&e;</x>'})
    with pytest.raises(SkipDocumentError, match="refers to the entity 'e', which is not loaded"):
        read(data, kind)


@pytest.mark.parametrize("content", ["", "<w:document/>", "not xml", f'<w:document xmlns:w="{W}"/>'])
def test_a_document_without_a_body_is_damaged(content: str) -> None:
    with pytest.raises(SkipDocumentError, match="damaged"):
        read(archive({"word/document.xml": content}))


def shape(content: str, role: str = "", level: int | None = None) -> str:
    place = f'<p:nvPr><p:ph type="{role}"/></p:nvPr>' if role else "<p:nvPr/>"
    properties = f'<a:pPr lvl="{level}"/>' if level is not None else ""
    return f"<p:sp><p:nvSpPr>{place}</p:nvSpPr><p:txBody><a:p>{properties}<a:r><a:t>{content}</a:t></a:r></a:p></p:txBody></p:sp>"


def pptx(
    *slides: str, parts: Mapping[str, str] | None = None, extra: Mapping[str, tuple[str, str]] | None = None
) -> bytes:
    spaces = f'xmlns:p="urn:p" {SPACES}'
    listed = "".join(f'<p:sldId r:id="s{number}"/>' for number in range(len(slides)))
    return archive(
        {
            "_rels/.rels": relations({"r1": ("officeDocument", "/ppt/presentation.xml")}),
            "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>{listed}</p:sldIdLst></p:presentation>",
            "ppt/_rels/presentation.xml.rels": relations(
                {f"s{n}": ("slide", f"slides/slide{n}.xml") for n in range(len(slides))}
                | {"a": ("commentAuthors", "authors.xml")}
            ),
            "ppt/authors.xml": f'<p:cmAuthorLst {spaces}><p:cmAuthor id="0" name="Ana Ruiz"/></p:cmAuthorLst>',
        }
        | {
            f"ppt/slides/slide{n}.xml": f"<p:sld {spaces}><p:cSld><p:spTree>{content}</p:spTree></p:cSld></p:sld>"
            for n, content in enumerate(slides)
        }
        | {"ppt/slides/_rels/slide0.xml.rels": relations(extra or {})}
        | {name: content.replace("{spaces}", spaces) for name, content in (parts or {}).items()}
    )


def test_slides_with_groups_charts_diagrams_comments_and_notes() -> None:
    grouped = f"<p:grpSp><p:grpSp>{shape('Grouped')}</p:grpSp></p:grpSp>"
    frames = "".join(
        f"<p:graphicFrame><a:graphic>{one}</a:graphic></p:graphicFrame>"
        for one in ('<c:chart r:id="chart"/>', '<dgm:relIds r:dm="diagram"/>')
    )
    cells = "".join(
        f"<a:tc><a:txBody><a:p><a:r><a:t>{one}</a:t></a:r></a:p></a:txBody></a:tc>" for one in ("Hall", "4")
    )
    grid = f"<a:graphicData><a:tbl><a:tr>{cells}</a:tr></a:tbl></a:graphicData>"
    parts = {
        "ppt/charts/chart.xml": CHART,
        "ppt/diagrams/data.xml": DIAGRAM,
        "ppt/comments/1.xml": '<p:cmLst {spaces}><p:cm authorId="0"><p:text>Too long.</p:text></p:cm></p:cmLst>',
        "ppt/notes/1.xml": "<p:notes {spaces}><p:cSld><p:spTree>"
        + shape("7", "sldNum")
        + shape("Say hello.", "body")
        + f"<p:graphicFrame><a:graphic>{grid}</a:graphic></p:graphicFrame></p:spTree></p:cSld></p:notes>",
    }
    extra = {
        "chart": ("chart", "../charts/chart.xml"),
        "diagram": ("diagramData", "../diagrams/data.xml"),
        "c": ("comments", "../comments/1.xml"),
        "n": ("notesSlide", "../notes/1.xml"),
    }
    slides = (
        shape("1", "sldNum") + grouped + shape("Plan", "title") + frames + shape("Acme 2026", "ftr"),
        shape("Next", "ctrTitle") + shape("Acme 2026", "ftr"),
    )
    document = read(pptx(*slides, parts=parts, extra=extra), PPTX)
    assert [(block.page, found) for block, (_, found) in zip(document.blocks, shown(document), strict=True)] == [
        (1, "Plan"),
        (1, "Grouped"),
        (1, "Chart: Ducks by year"),
        (1, "| Mallards\n2024 | 12\n2025 | 15"),
        (1, "- President"),
        (1, "Acme 2026"),
        (1, "Comment by Ana Ruiz: Too long."),
        (1, "Notes: Say hello."),
        (1, "Hall | 4"),
        (2, "Next"),
    ]
    assert document.page_count == 2


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("alphaLcParenR", "a) One\nb) Two"),
        ("alphaUcPeriod", "A. One\nB. Two"),
        ("romanLcParenBoth", "(i) One\n(ii) Two"),
        ("arabicPlain", "1 One\n2 Two"),
        ("arabicParenR", "1) One\n2) Two"),
        ("circleNumDbPlain", "1. One\n2. Two"),
    ],
)
def test_items_of_a_slide_have_the_numbers_that_it_shows(form: str, expected: str) -> None:
    items = "".join(
        f"<a:p><a:pPr><a:buAutoNum type='{form}'/></a:pPr><a:r><a:t>{one}</a:t></a:r></a:p>" for one in ("One", "Two")
    )
    assert shown(read(pptx(f"<p:sp><p:txBody>{items}</p:txBody></p:sp>"), PPTX)) == [("list", expected)]


def test_a_slide_without_a_title_is_below_none() -> None:
    document = read(
        pptx(shape("Costs", "title") + shape("One"), shape("Two"), shape("", "title") + shape("Three")), PPTX
    )
    assert [(block.page, block.section_path) for block in document.blocks] == [
        (1, ()),
        (1, ("Costs",)),
        (2, ()),
        (3, ()),
    ]


def test_the_alternative_of_a_shape_is_read_once() -> None:
    both = f"<mc:AlternateContent><mc:Choice>{shape('Once')}</mc:Choice><mc:Fallback>{shape('Once')}</mc:Fallback></mc:AlternateContent>"
    assert read(pptx(both), PPTX).text == "Once"


def test_a_large_chart_is_bounded() -> None:
    points = "".join(f"<c:pt idx='{{0}}{n}'><c:v>1</c:v></c:pt>" for n in range(30))
    series = "".join(
        f"<c:ser><c:tx><c:v>S{n}</c:v></c:tx><c:val>{points.format(n)}</c:val></c:ser>" for n in range(100, 300)
    )
    parts = {"chart.xml": f"<c:chartSpace {SPACES}>{series}</c:chartSpace>"}
    found = text(line("<w:r><w:drawing><c:chart r:id='chart'/></w:drawing></w:r>"), parts)
    assert "S299" in found
    assert len(found) < 5000


CUT = "<w:comments><w:comment>"
CORE = "<cp:coreProperties xmlns:cp='urn:cp'><title>A & B</title></cp:coreProperties>"


def with_part(data: bytes, name: str, content: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return archive({one: file.read(one) for one in file.namelist()} | {name: content})


def test_a_damaged_part_that_the_text_can_do_without_is_named_in_a_warning() -> None:
    main = {"r1": ("officeDocument", "word/document.xml"), "r2": ("core-properties", "docProps/core.xml")}
    data = with_part(docx(line(run("It hums.")), {"comments.xml": CUT}), "_rels/.rels", relations(main))
    document = read(with_part(data, "docProps/core.xml", CORE))
    assert document.text == "It hums."
    assert document.warnings == [
        "A part of the file (comments.xml) is damaged and not read.",
        "A part of the file (core.xml) is damaged and not read.",
    ]
    document = read(with_part(pptx(shape("It hums.")), "ppt/authors.xml", CUT), PPTX)
    assert document.text == "It hums."
    assert document.warnings == ["A part of the file (authors.xml) is damaged and not read."]
    with pytest.raises(SkipDocumentError, match="damaged"):
        read(with_part(pptx(shape("It hums.")), "ppt/slides/slide0.xml", CUT), PPTX)


@pytest.mark.parametrize("name", ["_rels/.rels", "word/_rels/document.xml.rels"])
def test_damaged_relations_of_a_part_are_named_in_a_warning(name: str) -> None:
    document = read(with_part(docx(line(run("It hums."))), name, "<Relationships"))
    assert document.text == "It hums."
    assert document.warnings == [f"A part of the file ({name.rpartition('/')[2]}) is damaged and not read."]


def test_slides_that_damaged_relations_name_are_not_found() -> None:
    with pytest.raises(SkipDocumentError, match="damaged"):
        read(with_part(pptx(shape("It hums.")), "ppt/_rels/presentation.xml.rels", "<Relationships"), PPTX)


def test_a_paragraph_whose_end_is_deleted_stays_before_the_table_that_follows() -> None:
    cells = "".join(f"<w:tc>{line(run(text))}</w:tc>" for text in ("Pump", "12"))
    body = line(run("Prices"), "<w:rPr><w:del/></w:rPr>") + f"<w:tbl><w:tr>{cells}</w:tr></w:tbl>"
    assert shown(read(docx(body))) == [("paragraph", "Prices"), ("table", "Pump | 12")]


def test_hidden_slides_and_shapes_are_not_indexed_and_the_presentation_says_so() -> None:
    hidden = "<p:nvSpPr><p:cNvPr id='2' name='x' hidden='1'/>"
    secret = shape("secret").replace("<p:nvSpPr>", hidden)
    group = f"<p:grpSp><p:nvGrpSpPr><p:cNvPr hidden='true'/></p:nvGrpSpPr>{shape('secret')}</p:grpSp>"
    chart = '<p:graphicFrame><p:nvGraphicFramePr><p:cNvPr hidden="1"/></p:nvGraphicFramePr><c:chart r:id="chart"/></p:graphicFrame>'
    chart = f"<mc:AlternateContent><mc:Choice>{chart}</mc:Choice><mc:Fallback>{shape('instead')}</mc:Fallback></mc:AlternateContent>"
    data = pptx(shape("Plan", "title") + secret + group + chart, shape("secret", "title"), shape("End", "title"))
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        slide = file.read("ppt/slides/slide1.xml").decode().replace("<p:sld ", "<p:sld show='0' ")
    document = read(with_part(data, "ppt/slides/slide1.xml", slide), PPTX)
    assert [(block.page, *one) for block, one in zip(document.blocks, shown(document), strict=True)] == [
        (1, "heading", "Plan"),
        (3, "heading", "End"),
    ]
    assert document.page_count == 3
    assert document.warnings == [
        "The presentation has 1 hidden slide that is not indexed.",
        "The presentation has 3 hidden shapes that are not indexed.",
    ]


@pytest.mark.parametrize(
    "drawing",
    [
        pytest.param(f"<w:drawing><wp:anchor><wp:docPr hidden='1'/>{box(line(run('secret')))}</wp:anchor></w:drawing>"),
        pytest.param(
            f"<w:pict><v:shape style='width:9pt;visibility: hidden'>{box(line(run('secret')))}</v:shape></w:pict>"
        ),
        pytest.param(
            "<w:drawing><wp:anchor><wp:docPr hidden='1' descr='secret'/><c:chart r:id='chart'/></wp:anchor></w:drawing>",
            id="chart",
        ),
        pytest.param(
            "<w:drawing><wp:inline><wp:docPr hidden='true'/><dgm:relIds r:dm='diagram'/></wp:inline></w:drawing>",
            id="diagram",
        ),
        pytest.param(
            "<w:drawing><wp:inline><wp:docPr hidden='1' descr='secret'/></wp:inline></w:drawing>", id="picture"
        ),
        pytest.param(
            f"<w:drawing><wp:docPr/><wps:grpSp><wps:wsp><wps:cNvPr hidden='1'/>{box(line(run('secret')))}</wps:wsp>"
            "<wps:graphicFrame><wps:cNvPr hidden='1'/><c:chart r:id='chart'/></wps:graphicFrame></wps:grpSp></w:drawing>",
            id="within a group",
        ),
        pytest.param(
            f"<w:pict><v:group><v:shape style='visibility:hidden'>{box(line(run('secret')))}</v:shape></v:group></w:pict>",
            id="within an older group",
        ),
        pytest.param(
            f"<mc:AlternateContent><mc:Choice><w:drawing><wps:wsp><wps:cNvPr hidden='1'/>{box(line(run('secret')))}</wps:wsp>"
            f"</w:drawing></mc:Choice><mc:Fallback><w:pict>{box(line(run('secret')))}</w:pict></mc:Fallback></mc:AlternateContent>",
            id="with an alternative",
        ),
        pytest.param(
            "<w:drawing><wps:wsp>"
            + box(
                "<w:p><w:r><w:drawing><wp:docPr hidden='1' descr='secret'/><c:chart r:id='chart'/></w:drawing></w:r></w:p>"
            )
            + "</wps:wsp></w:drawing>",
            id="within a text box",
        ),
    ],
)
def test_hidden_drawings_are_not_indexed(drawing: str) -> None:
    data = docx(line(run("Shown.") + f"<w:r>{drawing}</w:r>"), {"chart.xml": CHART, "diagram.xml": DIAGRAM})
    document = read(data)
    assert document.text == "Shown."
    assert document.warnings == ["The document has hidden text that is not indexed."]


def test_what_is_beside_a_hidden_shape_of_a_group_is_read() -> None:
    shapes = f"<wps:wsp><wps:cNvPr hidden='1'/></wps:wsp><wps:wsp><wps:cNvPr/>{box(line(run('Shown')))}</wps:wsp>"
    document = read(docx(line(f"<w:r><w:drawing><wps:wgp>{shapes}</wps:wgp></w:drawing></w:r>")))
    assert (document.text, document.warnings) == ("Shown", [])


def test_characters_of_symbol_on_a_slide() -> None:
    slide = shape("5 \uf0b1 0.2").replace("<a:r><a:t>", "<a:r><a:rPr><a:sym typeface='Symbol'/></a:rPr><a:t>")
    assert shown(read(pptx(slide), PPTX)) == [("paragraph", "5 ± 0.2")]


@pytest.mark.parametrize(
    ("font", "written", "expected"),
    [
        ("latin", "\uf0e0", "→"),
        ("latin", "à", "→"),
        ("sym", " à", "→"),
        ("sym", "\uf0e0 vis-à-vis", "→ vis-à-vis"),
    ],
)
def test_characters_of_wingdings_on_a_slide(font: str, written: str, expected: str) -> None:
    slide = shape(written).replace("<a:r><a:t>", f"<a:r><a:rPr><a:{font} typeface='Wingdings'/></a:rPr><a:t>")
    assert shown(read(pptx(slide), PPTX)) == [("paragraph", expected)]


def test_a_field_spans_paragraphs() -> None:
    begin = line(run("Shown") + mark("begin") + run("secret"))
    assert (
        text(begin + line(run("secret") + mark("separate") + run("one")) + line(run("two") + mark("end")))
        == "Shown\n\none\n\ntwo"
    )


def test_fields_by_the_thousand_take_no_time() -> None:
    nested = (mark("begin") + mark("separate")) * 20_000
    assert text(line(mark("begin") + nested + run("x") * 20_000 + mark("end") * 20_001) + line(run("Shown"))) == "Shown"


def test_formulas_of_slides_keep_fractions_and_powers() -> None:
    raised_mark = "<a:r><a:rPr baseline='30000'/><a:t>1</a:t></a:r>"
    power = maths("sSup", e="10", sup="6")
    half = f"<m:oMathPara>{maths('f', num='1', den='2')}</m:oMathPara>"
    slide = shape("Growth ").replace(
        "</a:r>", f"</a:r><x:m xmlns:x='urn:x'>{half}</x:m><x:m xmlns:x='urn:x'>{power}</x:m>{raised_mark}"
    )
    assert shown(read(pptx(slide), PPTX)) == [("paragraph", "Growth 1/210^6 [1]")]


def test_struck_text_of_a_slide_stays_apart() -> None:
    new = "</a:r><a:r><a:t>600 EUR</a:t></a:r>"
    slide = shape("500").replace("<a:r><a:t>", "<a:r><a:rPr strike='sngStrike'/><a:t>").replace("</a:r>", new)
    assert shown(read(pptx(slide), PPTX)) == [("paragraph", "500 600 EUR")]
    assert shown(read(pptx(slide.replace("sngStrike", "noStrike")), PPTX)) == [("paragraph", "500600 EUR")]
