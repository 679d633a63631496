"""Field types and structs that several routes share. Ids are opaque strings."""

from typing import Annotated

import msgspec
from msgspec import Meta

from serving.retrieval.query import MAX_QUERY

Question = Annotated[str, Meta(max_length=4 * MAX_QUERY)]
"""A query as sent: white space is collapsed before its 1000 characters are counted."""
Name = Annotated[str, Meta(max_length=2000)]
"""An id or a name."""
MAX_TAGS = 50


class Citation(msgspec.Struct, frozen=True):
    """The source of a result, ready to display; `link` opens the exact location."""

    index: int
    text: str
    link: str
    format: str


class Warning_(msgspec.Struct, frozen=True):  # noqa: N801 (the plain word is a builtin)
    """A limitation of this response; `code` is stable."""

    code: str
    message: str
