"""Show a cell's number as its format says: `2.50%`, `$1,599.99`, `6:15 AM`. Source: ECMA-376, part 1, 18.8.30 and 18.8.31.

Dates are the exception: they are written as ISO 8601 dates (`2026-02-28`), because how a sheet shows most of them depends on the reader's
country and not on the file. A format without a day (`Feb 2026`) is followed.
"""

import math
import operator
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from itertools import takewhile

BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: '"$"#,##0_);("$"#,##0)', 6: '"$"#,##0_);("$"#,##0)', 7: '"$"#,##0.00_);("$"#,##0.00)',
    8: '"$"#,##0.00_);("$"#,##0.00)', 9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "# ?/?", 13: "# ??/??", 14: "yyyy-mm-dd", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm AM/PM", 19: "h:mm:ss AM/PM", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0_);(#,##0)", 38: "#,##0_);(#,##0)", 39: "#,##0.00_);(#,##0.00)", 40: "#,##0.00_);(#,##0.00)", 41: "#,##0_);(#,##0)",
    42: '"$"#,##0_);("$"#,##0)', 43: "#,##0.00_);(#,##0.00)", 44: '"$"#,##0.00_);("$"#,##0.00)', 45: "mm:ss", 46: "[h]:mm:ss",
    47: "mm:ss", 48: "##0.0E+0", 49: "@",
} | dict.fromkeys([*range(27, 37), *range(50, 59)], "yyyy-mm-dd")  # fmt: skip
"""Formats that files name by number only."""

_TOKEN = re.compile(
    r'"([^"]*)"?'  # text
    r"|\\(.)|[_*](.)"  # a character; the width of one, or one to fill the cell with
    r"|\[([^\]]*)\]"  # a colour, a condition, a currency, elapsed hours
    r"|(AM/PM|A/P|General|[eE][+-]|y+|m+|d+|h+|s+|e+|b+|g+|a{3,4}|\.0+|[0#?,.%/@]|.)",
    re.IGNORECASE | re.DOTALL,
)
_CONDITION = re.compile(r"(<=|>=|<>|<|>|=)\s*(-?\d+(?:\.\d+)?)")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "=": operator.eq, "<>": operator.ne
}  # fmt: skip
_CURRENCY = re.compile(r"\$([^-\]]*)")
_ELAPSED = re.compile(r"h+|m+|s+", re.IGNORECASE)
_SECTIONS = 4
_MAX_FORMAT = 500
_MAX_SERIAL = 2_958_466
"""The day after 9999-12-31."""
_EPOCH_1900, _EPOCH_1904 = datetime(1899, 12, 30, tzinfo=UTC), datetime(1904, 1, 1, tzinfo=UTC)
"""Days count from here. The time zone is not shown; a sheet has none."""
_LEAP = 60
"""The 29th of February 1900, which there was not: serial numbers below it are one less than the days since the epoch."""

Formatter = Callable[[float], str]


def general(value: float) -> str:
    """Return a number without a format: 15 digits, as spreadsheets calculate with."""
    if value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


@cache
def formatter(code: str, *, from_1904: bool = False) -> Formatter:
    """Return a function that shows a number in a format. A format that cannot be followed shows the number itself."""
    sections = [_section(part) for part in _split(code[:_MAX_FORMAT])]
    if not sections or code.strip().lower() in ("", "general", "@"):
        return general

    def show(value: float) -> str:
        if not math.isfinite(value):
            return general(value)
        section, shown = _chosen(sections, value)
        try:
            return section.show(shown, value, from_1904)
        except (ArithmeticError, ValueError):
            return general(value)

    return show


def is_date(code: str) -> bool:
    """Return True if a format shows a date or a time."""
    return any(section.moment for section in map(_section, _split(code[:_MAX_FORMAT])[:1]))


def hides_text(code: str) -> bool:
    """Return True if a format shows nothing in place of a text: `;;;`."""
    sections = _split(code[:_MAX_FORMAT])
    return len(sections) == _SECTIONS and not _section(sections[-1]).tokens


def _split(code: str) -> list[str]:
    """Split a format at semicolons that are not in quotes. Source: 18.8.31: positive; negative; zero; text."""
    parts: list[str] = []
    current, quoted, escaped = "", False, False
    for one in code:
        if one == ";" and not quoted and not escaped:
            parts.append(current)
            current = ""
            continue
        quoted ^= one == '"' and not escaped
        escaped = one == "\\" and not escaped and not quoted
        current += one
    return [*parts, current][:_SECTIONS]


class _Section:
    """One of the up to four formats of a cell."""

    def __init__(self) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.condition: tuple[str, float] | None = None

    @property
    def moment(self) -> bool:
        return any(kind in ("date", "elapsed") for kind, _ in self.tokens)

    def show(self, value: float, signed: float, from_1904: bool) -> str:
        if self.moment:
            return _moment(self.tokens, signed, from_1904)
        kinds = {kind for kind, _ in self.tokens}
        if "digit" not in kinds:
            return "".join(general(value) if kind == "general" else text for kind, text in self.tokens).strip()
        if "slash" in kinds:
            return general(signed)  # fractions are shown as decimals
        return _number(self.tokens, value)


