"""`POST /api/citations/format`."""

from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from msgspec import Meta

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.http.fields import Name, parse_id
from serving.http.openapi import examples
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.citations.format import Cited, Format, citation
from serving.search.citations.links import link
from serving.search.service import SearchServices
from sql.serving import WebReads


class FormattedCitation(msgspec.Struct, frozen=True):
    """A citation of one document."""

    index: int
    """The number of the citation, from 1."""
    text: str
    """The citation in the requested format."""
    link: str
    """Opens the document."""
    source_type: str
    """The source of the document."""
    doc_id: str
    """ID of the document."""


class CitationsRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to cite, numbered in this order."""

    doc_ids: Annotated[list[Name], Meta(min_length=1, max_length=100)]
    """IDs of 1 to 100 documents; they are numbered in this order."""
    format: Format = "inline"
    """The format of the citations."""


class CitationsResponse(msgspec.Struct, frozen=True):
    """Citations of the documents that the caller may read."""

    citations: list[FormattedCitation]
    """The citations, in the requested order."""


@post(
    "/api/citations/format",
    operation_id="formatCitations",
    status_code=200,
    tags=["search"],
    summary="Format citations",
    opt=limited("read")
    | described(
        repeatable=True,
        request={"doc_ids": ["b0b7d7de-bebc-5e18-a3b3-ea9bedcf5706"], "format": "footnote"},
        example=examples.FORMATTED,
    ),
)
async def format_citations(
    request: Request[Access, Any, Any], data: JSONBody[CitationsRequest], search: NamedDependency[SearchServices]
) -> CitationsResponse:
    """Cite documents, numbered in the given order. Documents that the caller may not read, or that do not exist, are omitted."""
    doc_ids = list(
        dict.fromkeys(
            parse_id(text, InvalidRequestError(f"doc_ids: {text!r} is not a valid document ID."))
            for text in data.doc_ids
        )
    )
    readable = await WebReads(search.http.database).document(doc_ids=doc_ids, **search.http.readable_by(request.user))
    documents = {one.doc_id: one for one in readable}
    today = search.http.clock().date()
    citations: list[FormattedCitation] = []
    for index, one in enumerate((documents[doc_id] for doc_id in doc_ids if doc_id in documents), start=1):
        address = link(
            base_url=search.http.settings.base_url,
            doc_id=one.doc_id,
            chunk_index=None,
            url=one.url,
            source_type=one.source_type,
            mime_type=one.mime_type,
        )
        text = citation(Cited.at(one, address), index, data.format, today)
        citations.append(FormattedCitation(index, text, address, one.source_type, one.doc_id))
    return CitationsResponse(citations)
