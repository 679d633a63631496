"""Parse calendars (.ics) and address books (.vcf): each entry becomes a list of its properties.

Source: RFC 5545 (iCalendar), RFC 6350 (vCard), sections 3.1 to 3.3.
"""

import re
from collections.abc import Iterator
from datetime import date, timedelta

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.decoding import decode
from assets.stages.parse.mail import decoded
from assets.stages.parse.result import Parsed

_FOLD = re.compile(r"\r?\n[ \t]")
_PROPERTY = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;[^:;\"]*(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\([nN,;:\\\\])")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)(Z?))?")
_CHARSET = re.compile(r";CHARSET=\"?([\w.:-]+)", re.IGNORECASE)
_ZONE = re.compile(r";TZID=\"?/?([^\";:]+)", re.IGNORECASE)
_REPLY = re.compile(
    r"(?:;[^;\"]*+(?:\"[^\"]*+\"[^;\"]*+)*+)*?;PARTSTAT=\"?(ACCEPTED|DECLINED|TENTATIVE|DELEGATED)\b", re.IGNORECASE
)
"""What a guest replied. Source: RFC 5545, section 3.2.12"""
_LEFT_OUT = frozenset({
    "VERSION", "PRODID", "UID", "REV", "DTSTAMP", "SEQUENCE", "CREATED", "LAST-MODIFIED", "PHOTO", "LOGO", "KEY", "SOUND", "CALSCALE",
    "METHOD", "TRANSP", "CLASS", "ATTACH", "ACTION", "TRIGGER", "TZID", "TZURL", "PRIORITY",
})  # fmt: skip
"""Properties for programs only."""
_PARTS = "N: "
"""How the line of a name's parts begins before it is known whether there is a whole name."""
_START, _END = "Start: ", "End: "
_COMPONENTS = frozenset({"VTIMEZONE", "STANDARD", "DAYLIGHT", "VALARM"})
_NAMES = {
    "DTSTART": "Start", "DTEND": "End", "SUMMARY": "Summary", "FN": "Name", "TEL": "Phone", "ADR": "Address", "ORG": "Organization",
    "RRULE": "Repeats", "DUE": "Due", "BDAY": "Birthday", "URL": "URL",
}  # fmt: skip


def parse(data: bytes) -> Parsed:
    """Return the entries of a calendar or an address book."""
    text, warnings = decode(data)
    return Parsed(drafts=list(_entries(_FOLD.sub("", _joined(text)))), warnings=warnings)


def _entries(text: str) -> Iterator[BlockDraft]:
    lines: list[str] = []
    ignored = ""
    for line in clean(text).split("\n"):
        found = _PROPERTY.fullmatch(line.strip())
        if found is None:
            continue
        name, parameters, value = found.group(1).upper(), found.group(2), found.group(3)
        if name == "BEGIN" and not ignored and value.strip().upper() in _COMPONENTS:
            ignored = value.strip().upper()
        elif name == "END" and ignored:
            ignored = "" if value.strip().upper() == ignored else ignored
        elif name in ("BEGIN", "END"):
            if lines:
                yield _entry(lines)
            lines = []
        elif not ignored and name not in _LEFT_OUT and not name.startswith("X-"):
            shown = _value(name, parameters, value)
            if shown:
                lines.append(f"{_NAMES.get(name, name.capitalize())}: {shown}")
    if lines:
        yield _entry(lines)


def _entry(lines: list[str]) -> BlockDraft:
    """Return an entry's lines; the parts of a name are shown if the whole name is not."""
    whole = any(line.startswith("Name: ") for line in lines)
    start = next((line.removeprefix(_START) for line in lines if line.startswith(_START)), None)
    if start is not None:
        lines = [_END + _last_day(line.removeprefix(_END), start) if line.startswith(_END) else line for line in lines]
    shown = [
        f"Name: {line.removeprefix(_PARTS)}" if line.startswith(_PARTS) else line
        for line in lines
        if not (whole and line.startswith(_PARTS))
    ]
    return BlockDraft(kind="list", text="\n".join(shown))


def _joined(text: str) -> str:
    """Join lines that quoted-printable broke (vCard 2.1)."""
    parts: list[str] = []
    broken = False
    for line in text.split("\n"):
        if not broken and parts:
            parts.append("\n")
        quoted = broken or "QUOTED-PRINTABLE" in line.partition(":")[0].upper()
        broken = quoted and line.endswith(("=", "=\r"))
        parts.append(line.removesuffix("\r")[:-1] if broken else line)
    return "".join(parts)


def _value(name: str, parameters: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in parameters.upper():
        from quopri import decodestring

        charset = _CHARSET.search(parameters)
        value = decoded(decodestring(value.encode("utf-8", errors="replace")), charset[1] if charset else None)
    moment = _MOMENT.fullmatch(value.strip())
    if moment and name not in ("TEL", "SUMMARY", "FN"):
        year, month, day, hour, minute, _, utc = moment.groups()
        zone = "UTC" if utc else found[1] if (found := _ZONE.search(parameters)) else ""
        return f"{year}-{month}-{day}" + (f" {hour}:{minute} {zone}".rstrip() if hour else "")
    if name == "N":
        family, given, *others = [*re.split(r"(?<!\\);", value), "", ""]
        value = " ".join(filter(None, (*others[1:2], given, *others[:1], family, *others[2:3])))
    if name in ("ADR", "ORG"):
        value = ", ".join(part.strip() for part in re.split(r"(?<!\\);", value) if part.strip())
    text = _ESCAPE.sub(lambda match: " " if match.group(1) in "nN" else match.group(1), value)
    named = re.search(r";CN=(?:\"([^\"]*)\"|([^;:]*))", parameters, re.IGNORECASE)
    if named and name in ("ATTENDEE", "ORGANIZER"):
        text = f"{named.group(1) or named.group(2)} ({text})"
    reply = _REPLY.match(parameters) if name == "ATTENDEE" else None
    text = re.sub(r"^\(?mailto:", "", text, flags=re.IGNORECASE) if not named else text.replace("mailto:", "")
    return one_line(f"{text}, {reply[1].lower()}" if reply else text)


def _last_day(end: str, start: str) -> str:
    """Return the last day of an event that takes whole days: its end is the day after, or its start, as some programs write it.

    A time is returned unchanged. Source: RFC 5545, section 3.6.1
    """
    try:
        return (date.fromisoformat(end) - timedelta(days=1)).isoformat() if end > start else end
    except (ValueError, OverflowError):  # a time, or no such day
        return end
