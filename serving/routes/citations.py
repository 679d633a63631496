"""`POST /api/citations/format`."""

from __future__ import annotations

import uuid
from typing import Any

from litestar import Request, post
from litestar.di import NamedDependency
from litestar.params import JSONBody

from resources.core.domain import Access
from resources.core.errors import InvalidRequestError
from serving.citations.format import Cited, citation
from serving.citations.links import link
from serving.deps import Services
from serving.schemas import CitationsRequest, CitationsResponse, FormattedCitation


def _id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise InvalidRequestError(f"doc_ids: {text!r} is no document id.") from None


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
    """Cite documents, numbered in the order asked for. Those that the caller may not read, or that do not exist, are left out."""
    wanted = list(dict.fromkeys(map(_id, data.doc_ids)))
    parameters = {
        "doc_ids": wanted,
        "principals": sorted(request.user.principals),
        "fresh_since": services.fresh_since(),
    }
    rows = {row["doc_id"]: row for row in await services.database.fetch("document", parameters)}
    today = services.clock().date()
    made: list[FormattedCitation] = []
    for row in (rows[doc_id] for doc_id in wanted if doc_id in rows):
        address = link(
            base_url=services.settings.base_url,
            doc_id=row["doc_id"],
            chunk_index=None,
            url=row["url"],
            source_type=row["source_type"],
            mime_type=row["mime_type"],
        )
        index = len(made) + 1
        cited = Cited(row["title"], row["source_type"], row["modified_at"], (), address, row["owner"])
        made.append(
            FormattedCitation(
                index, citation(cited, index, data.format, today), address, row["source_type"], row["doc_id"]
            )
        )
    return CitationsResponse(made)
