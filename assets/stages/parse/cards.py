"""Parse calendars (.ics) and address books (.vcf): each entry becomes a list of its properties.

Source: RFC 5545 (iCalendar), RFC 6350 (vCard), sections 3.1 to 3.3.
"""

import re
from collections.abc import Iterator

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.decoding import decode
from assets.stages.parse.result import Parsed

_FOLD = re.compile(r"\r?\n[ \t]")
_SOFT_BREAK = re.compile(r"=\r?\n")
_PROPERTY = re.compile(r"(?:[\w-]+\.)?([\w-]+)((?:;[^:;\"]*(?:\"[^\"]*\"[^:;\"]*)*)*):(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\([nN,;:\\\\])")
_MOMENT = re.compile(r"(\d{4})(\d\d)(\d\d)(?:T(\d\d)(\d\d)(\d\d)Z?)?")
_LEFT_OUT = frozenset({
    "VERSION", "PRODID", "UID", "REV", "DTSTAMP", "SEQUENCE", "CREATED", "LAST-MODIFIED", "PHOTO", "LOGO", "KEY", "SOUND", "CALSCALE",
    "METHOD", "TRANSP", "CLASS", "N", "ATTACH", "ACTION", "TRIGGER", "TZID", "TZURL", "PRIORITY",
})  # fmt: skip
"""Properties for programs only."""
_COMPONENTS = frozenset({"VTIMEZONE", "STANDARD", "DAYLIGHT", "VALARM"})
_NAMES = {
    "DTSTART": "Start", "DTEND": "End", "SUMMARY": "Summary", "FN": "Name", "TEL": "Phone", "ADR": "Address", "ORG": "Organization",
    "RRULE": "Repeats", "DUE": "Due", "BDAY": "Birthday", "URL": "URL",
}  # fmt: skip


def parse(data: bytes) -> Parsed:
    """Return the entries of a calendar or an address book."""
    decoded, warnings = decode(data)
    return Parsed(drafts=list(_entries(_FOLD.sub("", decoded))), warnings=warnings)


def _entries(text: str) -> Iterator[BlockDraft]:
    lines: list[str] = []
    ignored = ""
    for line in clean(_joined(text)).split("\n"):
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
                yield BlockDraft(kind="list", text="\n".join(lines))
            lines = []
        elif not ignored and name not in _LEFT_OUT and not name.startswith("X-"):
            shown = _value(name, parameters, value)
            if shown:
                lines.append(f"{_NAMES.get(name, name.capitalize())}: {shown}")
    if lines:
        yield BlockDraft(kind="list", text="\n".join(lines))


def _joined(text: str) -> str:
    """Join lines that quoted-printable broke (vCard 2.1)."""
    return _SOFT_BREAK.sub("", text) if "QUOTED-PRINTABLE" in text.upper() else text


def _value(name: str, parameters: str, value: str) -> str:
    if "QUOTED-PRINTABLE" in parameters.upper():
        from quopri import decodestring

        value = decodestring(value.encode("utf-8", errors="replace")).decode("utf-8", errors="replace")
    moment = _MOMENT.fullmatch(value.strip())
    if moment and name not in ("TEL", "SUMMARY", "FN"):
        year, month, day, hour, minute, _ = moment.groups()
        return f"{year}-{month}-{day}" + (f" {hour}:{minute}" if hour else "")
    if name in ("ADR", "ORG"):
        value = ", ".join(part.strip() for part in re.split(r"(?<!\\);", value) if part.strip())
    text = _ESCAPE.sub(lambda match: " " if match.group(1) in "nN" else match.group(1), value)
    named = re.search(r";CN=(?:\"([^\"]*)\"|([^;:]*))", parameters, re.IGNORECASE)
    if named and name in ("ATTENDEE", "ORGANIZER"):
        text = f"{named.group(1) or named.group(2)} ({text})"
    return one_line(re.sub(r"^\(?mailto:", "", text, flags=re.IGNORECASE) if not named else text.replace("mailto:", ""))
