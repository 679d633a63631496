"""Filters of the templates: names, dates and highlights as people read them."""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec
from markupsafe import Markup, escape

from resources.core.durations import age_of
from resources.core.filetypes import (
    DOCX,
    EPUB,
    MSG,
    NOTEBOOK,
    ODP,
    ODS,
    ODT,
    PPTX,
    RTF,
    SOURCE_CODE,
    XLS,
    XLSB,
    XLSX,
    ZIP,
)
from resources.core.moments import long_date
from resources.core.permissions import PUBLIC
from resources.sources import label
from resources.sources.slack.documents import MIME_TYPE as CONVERSATION
from serving.web.static import FOLDER

KINDS: Mapping[str, str] = {
    "application/pdf": "PDF",
    DOCX: "Word",
    PPTX: "PowerPoint",
    XLSX: "Excel",
    ODT: "OpenDocument",
    ODS: "OpenDocument spreadsheet",
    ODP: "OpenDocument presentation",
    XLS: "Excel",
    XLSB: "Excel",
    NOTEBOOK: "Notebook",
    ZIP: "Zip archive",
    "text/calendar": "Calendar",
    "text/vcard": "Contacts",
    RTF: "Rich text",
    EPUB: "E-book",
    MSG: "Email",
    "message/rfc822": "Email",
    "text/markdown": "Markdown",
    "text/plain": "Text",
    "text/html": "Web page",
    "text/csv": "CSV",
    "text/tab-separated-values": "TSV",
    "application/json": "JSON",
    "application/x-ndjson": "JSON",
    "application/xml": "XML",
    "application/yaml": "YAML",
    "image/png": "Image",
    "image/jpeg": "Image",
    SOURCE_CODE: "Source code",
    CONVERSATION: "Conversation",
    "application/vnd.google-apps.document": "Google Docs",
    "application/vnd.google-apps.spreadsheet": "Google Sheets",
    "application/vnd.google-apps.presentation": "Google Slides",
}
TYPE_ICONS: Mapping[str, str] = {
    "PDF": "pdf",
    "Excel": "sheet",
    "OpenDocument spreadsheet": "sheet",
    "Google Sheets": "sheet",
    "CSV": "sheet",
    "TSV": "sheet",
    "PowerPoint": "slides",
    "OpenDocument presentation": "slides",
    "Google Slides": "slides",
    "Image": "image",
    "Conversation": "chat",
    "Email": "mail",
    "Zip archive": "archive",
    "Web page": "web",
    "Source code": "code",
    "Notebook": "code",
    "JSON": "code",
    "XML": "code",
    "YAML": "code",
}
"""Icons of file types by their names; others have that of a text."""
PARTS: Mapping[str, str] = {
    "dense": "Meaning",
    "keyword": "Words of the query",
    "frequency": "Rare mention",
    "expansion": "Similar wording",
    "rerank": "Reranked",
    "recency": "Recent",
    "limit": "Limit",
}
"""What the parts of a score are called on pages."""
ORIGINS: Mapping[str, str] = {
    "email": "your address",
    "token": "your token",
    "key": "your API key",
    "session": "your sign-in",
    "google_directory": "Google's directory",
    "groups_file": "the file of groups",
    "scim": "your company's directory (SCIM)",
}
"""Where a principal comes from, by the name of its origin."""
BROWSERS: Mapping[str, str] = {"Edg/": "Edge", "Firefox/": "Firefox", "Chrome/": "Chrome", "Safari/": "Safari"}
SYSTEMS: Mapping[str, str] = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "Mac OS": "macOS",
    "Linux": "Linux",
}
"""Parts of what a browser says of itself. The first that occurs counts: most name several."""
_ICONS = frozenset(re.findall(r'<symbol id="(\w+)"', (FOLDER / "icons.svg").read_text("utf-8")))


class HasRange(Protocol):
    """A range of characters of a text."""

    @property
    def start(self) -> int: ...

    @property
    def end(self) -> int: ...


def kind(mime_type: str) -> str:
    """Return the name of a file type."""
    return KINDS.get(mime_type, mime_type.rpartition("/")[2])


def day(moment: datetime | None) -> str:
    """Return `3 Nov 2025`, or nothing for an unknown date."""
    return long_date(moment.date()) if moment else ""


