"""`POST /api/citations/format`."""

from __future__ import annotations

from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.citations.format import Cited, citation
from serving.citations.links import link
from serving.deps import Services
from serving.references import parse_id
from serving.schemas import CitationsRequest, CitationsResponse, FormattedCitation


@post(
    "/api/citations/format",
    operation_id="formatCitations",
    status_code=200,
    tags=["search"],
    summary="Format citations",
)
async def format_citations(
    request: Request[Access, Any, Any], data: JSONBody[CitationsRequest], services: NamedDependency[Services]
) -> CitationsResponse:
    """Cite documents, numbered in the given order. Documents that the caller may not read, or that do not exist, are omitted."""
    doc_ids = list(
        dict.fromkeys(
            parse_id(text, InvalidRequestError(f"doc_ids: {text!r} is not a valid document ID."))
            for text in data.doc_ids
        )
    )
    parameters = {"doc_ids": doc_ids, **services.readable_by(request.user)}
    rows = {row["doc_id"]: row for row in await services.database.fetch("document", parameters)}
    today = services.clock().date()
    citations: list[FormattedCitation] = []
    for index, row in enumerate((rows[doc_id] for doc_id in doc_ids if doc_id in rows), start=1):
        address = link(
            base_url=services.settings.base_url,
            doc_id=row["doc_id"],
            chunk_index=None,
            url=row["url"],
            source_type=row["source_type"],
            mime_type=row["mime_type"],
        )
        cited = Cited(row["title"], row["source_type"], row["modified_at"], (), address, row["owner"])
        text = citation(cited, index, data.format, today)
        citations.append(FormattedCitation(index, text, address, row["source_type"], row["doc_id"]))
    return CitationsResponse(citations)
