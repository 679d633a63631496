"""Types of fields and parameters that several rooms share. Ids are opaque strings."""

import contextlib
import uuid
from typing import Annotated, Any

from litestar.params import PathParameter, QueryParameter
from msgspec import Meta

from serving.http.cursors import MAX_CURSOR

Name = Annotated[str, Meta(max_length=2000)]
"""An id or a name."""
MAX_TAGS = 50
NewTags = Annotated[
    dict[str, Any],
    Meta(
        max_length=MAX_TAGS,
        title="NewTags",
        description="Tags by name: texts, numbers, true, false, or lists. Names have at most 200 characters, all together 16 kB.",
    ),
]
"""Tags of a document as they are sent."""
DocumentId = Annotated[str, PathParameter(description="ID of the document (`doc_id`).")]
JobId = Annotated[str, PathParameter(description="ID of the job (`job_id`).")]
PAGE, MAX_PAGE = 50, 200
"""Entries of a page by default, and at most."""
Limit = Annotated[int, QueryParameter(ge=1, le=MAX_PAGE, description="Entries of a page at most.")]
Cursor = Annotated[
    str | None,
    QueryParameter(max_length=MAX_CURSOR, description="`next_cursor` of the page before. Absent: the first page."),
]


def own_id(text: str) -> str | None:
    """Return an id in canonical form, None if it is not a UUID."""
    with contextlib.suppress(ValueError):
        return str(uuid.UUID(text))
    return None


def parse_id(text: str, error: Exception) -> str:
    """Return an id in canonical form. Raises `error` if it is not a UUID."""
    if (known := own_id(text)) is None:
        raise error
    return known