def _section(code: str) -> _Section:
    section = _Section()
    for text, escaped, filled, bracket, other in _TOKEN.findall(code):
        if bracket:
            _bracket(section, bracket)
        elif text or escaped:
            section.tokens.append(("text", text or escaped))
        elif filled or not other:
            continue
        else:
            section.tokens.append((_kind(other), other))
    _words(section)
    _minutes(section)
    return section


def _kind(token: str) -> str:
    lower = token.lower()
    if lower in ("am/pm", "a/p"):
        return "date"
    if lower == "general":
        return "general"
    if lower in ("e+", "e-"):
        return "exponent"
    if lower[0] in "ymdhs":
        return "date"
    if lower[0] in "ebg" or lower.startswith("aaa"):
        return "era"
    if lower.startswith(".0"):
        return "digit"
    if lower in "0#?.,":
        return "digit"
    if token.isascii() and token.isalpha():
        return "letter"
    return {"%": "percent", "@": "general", "/": "slash"}.get(token, "text")


def _bracket(section: _Section, content: str) -> None:
    condition = _CONDITION.fullmatch(content.strip())
    currency = _CURRENCY.match(content)
    if condition:
        section.condition = (condition.group(1), float(condition.group(2)))
    elif currency:
        section.tokens.append(("text", currency.group(1)))
    elif _ELAPSED.fullmatch(content):
        section.tokens.append(("elapsed", content.lower()))


def _words(section: _Section) -> None:
    """Take letters for text in a section with digits (`0 days`), and years of eras or Japanese days of the week for days: an ISO date."""
    kinds = {kind for kind, _ in section.tokens}
    figures = "general" in kinds or any(
        kind == "digit" and set(one) & set("0#?") and one[0] != "." for kind, one in section.tokens
    )
    for place, (kind, token) in enumerate(section.tokens):
        if kind == "letter" or (kind == "era" and "letter" in kinds) or (figures and kind in ("era", "date")):
            section.tokens[place] = ("text", token)
        elif kind == "era":
            section.tokens[place] = ("date", "d")


def _minutes(section: _Section) -> None:
    """Mark the `m` that are minutes: those after hours or before seconds."""
    dates = [place for place, (kind, _) in enumerate(section.tokens) if kind in ("date", "elapsed")]
    for order, place in enumerate(dates):
        kind, token = section.tokens[place]
        if kind != "date" or token.lower() not in ("m", "mm"):
            continue
        before = section.tokens[dates[order - 1]][1].lower() if order else ""
        after = section.tokens[dates[order + 1]][1].lower() if order + 1 < len(dates) else ""
        if before[:1] == "h" or after[:1] == "s":
            section.tokens[place] = (kind, "n" * len(token))


def _chosen(sections: list[_Section], value: float) -> tuple[_Section, float]:
    """Return the section for a number, and the number as that section shows it: the one for negative numbers has no sign."""
    for section in sections:
        if section.condition is not None:
            sign, limit = section.condition
            holds = _COMPARE[sign](value, limit)
            if holds:
                return section, abs(value) if value < 0 and len(sections) > 1 else value
    if any(section.condition is not None for section in sections):
        rest = [section for section in sections if section.condition is None]
        return (rest[0] if rest else sections[-1]), value
    if value < 0 and len(sections) > 1:
        return sections[1], -value
    if value == 0 and len(sections) > 2:
        return sections[2], value
    return sections[0], value


def _number(tokens: list[tuple[str, str]], value: float) -> str:
    first = next(place for place, (kind, _) in enumerate(tokens) if kind == "digit")
    last = max(place for place, (kind, _) in enumerate(tokens) if kind == "digit")
    pattern = "".join(text for kind, text in tokens if kind == "digit")
    if any(kind == "text" for kind, _ in tokens[first:last]) and not set(pattern) & set(".,"):
        return _masked(tokens, value)
    if any(kind == "exponent" for kind, _ in tokens):
        mantissa = "".join(text for _, text in takewhile(lambda token: token[0] != "exponent", tokens))
        return f"{value:.{mantissa.partition('.')[2].count('0')}E}"
    whole, _, decimals = pattern.partition(".")
    stripped = whole.rstrip(",")
    trailing = len(decimals) - len(decimals.rstrip(",")) + (len(whole) - len(stripped) if not decimals else 0)
    decimals = decimals.rstrip(",")
    percents = sum(kind == "percent" for kind, _ in tokens)
    exact = Decimal(repr(value)) * (Decimal(100) ** percents) / (Decimal(1000) ** trailing)
    rounded = exact.quantize(Decimal(1).scaleb(-len(decimals)), ROUND_HALF_UP)
    text = f"{abs(rounded):,f}" if "," in stripped else f"{abs(rounded):f}"
    head, _, tail = text.partition(".")
    optional = len(decimals) - len(decimals.rstrip("#?"))
    while optional and tail.endswith("0"):
        tail, optional = tail[:-1], optional - 1
    least = stripped.replace(",", "").count("0")
    head = "" if head == "0" and not least and tail else head.rjust(least, "0")
    figure = f"{head}.{tail}" if tail else head
    if not rounded and "0" not in pattern:
        figure = ""  # nothing but places for digits that are not needed
    sign = "-" if rounded < 0 else ""
    before = "".join(text for kind, text in tokens[:first] if kind in ("text", "percent"))
    after = "".join(text for kind, text in tokens[last + 1 :] if kind in ("text", "percent"))
    return f"{sign}{before}{figure}{after}".strip()


