"""Date expressions of a question, as ranges of whole days in UTC.

A small grammar of English: a general parser (dateparser was measured) finds dates in questions that have none and returns moments, not
ranges. Months and quarters without a year are the latest that have begun. What lies in the future is no range of documents.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import NamedTuple

from resources.core.moments import EARLIEST
from serving.search.understanding.words import ENDS, OtherValues

_MONTHS = tuple("january february march april may june july august september october november december".split())  # noqa: SIM905
_DAYS = tuple("monday tuesday wednesday thursday friday saturday sunday".split())  # noqa: SIM905
_NUMBERS = {name: at for at, name in enumerate("one two three four five six seven eight nine ten".split(), start=1)} | {  # noqa: SIM905
    "a": 1,
    "an": 1,
    "a couple of": 2,
    "few": 3,
}
MOST_UNITS = 1000

_MONTH = f"(?:{'|'.join(_MONTHS)}|sept|{'|'.join(one[:3] for one in _MONTHS)})"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_YEAR = r"(?:19|20)\d\d"
_COUNT = rf"(?:\d{{1,4}}|{'|'.join(_NUMBERS)})"
_WEEKDAY = "|".join(_DAYS)
_SPAN = r"(?:this|last|past|previous|current) (?:week|month|quarter|year)(?! of\b)"
_AGO = rf"{_COUNT} (?:day|week|month|year)s? ago"
_NUMERIC = rf"{_YEAR}(?:-\d\d-\d\d|/\d\d/\d\d|\.\d\d\.\d\d|[-/.](?:0[1-9]|1[0-2]))"
"""2026-03-12, 2026/03/12 and 2026.03.12, and the month of each; 2024/25 is none."""
_MOMENT = (
    rf"(?:{_NUMERIC}|{_DAY} (?:of )?{_MONTH}(?:,? {_YEAR})?|{_MONTH} {_DAY}(?:,? {_YEAR})?(?!\d)"
    rf"|{_MONTH}(?:,? (?:of )?{_YEAR})?|q[1-4](?: (?:of )?{_YEAR})?|{_YEAR}|today|yesterday|{_SPAN}"
    rf"|(?:(?:this|last|past) )?(?:{_WEEKDAY})|{_AGO})"
)
_YEARLY = re.compile(rf"\b(?:{_MONTH}|q[1-4])\b", re.IGNORECASE)
_THE = rf"(?:the (?={_SPAN}|{_DAY} (?:of|and|to|until|till|through) ))?"
_LIKE_WORDS = re.compile(r"\b(?:may|march|sun|mar|dec|sat|sept?|jan|jun|oct)\b")
"""Months that are words, names or abbreviations too: without a capital, a day or a year they are none."""

_EXPRESSIONS = re.compile(
    rf"\b(?:between {_THE}(?P<low>{_MOMENT}|{_DAY}) and {_THE}(?P<high>{_MOMENT})"
    rf"|from {_THE}(?P<first>{_MOMENT}|{_DAY}) (?:to|until|till|through) {_THE}(?P<last>{_MOMENT})"
    rf"|(?P<since>since|after|from) {_THE}(?P<begin>{_MOMENT})(?: onwards?| on(?=\s*(?:$|[,.;?!])))?"
    rf"|(?P<until>until|till|up to|before) {_THE}(?P<end>{_MOMENT})"
    r"|(?:(?:in|over|during|within|from|(?P<side>since|after|before|until|till|up to)) )?(?:the )?(?:last|past|previous) "
    rf"(?P<count>{_COUNT} )?(?P<unit>day|week|month|quarter|year)s\b"
    rf"|(?:in|on|during|in the) (?P<within>{_MOMENT})"
    rf"|(?P<alone>{_AGO}|today|yesterday|{_SPAN}|last (?:{_WEEKDAY})))(?![\w'’-]|[/.]\d)",
    re.IGNORECASE,
)
_HINT = re.compile(
    rf"\b(?:{_YEAR}|{_MONTH}|q[1-4]|{_WEEKDAY}|today|yesterday|ago|last|past|previous|this|current)\b", re.IGNORECASE
)
"""Every date expression holds one of these."""
_OTHER = rf"(?!(?-i:{_LIKE_WORDS.pattern})(?! {_DAY}\b|,? (?:of )?{_YEAR})|(?<=, ){_YEAR}(?=\s\w)(?!\s+or\b)(?!{ENDS})){_MOMENT}"
"""A date beside one, unlike "last week and may be wrong" and "last week, 2025 budget"."""
_OTHERS = OtherValues(_OTHER)
_INEXACT = re.compile(r"\b(?:than|under|at (?:least|most))(?: the)? $", re.IGNORECASE)
"""Before a date, these say that it is another one, such as older than last week."""
_ROUGHLY = re.compile(
    rf"\b(?:{_COUNT}(?:\s*[-–]\s*|\s+(?:or|to)\s+)|(?:over|about|around|roughly|approximately|almost|nearly|some) )$",
    re.IGNORECASE,
)
"""The same before a count: about a year ago, two or three weeks ago."""
_VAGUE = re.compile(r"(?:(?:from|in|on|during) )?(?:a couple of|few) \w+ ago", re.IGNORECASE)
_GOES_ON = re.compile(
    rf"\s*(?:(?:to|until|till|through)\s*(?:the )?{_DAY}{ENDS}"
    rf"|(?:to|until|till|through|[-–])\s*(?:the )?(?:{_OTHER}(?!\w)|(?:now|date|present){ENDS}))",
    re.IGNORECASE,
)
"""After a date, these say that it is the first of a span that is not understood."""
_OF = re.compile(r"\b(?:of|for)(?: the)? $", re.IGNORECASE)
_RELATIVE = re.compile(rf"{_SPAN}|today|yesterday|{_AGO}", re.IGNORECASE)


class DateExpression(NamedTuple):
    """A date expression at `start` to `end` of a text: from `first` to `last`, both included; None is open.

    `plain`: its words can only mean a time span (since March, last week), unlike those of a date that a document may be about (in 2025).
    `of`: it belongs to the noun before it ("the price of 2025").
    """

    start: int
    end: int
    first: date | None
    last: date | None
    plain: bool
    of: bool


def dates(text: str, today: date) -> Iterator[DateExpression]:
    """Yield the date expressions of a text, in order. Documents are from 1970 or later."""
    if not _HINT.search(text):
        return
    for match in _EXPRESSIONS.finditer(text):
        found = _range(match, today)
        if found is None or _OTHERS.around(text, *match.span()):
            continue
        if _inexact(text, match) or _GOES_ON.match(text, match.end()):
            continue
        first, last = found
        if first is not None and first < EARLIEST.date():
            first = None
        if (first is None and last is None) or (last is not None and last < EARLIEST.date()):
            continue
        if (first is not None and first > today) or (first is not None and last is not None and first > last):
            continue
        absolute = (match["within"] and not _RELATIVE.fullmatch(match["within"])) or (
            (match["since"] or "").lower() == "from" and not match["begin"].lower().startswith(("last", "this", "yest"))
        )
        yield DateExpression(
            *match.span(), first, last, plain=not absolute, of=bool(_OF.search(text, 0, match.start()))
        )


def _inexact(text: str, match: re.Match[str]) -> bool:
    """Return True if a date is vague by itself, or by the words before it."""
    before = text[max(0, match.start() - 40) : match.start()]
    counted = match["alone"] is not None and match["alone"].lower().endswith(" ago")
    return bool(_VAGUE.fullmatch(match.group()) or _INEXACT.search(before) or (counted and _ROUGHLY.search(before)))


def _range(match: re.Match[str], today: date) -> tuple[date | None, date | None] | None:
    if match["unit"]:
        begin = _back(today, _count((match["count"] or "1").strip()), match["unit"].lower())
        match (match["side"] or "").lower():
            case "":
                return begin, today
            case "since":
                return begin, None
            case "before":
                return None, begin - timedelta(days=1)
            case _:
                return None
    low, high = match["low"] or match["first"], match["high"] or match["last"]
    if high:
        return _between(low, high, today)
    text = match["begin"] or match["end"] or match["within"] or match["alone"]
    span = _moment(text, today, certain=bool(match["since"] or match["until"]))
    if span is None:
        return None
    first, last = span
    if match["until"]:
        before = match["until"].lower() == "before"
        return None, first - timedelta(days=1) if before else last
    if match["since"]:
        word = match["since"].lower()
        if word == "from" and " on" not in match.group()[len(word) + len(text) :]:
            return first, last
        return (last + timedelta(days=1) if word == "after" else first), None
    return first, last


def _between(low: str, high: str, today: date) -> tuple[date, date] | None:
    """Return the range; a month or year that is named once counts for both ends. Without a year, it ends by the end of this one."""
    end = _moment(high, today, begun_by=date(today.year, 12, 31))
    if end is None:
        return None
    year = re.search(_YEAR, high)
    yearly = not re.search(_YEAR, low) and _YEARLY.search(low) is not None
    if low.rstrip("stndrh").isdigit() and len(low) <= 4 and not re.fullmatch(_YEAR, low):
        if not (re.search(_MONTH, high, re.IGNORECASE) and re.search(rf"\b{_DAY}\b", high, re.IGNORECASE)):
            return None
        low, yearly = re.sub(rf"\b{_DAY}\b", low, high, count=1, flags=re.IGNORECASE), not year
    elif year and yearly:
        low = f"{low} {year.group()}"
    begin = _moment(low, today)
    if begin is None:
        return None
    first, last = begin[0], end[1]
    if first > last and low.lower().rpartition(" ")[2] in _DAYS:
        first -= timedelta(weeks=1)
    elif first > last and yearly:  # between November and February
        first = _back(first, 1, "year")
    elif yearly and not year and first <= _back(last, 1, "year"):  # this year's has not begun
        _, last = _moment(high, today) or end
    return first, last


def _count(text: str) -> int:
    return min(MOST_UNITS, int(text)) if text.isdigit() else _NUMBERS[text.lower()]


def _back(day: date, count: int, unit: str) -> date:
    if unit == "day":
        return day - timedelta(days=count)
    if unit == "week":
        return day - timedelta(weeks=count)
    months = day.year * 12 + day.month - 1 - count * {"month": 1, "quarter": 3, "year": 12}[unit]
    year, month = divmod(max(12, months), 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def _moment(text: str, today: date, *, certain: bool = False, begun_by: date | None = None) -> tuple[date, date] | None:
    """Return the first and the last day of a day, week, month, quarter or year; None for a date that does not exist.

    `begun_by`: the day by which a month, quarter or day without a year has begun; None: today.
    """
    lower = text.lower()
    try:
        return _relative(lower, today) or _absolute(text, lower, begun_by or today, certain=certain)
    except (ValueError, OverflowError):
        return None


def _relative(text: str, today: date) -> tuple[date, date] | None:
    if text in {"today", "yesterday"}:
        day = today - timedelta(days=text == "yesterday")
        return day, day
    if text.endswith(" ago"):
        count, unit = text.removesuffix(" ago").rsplit(" ", 1)
        day = _back(today, _count(count), unit.removesuffix("s"))
        return day, day
    which, _, unit = text.rpartition(" ")
    if unit in _DAYS:
        day = today - timedelta(
            days=(today.weekday() - _DAYS.index(unit)) % 7 or (7 if which in {"last", "past"} else 0)
        )
        return day, day
    if which not in {"this", "current", "last", "past", "previous"}:
        return None
    if which == "past":
        return _back(today, 1, unit), today
    before = which not in {"this", "current"}
    if unit == "week":
        monday = today - timedelta(days=today.weekday() + 7 * before)
        return monday, monday + timedelta(days=6)
    if unit == "year":
        return date(today.year - before, 1, 1), date(today.year - before, 12, 31)
    months = 3 if unit == "quarter" else 1
    return _months(today.year * 12 + (today.month - 1) // months * months - before * months, months)


def _absolute(text: str, lower: str, today: date, *, certain: bool) -> tuple[date, date] | None:
    if re.fullmatch(_NUMERIC, text):
        year, month, *days = map(int, re.split(r"[-/.]", text))
        if not days:
            return _months(year * 12 + month - 1, 1)
        day = date(year, month, *days)
        return day, day
    year = re.search(_YEAR, text)
    if year and year.group() == text:
        return date(int(text), 1, 1), date(int(text), 12, 31)
    if lower[0] == "q":
        first = (int(lower[1]) - 1) * 3
        in_year = int(year.group()) if year else today.year - (date(today.year, first + 1, 1) > today)
        return _months(in_year * 12 + first, 3)
    name = re.search(_MONTH, lower)
    number = re.search(r"\d{1,2}", text[: year.start()] if year else text)
    word = name is not None and _LIKE_WORDS.fullmatch(name.group()) and text.islower() and not (year or number)
    if name is None or (word and not certain):
        return None
    month = next(at for at, one in enumerate(_MONTHS, start=1) if one[:3] == name.group()[:3])
    in_year = int(year.group()) if year else today.year - (date(today.year, month, 1) > today)
    if number is None:
        return _months(in_year * 12 + month - 1, 1)
    day = date(in_year, month, int(number.group()))
    if not year and day > today:
        day = day.replace(year=in_year - 1)
    return day, day


def _months(at: int, count: int) -> tuple[date, date]:
    """Return the first and the last day of `count` months, from a number of months since the year 0."""
    first, after = divmod(at, 12), divmod(at + count, 12)
    return date(first[0], first[1] + 1, 1), date(after[0], after[1] + 1, 1) - timedelta(days=1)
