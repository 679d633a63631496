"""Read what drawings of Office files show as text: charts, diagrams (SmartArt) and formulas."""

import re
from collections.abc import Callable, Iterator
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.alt_text import described
from assets.stages.parse.marks import gap, raised
from assets.stages.parse.number_format import formatter
from assets.stages.parse.package import Package, attribute, child, is_on, local, number, within
from assets.stages.parse.symbols import codes_of, in_codes, is_symbol
from assets.stages.parse.tables import table

_SHAPES = frozenset({"sp", "pic", "graphicFrame", "cxnSp"})
_CONTAINERS = frozenset({"spTree", "grpSp", "twoCellAnchor", "oneCellAnchor", "absoluteAnchor"})
_MAX_CELLS = 100_000
"""Cells of a chart's data; a larger chart has its titles and the names of its series only."""


def graphics(
    package: Package,
    part: str,
    element: Any,
    page: int | None = None,
    sheet: str | None = None,
    *,
    data: Callable[[Any], bool] = lambda _: True,
) -> Iterator[BlockDraft]:
    """Yield the blocks of the charts and diagrams that a drawing refers to. `data`: whether a chart is read with its figures."""
    for frame in within(element, "chart", "relIds"):
        relation = package.relations(part).get(_reference(frame, "dm" if local(frame.tag) == "relIds" else "id") or "")
        root = package.optional(relation.target) if relation is not None and not relation.external else None
        if root is None:
            continue
        if local(frame.tag) == "relIds":
            yield from diagram(root, page, sheet)
        else:
            yield from chart(root, page, sheet, data=data(root))


def _reference(element: Any, name: str) -> str | None:
    return next((value for key, value in element.attrib.items() if local(key) == name and "}" in key), None)


def shapes(tree: Any) -> Iterator[Any]:
    """Yield the shapes of a drawing in order, including those in groups, and hidden groups; of alternatives, the first that has any."""
    for element in tree if tree is not None else ():
        kind = local(element.tag)
        if kind in _SHAPES or is_hidden(element):
            yield element
        elif kind in _CONTAINERS:
            yield from shapes(element)
        elif kind == "AlternateContent":
            for choice in element:
                if found := [*shapes(choice)]:
                    yield from found
                    break


def is_hidden(shape: Any) -> bool:
    """Return True if a shape or a group is hidden, as the pane of a program lists them."""
    named = next((one for one in shape if local(one.tag).startswith("nv")), None)
    properties = child(named, "cNvPr") if named is not None else None
    return properties is not None and properties.get("hidden") in ("1", "true")


def has_text(element: Any) -> bool:
    """Return True if a drawing has a text, a chart, a diagram or a description."""
    return any(one.text or local(one.tag) != "t" for one in within(element, "t", "chart", "relIds", "textpath")) or any(
        described(one.get("descr")) for one in within(element, "docPr", "cNvPr")
    )


def diagram(root: Any, page: int | None = None, sheet: str | None = None) -> Iterator[BlockDraft]:
    """Yield the texts of a diagram as a list."""
    lines = [one_line(paragraph(one)) for point in within(root, "pt") for one in within(point, "p")]
    text = "\n".join(f"- {line}" for line in lines if line)
    if text:
        yield BlockDraft(kind="list", text=text, page=page, sheet=sheet)


def chart(root: Any, page: int | None = None, sheet: str | None = None, *, data: bool = True) -> Iterator[BlockDraft]:
    """Yield a chart's title and its data as a table: a row for each category, a column for each series.

    Without `data`, the names of its series only: the sheet beside it has the figures.
    """
    titles = [
        one_line(" ".join(paragraph(one) for one in within(title, "p"))) or _cached(title)
        for title in within(root, "title")
    ]
    titles = [title for title in titles if title]
    if titles:
        named = f"Chart: {titles[0]}" + (f" ({', '.join(titles[1:])})" if titles[1:] else "")
        yield BlockDraft(kind="paragraph", text=named, page=page, sheet=sheet)
    names: list[str] = []
    columns: list[dict[int, str]] = []
    categories: dict[int, str] = {}
    from_1904 = is_on(child(root, "date1904"))
    for series in within(root, "ser", "series"):
        around = series.getparent()
        if around is not None and local(around.tag).startswith("filtered"):
            continue  # a person took it out of the chart
        label = child(series, "tx")
        names.append(_cached(label) if label is not None else "")
        categories = _points(series, "cat", "xVal", from_1904=from_1904) | categories
        columns.append(_points(series, "val", "yVal", from_1904=from_1904))
    rows = sorted({index for column in columns for index in column} | categories.keys())
    if not data or len(rows) * len(names) > _MAX_CELLS:
        rows = []
    cells = [[categories.get(row, ""), *(column.get(row, "") for column in columns)] for row in rows]
    if cells:
        yield from table(cells, header=["", *names], page=page, sheet=sheet)
    elif any(names):
        yield BlockDraft(kind="list", text="\n".join(f"- {name}" for name in names if name), page=page, sheet=sheet)
    texts = [one_line(one.text or "") for level in within(root, "lvl") for one in within(level, "pt")]
    if data and not cells and any(texts):
        yield from table([[text for text in texts if text]], page=page, sheet=sheet)