def _masked(tokens: list[tuple[str, str]], value: float) -> str:
    """Return a number whose digits have text between them: `(555) 123-4567`."""
    digits = f"{abs(Decimal(repr(value)).quantize(Decimal(1), ROUND_HALF_UP)):f}"
    places = [place for place, (kind, _) in enumerate(tokens) if kind == "digit"]
    shown: list[str] = []
    for place in reversed(range(len(tokens))):
        kind, token = tokens[place]
        if kind != "digit":
            shown.append(token if kind in ("text", "percent") else "")
            continue
        taken = digits if place == places[0] else digits[-1:]
        digits = "" if place == places[0] else digits[:-1]
        shown.append(taken or ("0" if token.startswith("0") else ""))
    return ("-" if value < 0 else "") + "".join(reversed(shown)).strip()


def _moment(tokens: list[tuple[str, str]], value: float, from_1904: bool) -> str:
    """Return a date, a time or both; dates in ISO 8601."""
    if not 0 <= value < _MAX_SERIAL:
        return general(value)
    if any(kind == "elapsed" for kind, _ in tokens):
        return _elapsed(tokens, value)
    codes = {text.lower()[0] for kind, text in tokens if kind == "date"}
    epoch = _EPOCH_1904 if from_1904 else _EPOCH_1900 + timedelta(days=value < _LEAP)
    places = _places(tokens)
    moment = epoch + timedelta(milliseconds=round(value * 86_400_000, places - 3 if places else None))
    timed = bool(codes & {"h", "n", "s"})
    if not codes & {"y", "m", "d"}:
        return _clock(tokens, moment)
    if {"y", "m", "d"} <= codes or (value >= 1 and "d" in codes):
        if not timed:
            return moment.date().isoformat()
        return moment.strftime("%Y-%m-%d %H:%M:%S") + f".{moment.microsecond:06}"[: places + 1 if places else 0]
    return _written(tokens, moment)


def _places(tokens: list[tuple[str, str]]) -> int:
    """Return how many digits of fractions of a second are shown; Excel's limit is 3."""
    return next((min(len(text) - 1, 3) for kind, text in tokens if kind == "digit" and text.startswith(".0")), 0)


def _clock(tokens: list[tuple[str, str]], moment: datetime) -> str:
    half = any(text.lower() in ("am/pm", "a/p") for _, text in tokens)
    text = ""
    for kind, token in tokens:
        lower = token.lower()
        if kind != "date":
            if kind == "digit" and token.startswith(".0"):
                token = f".{moment.microsecond:06}"[: len(token)]
            text += token if kind in ("text", "digit") else ""
        elif lower[0] == "h":
            hour = (moment.hour % 12 or 12) if half else moment.hour
            text += f"{hour:0{min(len(token), 2)}}"
        elif lower[0] == "n":
            text += f"{moment.minute:0{min(len(token), 2)}}"
        elif lower[0] == "s":
            text += f"{moment.second:0{min(len(token), 2)}}"
        else:
            text += "AM" if moment.hour < 12 else "PM"
    return text.strip()


def _written(tokens: list[tuple[str, str]], moment: datetime) -> str:
    text = ""
    for kind, token in tokens:
        lower = token.lower()
        if kind != "date":
            text += token
        elif lower[0] == "y":
            text += f"{moment.year:04}"
        elif lower[0] == "m":
            text += moment.strftime({1: "%m", 2: "%m", 3: "%b"}.get(len(token), "%B"))
        elif lower[0] == "d":
            text += moment.strftime({1: "%d", 2: "%d", 3: "%a"}.get(len(token), "%A"))
    return text.strip()


def _elapsed(tokens: list[tuple[str, str]], value: float) -> str:
    places = _places(tokens)
    seconds, rest = divmod(round(value * 86_400 * 10**places), 10**places)
    text = ""
    for kind, token in tokens:
        width = min(len(token), 2)
        match token.lower()[0] if kind in ("elapsed", "date") else "":
            case "h":
                text += f"{seconds // 3600 if kind == 'elapsed' else seconds // 3600 % 24:0{width}}"
            case "m" | "n":
                text += f"{seconds // 60 if kind == 'elapsed' else seconds // 60 % 60:0{width}}"
            case "s":
                text += f"{seconds if kind == 'elapsed' else seconds % 60:0{width}}"
            case "":
                fraction = f".{rest:0{places}}" if kind == "digit" and token.startswith(".0") else ""
                text += token if kind == "text" else fraction
            case _:
                pass
    return text.strip()
