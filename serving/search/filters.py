"""Filters of a search as they are sent, and their validation."""

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from resources.core.errors import InvalidRequestError
from resources.core.json import is_list
from resources.core.moments import checked
from resources.sources import parse
from serving.http.fields import MAX_TAGS, Name, parse_id
from serving.search.retrieval.query import Narrowing

SourceType = Annotated[
    str,
    Meta(
        max_length=40,
        description="google_drive, slack, upload, files, or another installed source; hyphens are accepted.",
    ),
]
ShortList = Meta(max_length=100)
MAX_VALUES = 100
MAX_VALUE = 2000
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9])")
"""What a date or time begins with: Python reads 20251231 and 2025-W52, too, of which the day, or week, would not count whole."""
_READABLE = re.compile(r"[^\W_]")
_TAG = re.compile(r"[A-Za-z0-9_-]{1,64}")


TagFilter = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_TAGS,
        title="TagFilter",
        description='Values by the name of a tag: `{"dataset": "company", "topic": ["rent", "lease"]}`.',
        extra_json_schema={
            "propertyNames": {"pattern": f"^{_TAG.pattern}$"},
            "additionalProperties": {
                "anyOf": [
                    {"type": "string", "maxLength": MAX_VALUE},
                    {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
                    {"type": "boolean"},
                    {
                        "type": "array",
                        "items": {"type": "string", "maxLength": MAX_VALUE},
                        "minItems": 1,
                        "maxItems": MAX_VALUES,
                    },
                ]
            },
        },
    ),
]


DateField = Annotated[
    Literal["modified_at", "created_at"], Meta(title="DateField", description="The date of a document.")
]


class DateRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """From `start` to `end`, both included; dates (2025-12-31) or times (RFC 3339). Or the `last_days` until now."""

    start: Annotated[str, Meta(max_length=64)] | None = None
    """The first day (`2026-01-01`) or moment (RFC 3339), from 1970 on. Null: from the beginning."""
    end: Annotated[str, Meta(max_length=64)] | None = None
    """The last day, included, or the last moment. Null: until now."""
    field: DateField = "modified_at"
    """The date that must be in the range."""
    last_days: Annotated[int, Meta(ge=1, le=20_000)] | None = None
    """Days before today from which on to search, instead of `start` and `end`. Null: these."""