def _cached(element: Any) -> str:
    found = [one.text or "" for one in within(element, "v")] or [one.text or "" for one in within(element, "t")]
    return one_line(" ".join(found))


def _points(series: Any, *names: str, from_1904: bool) -> dict[int, str]:
    found: dict[int, str] = {}
    for axis in series:
        if local(axis.tag) not in names:
            continue
        figures = next(within(axis, "numCache", "numLit"), None)
        code = child(figures, "formatCode") if figures is not None else None
        for level in [*within(axis, "lvl")][:1] or [axis]:
            for point in within(level, "pt"):
                value = child(point, "v")
                if value is not None:
                    text = one_line(value.text or "")
                    if figures is not None:
                        own = attribute(point, "formatCode") or (code.text if code is not None else None)
                        text = _figure(text, own or "", from_1904=from_1904)
                    found[number(attribute(point, "idx"), 0)] = text
    return found


def _figure(text: str, code: str, *, from_1904: bool) -> str:
    """Return a number as the chart shows it. The file has the 17 digits that computers calculate with: 4.4000000000000004."""
    try:
        return formatter(code, from_1904=from_1904)(float(text))
    except ValueError:
        return text


def paragraph(element: Any, *, pages: bool = True) -> str:
    """Return the text of a paragraph of DrawingML (`a:p`). `pages`: with the numbers that fields show."""
    text, was_struck = "", False
    for one in _parts(element):
        match local(one.tag):
            case "oMath":
                text += formula(one)
            case "t":
                part = one.text or ""
                run = one.getparent()
                properties = child(run, "rPr")
                for font in properties if properties is not None else ():
                    if local(font.tag) in ("latin", "sym"):
                        part = _in_font(part, font)
                up = properties is not None and number(properties.get("baseline"), 0, least=-(10**6)) > 0
                if not pages and local(run.tag) == "fld" and run.get("type") == "slidenum":
                    continue
                struck = properties is not None and properties.get("strike") in ("sngStrike", "dblStrike")
                text += gap(text, part) if was_struck and not struck else ""
                text += raised(text, part) if up else part
                was_struck = struck
            case "br":
                text += "\n"
            case "tab":
                text += " "
            case _:
                pass
    return text


def _in_font(text: str, font: Any) -> str:
    """Return text in Unicode. Of Wingdings for symbols alone (`a:sym`), `à` is an arrow if the run has nothing else."""
    name = font.get("typeface")
    codes = codes_of(name) if name else {}
    alone = len(text.strip()) == 1 and not text.isascii()
    if codes and (is_symbol(name) or not (alone or local(font.tag) == "latin")):
        codes = {code: character for code, character in codes.items() if code > 0xFF}
    return in_codes(text, codes) if codes else text


def _parts(element: Any) -> Iterator[Any]:
    """Yield all elements below one, but none of a formula's."""
    for one in element:
        yield one
        if local(one.tag) != "oMath":
            yield from _parts(one)


def formula(element: Any) -> str:
    """Return a formula on one line: fractions with a slash, the rest in reading order. Source: ECMA-376, part 1, 22.1"""
    text = ""
    for one in element:
        match local(one.tag):
            case "t":
                text += one.text or ""
            case "f":
                above, below = (
                    formula(half) if (half := child(one, name)) is not None else "" for name in ("num", "den")
                )
                text += f"{_grouped(above)}/{_grouped(below)}"
            case "sSup":
                base, power = (formula(part) if (part := child(one, name)) is not None else "" for name in ("e", "sup"))
                text += f"{base}^{power}" if base[-1:].isdigit() or power[:1] in "+-−" else f"{base}{power}"
            case "rad":
                text += f"√{_grouped(formula(inner))}" if (inner := child(one, "e")) is not None else ""
            case "nary":
                symbol = child(one, "naryPr", "chr")
                text += (attribute(symbol, "val") or "∫") if symbol is not None else "∫"
                text += formula(one)
            case "d":
                parts = [formula(inner) for inner in one if local(inner.tag) == "e"]
                text += f"({', '.join(parts)})"
            case "mr":
                text += " ".join(formula(inner) for inner in one) + "; "
            case "del" | "moveFrom" | "ctrlPr":
                pass
            case _:
                text += formula(one)
    return text


def _grouped(text: str) -> str:
    return text if re.fullmatch(r"\w*", text) else f"({text})"
