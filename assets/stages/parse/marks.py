"""Superscript text: a footnote's mark stays apart from what it follows, a power stays readable."""

import re

from assets.stages.normalize import one_line

_RAISED = str.maketrans("0123456789+-=()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿ")
_MARK = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*|[*†‡§]+|[a-z]")
_POWERS = re.compile(r"(?:^|[^\w.,])(?:10|2|e)$")
_UNIT = re.compile(r"(?:^|[^\w])[a-zA-Zµ]{1,2}$")


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