def minute(moment: datetime) -> str:
    """Return `3 Nov 2025, 14:05 UTC`."""
    return f"{day(moment)}, {moment:%H:%M} UTC"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return `5 min ago`, or `never`."""
    return f"{age_of(moment, now)} ago" if moment else "never"


def browser(agent: str) -> str:
    """Return a browser's name and system, such as `Firefox on Linux`, or what it says of itself."""
    found = [next((name for mark, name in names.items() if mark in agent), "") for names in (BROWSERS, SYSTEMS)]
    return " on ".join(filter(None, found)) or agent or "Unknown browser"


def origin(name: str) -> str:
    """Return where a principal comes from."""
    return ORIGINS.get(name) or label(name)


def exact(moment: datetime | None) -> str:
    """Return `2025-11-03 14:05 UTC`, or nothing."""
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else ""


def number(value: float) -> str:
    """Return a whole number with separators."""
    return f"{value:,.0f}"


def icon(source_type: str) -> str:
    """Return the name of a source's icon."""
    return source_type if source_type in _ICONS else "files"


def type_icon(mime_type: str) -> str:
    """Return the name of a file type's icon."""
    return TYPE_ICONS.get(kind(mime_type), "text")


def initials(who: str) -> str:
    """Return one or two letters for a name or an address: MK for Marta Kowalska and for marta.kowalska@acme.com."""
    words = re.findall(r"[^\W\d_]+", who.partition("@")[0])
    return "".join(word[0] for word in [*words[:1], *words[1:][-1:]]).upper() or who[:1].upper()


def marked(text: str, spans: Sequence[HasRange]) -> Markup:
    """Return the escaped text with these ranges marked. They are in order and do not overlap."""
    parts: list[str] = []
    at = 0
    for span in spans:
        parts.append(f"{escape(text[at : span.start])}<mark>{escape(text[span.start : span.end])}</mark>")
        at = span.end
    return Markup("".join(parts)) + text[at:]  # noqa: S704 (each part is escaped)


def reader(principal: str) -> str:
    """Return how a principal is called where people read or choose who may read a document."""
    kind, colon, name = principal.partition(":")
    if principal == PUBLIC:
        return "Everyone"
    words = {"domain": "Everyone at", "group": "Group", "slack": "Slack workspace"}
    return f"{words[kind]} {name}" if colon and kind in words else principal


def megabytes(count: int) -> str:
    """Return a number of bytes as people read it."""
    return f"{count / (1024 * 1024):.0f} MB"


def as_json(value: Any) -> str:
    """Return a value as JSON, for a data attribute."""
    return msgspec.json.encode(value).decode()


def part(name: str) -> str:
    """Return what a part of a score is called."""
    return PARTS.get(name, name.capitalize())


def own(address: str, base_url: str) -> str:
    """Return an address of this service as a path, so that it also works under another of its names; others as they are."""
    return address.removeprefix(base_url) if address.startswith(f"{base_url}/") else address


class ChipText(Protocol):
    """A filter that was understood in a query."""

    @property
    def operator(self) -> bool: ...

    @property
    def kind(self) -> str: ...

    @property
    def text(self) -> str: ...


_OPERATORS: Mapping[str, str] = {"author": "From", "place": "In", "channel": "In", "source": "In", "without": "Without"}


def chip(one: ChipText) -> str:
    """Return what the chip of a filter says: Type: pdf."""
    if not one.operator:
        return f"{one.kind.capitalize()}: {one.text}"
    value = one.text.removeprefix("-") if one.kind == "without" else one.text.partition(":")[2]
    return f"{_OPERATORS.get(one.kind, one.kind.capitalize())}: {value.strip(chr(34))}"


FILTERS: Mapping[str, Callable[..., Any]] = {
    "ago": ago,
    "browser": browser,
    "chip": chip,
    "day": day,
    "exact": exact,
    "icon": icon,
    "initials": initials,
    "json": as_json,
    "kind": kind,
    "label": label,
    "marked": marked,
    "megabytes": megabytes,
    "origin": origin,
    "minute": minute,
    "number": number,
    "own": own,
    "part": part,
    "reader": reader,
    "type_icon": type_icon,
}
