"""Citations in five text formats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from msgspec import Meta

from resources.core.moments import long_date, short_date
from resources.sources import capabilities, label

if TYPE_CHECKING:
    from serving.search.retrieval.passage import Passage
    from sql.serving_rows import Document

Format = Annotated[
    Literal["inline", "key", "footnote", "endnote", "prose"],
    Meta(
        title="CitationFormat",
        description="`inline`: `[1] Title (Files, Nov 10)`. `key`: `[1] 2025-11-10 | Files | Title`. `footnote`, `endnote`: with the link."
        " `prose`: `According to [Chapter - Section]`.",
    ),
]
_CONTROL = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]+")


class Cited(NamedTuple):
    """The cited document. `owner` is named for uploads, since anyone may upload; `collection` for pushed documents."""

    title: str
    source_type: str
    modified_at: datetime | None
    section_path: Sequence[str]
    link: str
    owner: str | None = None
    collection: str | None = None

    @classmethod
    def at(cls, found: Document | Passage, link: str, section_path: Sequence[str] = ()) -> Cited:
        """Return what a citation says of a document or passage, with the link to the place."""
        return cls(
            found.title, found.source_type, found.modified_at, section_path, link, found.owner, found.collection_id
        )


def origin(cited: Cited) -> str:
    """Return the source's display name, for an upload with its uploader, for a pushed document that of its collection."""
    source = label(cited.source_type, cited.collection)
    if cited.owner and capabilities(cited.source_type).by_anyone:
        return f"{source} by {_one_line(cited.owner)}"
    return source


def _one_line(text: str) -> str:
    return " ".join(_CONTROL.sub(" ", text).split())


def _place(cited: Cited) -> str:
    path = [_one_line(part) for part in cited.section_path if part.strip()]
    title = _one_line(cited.title)
    if len(path) >= 2:
        return f"{path[0]} - {path[-1]}"
    if path and path[0] != title:
        return f"{title} - {path[0]}"
    return title


def citation(cited: Cited, index: int, style: Format, today: date) -> str:
    """Return the citation's text; `index` counts from 1."""
    title, source = _one_line(cited.title), origin(cited)
    day = cited.modified_at.date() if cited.modified_at else None
    match style:
        case "inline":
            inside = f"{source}, {short_date(day, today)}" if day else source
            return f"[{index}] {title} ({inside})"
        case "key":
            return f"[{index}] {day.isoformat() if day else 'undated'} | {source} | {title}"
        case "footnote" | "endnote":
            mark = f"[^{index}]:" if style == "footnote" else f"{index}."
            when = long_date(day) if day else "undated"
            return f"{mark} {title}. {source}, {when}. {cited.link}"
        case "prose":
            by = (
                f", uploaded by {_one_line(cited.owner)}"
                if cited.owner and capabilities(cited.source_type).by_anyone
                else ""
            )
            return f"According to [{_place(cited)}]{by}"
