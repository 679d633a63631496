"""Spreadsheets as files: a minimal workbook writer (the product only reads them) and CSV as exported by Google."""

import csv
import io
import zipfile
from xml.sax.saxutils import escape, quoteattr

from resources.sources.drive.simulator.tree import Sheets

_HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_TYPE = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def read_csv(text: str) -> Sheets:
    return {"Sheet1": [list(row) for row in csv.reader(io.StringIO(text))]}


def write_csv(sheets: Sheets) -> bytes:
    """Return only the first sheet, like Google's export of a spreadsheet to CSV."""
    target = io.StringIO()
    csv.writer(target, lineterminator="\r\n").writerows(next(iter(sheets.values()), []))
    return target.getvalue().encode()


def write_xlsx(sheets: Sheets) -> bytes:
    """Return a workbook with all sheets. The output is deterministic."""
    names = list(sheets)
    parts = {
        "[Content_Types].xml": _content_types(len(names)),
        "_rels/.rels": _relations([(f"{_OFFICE}/officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": _workbook(names),
        "xl/_rels/workbook.xml.rels": _relations(
            [(f"{_OFFICE}/worksheet", f"worksheets/sheet{number}.xml") for number in range(1, len(names) + 1)]
        ),
    }
    parts |= {f"xl/worksheets/sheet{number}.xml": _sheet(rows) for number, rows in enumerate(sheets.values(), start=1)}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), _HEAD + text, zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _content_types(count: int) -> str:
    sheets = "".join(
        f'<Override PartName="/xl/worksheets/sheet{number}.xml" ContentType="{_TYPE}.worksheet+xml"/>'
        for number in range(1, count + 1)
    )
    return (
        f'<Types xmlns="{_PACKAGE}/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>{sheets}</Types>'
    )


def _relations(targets: list[tuple[str, str]]) -> str:
    rows = "".join(
        f'<Relationship Id="rId{number}" Type="{kind}" Target="{target}"/>'
        for number, (kind, target) in enumerate(targets, start=1)
    )
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{rows}</Relationships>'


def _workbook(names: list[str]) -> str:
    sheets = "".join(
        f'<sheet name={quoteattr(name)} sheetId="{number}" r:id="rId{number}"/>'
        for number, name in enumerate(names, start=1)
    )
    return f'<workbook xmlns="{_MAIN}" xmlns:r="{_OFFICE}"><sheets>{sheets}</sheets></workbook>'


def _sheet(rows: list[list[str | int | float | bool | None]]) -> str:
    lines = "".join(
        f'<row r="{number}">{"".join(_cell(f"{_column(index)}{number}", value) for index, value in enumerate(row))}</row>'
        for number, row in enumerate(rows, start=1)
    )
    return f'<worksheet xmlns="{_MAIN}"><sheetData>{lines}</sheetData></worksheet>'


def _cell(place: str, value: str | float | bool | None) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return f'<c r="{place}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        return f'<c r="{place}"><v>{value}</v></c>'
    return f'<c r="{place}" t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'


def _column(index: int) -> str:
    name = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        name = chr(ord("A") + rest) + name
    return name
