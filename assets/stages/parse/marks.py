"""Superscript and struck text: a footnote's mark and a struck figure stay apart from what is next to them, a power stays readable."""

import re

from assets.stages.normalize import one_line

_RAISED = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_MARK = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*|[*†‡§]+|[a-z]")
_POWERS = re.compile(r"(?:^|[^\w.,])(?:10|2|e)$")
_UNIT = re.compile(r"(?:^|[^\w])[a-zA-Zµ]{1,2}$")

STRUCK = "\x1e"
"""Stands for the edges of struck text until `apart` has all of the text. `clean` leaves none in a file's own text."""
STRUCK_TAGS = frozenset({"del", "s", "strike"})
_EDGES = re.compile(f"(?<=[\\w%€$£]){STRUCK}++(?=[\\w€$£+-])")


def apart(text: str) -> str:
    """Return text with a space between struck text and what was written in its place: "500600" is another figure."""
    return _EDGES.sub(" ", text).replace(STRUCK, "") if STRUCK in text else text


def gap(before: str, after: str) -> str:
    """Return the space between struck text and what replaces it: "500" and "600" are two figures, of which one is struck."""
    return " " if before[-1:].isalnum() and after[:1].isalnum() else ""


def raised(before: str, text: str) -> str:
    """Return superscript text as it follows `before`: a footnote's mark stays apart from a figure or word, a power stays readable.

    "4.2" and "1" is "4.2 [1]", since "4.21" is another number; "10" and "6" is "10^6", "m" and "2" is "m²".
    """
    mark = one_line(text)
    if not mark or not _MARK.fullmatch(mark) or not before:
        signed = mark.lstrip("+-−").isdigit() and before[-1:].isdigit()  # the minus sign that powers have
        return f"^{mark}" if signed else text
    if not before[-1:].strip():
        return text
    if mark[0].isdigit():
        if _POWERS.search(before[-4:]):
            return f"^{mark}"
        if _UNIT.search(before[-4:]):
            return mark.translate(_RAISED)
        return f" [{mark}]"
    return f" [{mark}]" if before[-1:].isdigit() and not mark.isalpha() else text