class Filters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of a search: any value of a list may match, and every given filter must match."""

    source_types: Annotated[list[SourceType], ShortList] = []
    """Sources: `google_drive`, `slack`, `upload`, `files`, or another installed one. Empty: all."""
    collection_ids: Annotated[list[Name], ShortList] = []
    """File roots or folders with everything below them, Drive folders, Slack channels or upload days. Empty: all."""
    document_ids: Annotated[list[Name], Meta(max_length=1000)] = []
    """IDs of documents (`doc_id`). Empty: all."""
    mime_types: Annotated[list[Name], ShortList] = []
    """MIME types, such as `application/pdf`. Empty: all."""
    authors: Annotated[list[Name], ShortList] = []
    """Authors: emails, or names as the source gives them. Empty: all."""
    tags: TagFilter = {}
    """Tags that a document must have: a value, or a list of which one must match. At most 50."""
    date_range: DateRange | None = None
    """The dates of the documents. Null: all."""
    without: Annotated[list[Name], ShortList] = []
    """Words and phrases that neither the passage nor its headings and title may have. Empty: none."""
    include_archived: bool = False
    """True to include documents tagged `lifecycle: archived`."""


def dated(filters: Filters | None, today: date) -> Filters | None:
    """Return filters whose `last_days` are a first day. Raises `InvalidRequestError` if a first or last day is given, too."""
    wanted = filters.date_range if filters is not None else None
    if filters is None or wanted is None or wanted.last_days is None:
        return filters
    if wanted.start or wanted.end:
        raise InvalidRequestError("filters.date_range: give last_days, or start and end.")
    start = (today - timedelta(days=wanted.last_days)).isoformat()
    return msgspec.structs.replace(filters, date_range=DateRange(start=start, field=wanted.field))


Naming = Callable[[str], str]
"""Returns how a request names a field of `Filters`."""


def in_filters(field: str) -> str:
    return f"filters.{field}"


def _moment(text: str, field: str, *, end: bool) -> datetime:
    try:
        moment = datetime.fromisoformat(text if _DAY.match(text) else "")
    except ValueError:
        detail = f"{field}: {text!r} is not a valid date; write 2025-12-31 or 2025-12-31T18:00:00Z."
        raise InvalidRequestError(detail) from None
    moment = checked(moment, field)
    after = timedelta(days=1) if len(text) == 10 else timedelta(microseconds=1)
    return moment + after if end else moment


def _range(wanted: DateRange | None, naming: Naming) -> tuple[str, datetime | None, datetime | None]:
    if wanted is None:
        return "modified_at", None, None
    since = _moment(wanted.start, naming("date_range.start"), end=False) if wanted.start else None
    before = _moment(wanted.end, naming("date_range.end"), end=True) if wanted.end else None
    if since and before and since >= before:
        raise InvalidRequestError(f"{naming('date_range')}: start comes after end.")
    return wanted.field, since, before


def _document_id(text: str, naming: Naming) -> str:
    return parse_id(text, InvalidRequestError(f"{naming('document_ids')}: {text!r} is not a valid document ID."))


def _tag_values(key: str, value: Any, naming: Naming) -> tuple[str, tuple[Any, ...]]:
    if not _TAG.fullmatch(key):
        raise InvalidRequestError(
            f"{naming('tags')}: {key!r} is not a valid tag name; use letters, digits, `_` and `-`, at most 64."
        )
    values: list[Any] = value if is_list(value) else [value]
    field = naming(f"tags.{key}")
    if len(values) > MAX_VALUES:
        raise InvalidRequestError(f"{field}: has {len(values)} values; the limit is {MAX_VALUES}.")
    if any(isinstance(one, str) and len(one) > MAX_VALUE for one in values):
        raise InvalidRequestError(f"{field}: a value has more than {MAX_VALUE} characters.")
    if any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in values):
        raise InvalidRequestError(f"{field}: a number must fit into 64 bits.")
    if not values or not all(isinstance(one, str | int | bool) for one in values):
        raise InvalidRequestError(f"{field}: give a text, a whole number, true or false, or a list of texts.")
    if len(values) > 1 and not all(isinstance(one, str) for one in values):
        raise InvalidRequestError(f"{field}: a list holds texts only.")
    return key, (*values, *(typed for one in values if isinstance(one, str) for typed in _typed(one)))


def _typed(text: str) -> Iterator[int | float | bool]:
    """Yield the number, true or false that JSON writes as this text, and facets return as it."""
    try:
        value = msgspec.json.decode(text, type=int | float | bool)
    except msgspec.MsgspecError:
        return
    fits = isinstance(value, float) or -(2**63) <= value < 2**63
    if fits and msgspec.json.encode(value).decode() == text:
        yield value


def _excluded(words: str, naming: Naming) -> str:
    if not _READABLE.search(words):
        raise InvalidRequestError(f"{naming('without')}: {words!r} has no letter or digit.")
    return words


def sources_of(texts: Iterable[str], naming: Naming = in_filters) -> list[str]:
    """Return the names of sources, sorted. Raises `InvalidRequestError` naming the field."""
    try:
        return sorted({parse(text).value for text in texts})
    except ValueError as error:
        raise InvalidRequestError(f"{naming('source_types')}: {error}") from None


def narrowing(filters: Filters | None, naming: Naming = in_filters) -> Narrowing:
    """Validate filters. Raises `InvalidRequestError` naming the field."""
    if filters is None:
        return Narrowing()
    field, since, before = _range(filters.date_range, naming)
    return Narrowing(
        source_types=tuple(sources_of(filters.source_types, naming)),
        collection_ids=tuple(sorted(set(filters.collection_ids))),
        document_ids=tuple(sorted({_document_id(doc_id, naming) for doc_id in filters.document_ids})),
        mime_types=tuple(sorted(set(filters.mime_types))),
        authors=tuple(sorted(set(filters.authors))),
        tags=tuple(sorted(_tag_values(key, value, naming) for key, value in filters.tags.items())),
        field=field,
        since=since,
        before=before,
        include_archived=filters.include_archived,
        without=tuple(sorted({_excluded(words, naming) for words in filters.without})),
    )
