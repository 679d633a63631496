"""Field types and structs that several routes share. Ids are opaque strings."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from serving.http.invalid import COLLAPSED
from serving.search.citations.format import Format
from serving.search.retrieval.query import MAX_QUERY

Question = Annotated[str, Meta(max_length=4 * MAX_QUERY, extra_json_schema={"minLength": 1, COLLAPSED: MAX_QUERY})]
"""A query as sent: white space is collapsed before its 1000 characters are counted."""
SearchMode = Annotated[
    Literal["hybrid", "vector", "keyword"],
    Meta(title="SearchMode", description="`hybrid`: by meaning and keywords. `vector`: by meaning. `keyword`: BM25."),
]
Fusion = Annotated[
    Literal["weighted", "rrf", "dbsf", "minmax"],
    Meta(
        title="Fusion",
        description="How the two searches are combined. `weighted`: by calibrated scores. `rrf`: by ranks. `dbsf`, `minmax`: by scores"
        " rescaled for each query.",
    ),
]
DenseWeight = Annotated[
    float,
    Meta(
        ge=0,
        le=1,
        title="DenseWeight",
        description="Share of the search by meaning in the fusions `weighted` and `rrf`; keywords have the rest.",
    ),
]


class Citation(msgspec.Struct, frozen=True):
    """The source of a result, ready to display; `link` opens the exact location."""

    index: int
    """The number of the citation, from 1; `[n]` in an answer refers to it."""
    text: str
    """The citation in the requested format."""
    link: str
    """Opens the document at the cited passage."""
    format: Format
    """The format of `text`."""
