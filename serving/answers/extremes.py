"""Find the row of a table that a question about the most or the least asks for. Pure."""

import re
from collections.abc import Iterator, Sequence

from serving.answers.parts import TextPart
from serving.answers.words import content, holds, thousands

_SUPERLATIVE = re.compile(
    r"(?<!\bat )\b(?:(?P<most>most|highest|largest|biggest|greatest|(?:meist|höchst|größt)e[nrsm]?)|"
    r"least|lowest|smallest|fewest|(?:wenigst|niedrigst|geringst|kleinst)e[nrsm]?)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"([^\w(-]{0,3})(-?\d{1,3}(?:,\d{3})+(?:\.\d+)?|-?\d+(?:\.\d+|,\d{1,2})?)\s*(%|[^\W\d]{0,5}\W?)")
"""A figure with its unit or currency: 1,200 EUR, $4.60, 35 %. In brackets it may be negative, or a note."""
_MINUS = re.compile(r"(?:−|^–)\s?(?=\d)")
_CURRENCIES = {"€": "EUR", "Eur": "EUR", "$": "USD", "£": "GBP"}
_HUNDREDS = re.compile(r",(?=\d{3})")
_EITHER = re.compile(r"(?<!\d)[1-9]\d{0,2}\.\d{3}(?!\d)")
"""Thousands in German, decimals in English."""
_SUM = re.compile(r"\W*(?:total|sum|subtotal|average|mean|all)\b", re.IGNORECASE)


def extremes(question: str, parts: Sequence[TextPart]) -> frozenset[int]:
    """Return the offsets of the rows with the largest or smallest figure in the column that the question names, in each table."""
    asked = _SUPERLATIVE.search(question)
    if asked is None:
        return frozenset()
    words = content(question)
    choose = max if asked["most"] else min
    found: set[int] = set()
    for names, rows in _tables(parts):
        named = [sum(holds(words, word) for word in content(name)) for name in names]
        named[0] = 0  # the first column says what the others are of
        column = named.index(max(named))
        texts = [thousands(cells[column]) for _, cells in rows]
        if any(map(_EITHER.search, texts)) and not all("." in text for text in texts):
            continue  # 1.900 next to 950 may be more or less
        figures = {
            start: figure for (start, _), text in zip(rows, texts, strict=True) if (figure := _figure(text)) is not None
        }
        if named[column] and 1 < len(figures) == len(rows):
            if len({unit for unit, figure in figures.values() if unit or figure}) > 1:
                continue  # 2 GB is more than 900 MB, but 0 is as much of each unit
            best = choose(figure for _, figure in figures.values())
            found |= {start for start, (_, figure) in figures.items() if figure == best}
    return frozenset(found)


def _tables(parts: Sequence[TextPart]) -> Iterator[tuple[list[str], list[tuple[int, list[str]]]]]:
    """Yield the names of each table's columns with its rows, without sums: the offset and cells of each."""
    names: list[str] = []
    rows: list[tuple[int, list[str]]] = []
    for part in parts:
        cells = [cell.strip() for cell in part.text.strip("| ").split("|")] if part.row else []
        if part.header or not part.row:
            if rows:
                yield names, rows
            names, rows = cells, []
        elif len(cells) == len(names) and not _SUM.match(cells[0]):
            rows.append((part.start, cells))
    if rows:
        yield names, rows


def _figure(cell: str) -> tuple[str, float] | None:
    """Return the unit of a cell, of which three letters are enough (day, days), and its figure."""
    match = _NUMBER.fullmatch(_MINUS.sub("-", cell))
    if match is None:
        return None
    unit = match[1].strip(" +~≈") + match[3].strip(" .*")[:3]
    return _CURRENCIES.get(unit, unit), float(_HUNDREDS.sub("", match[2]).replace(",", "."))
