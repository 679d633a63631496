"""`GET /api/why`."""

import asyncio
from typing import Annotated, Any

from litestar import Request, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from resources.core.domain import Access
from resources.core.errors import ConcordanceError
from resources.logging import logger
from resources.stores.qdrant import qdrant_errors
from serving.http.audit import AuditEvent
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.search.references import MAX_LENGTH, reference
from serving.search.retrieval.plan import filter_for
from serving.search.retrieval.query import MAX_QUERY, Narrowing
from serving.search.searches import enforce_rate_limit, ranking
from serving.search.service import SearchServices
from serving.search.trace import NO_DOCUMENT, RANKS, Trace, parameters, rank_of, trace
from sql.serving import WebReads

COUNT_SECONDS = 5.0

log = logger("serving")


@get(
    "/api/why",
    operation_id="why",
    tags=["documents"],
    summary="Why can't I find this document?",
    opt=limited("search")
    | described(
        parameters={"source": "files:company/executive/project-sandpiper.md", "query": "Sandpiper"},
        example={
            "found": True,
            "state": "live",
            "reason": None,
            "notes": [{"kind": "removed", "text": "12 repeated headers, footers and page numbers were left out."}],
            "permitted": True,
            "rank": 3,
            "stages": {"seen": True, "parsed": True, "chunked": 4, "embedded": 4, "indexed": True},
            "shared_with": ["ann@acme.com", "group:sales@acme.com"],
            "access_by": ["ann@acme.com"],
        },
    ),
)
async def why(
    request: Request[Access, Any, Any],
    search: NamedDependency[SearchServices],
    source: Annotated[
        str,
        QueryParameter(
            min_length=1,
            max_length=MAX_LENGTH,
            description="A source ID (also `files:ROOT/path`), a `doc_id`, or a link to the document.",
        ),
    ],
    asked: Annotated[
        str | None,
        QueryParameter(name="query", max_length=MAX_QUERY, description="A query for which to return the rank."),
    ] = None,
) -> Trace:
    """Explain why a document is not found, by source id or link, from its source to its rank for a query.

    An unknown document and one that the caller may not read give the same response after the same work, for administrators too.
    """
    access = request.user
    await enforce_rate_limit(search, access)
    named = reference(source)
    row = await WebReads(search.http.database).why(
        **parameters(named), **search.http.readable_by(access), operator=False
    )
    doc_id = row.doc_id if row is not None else NO_DOCUMENT
    shares = await WebReads(search.http.database).shares(doc_id=doc_id, email=access.email)
    points, rank, narrowed = await _points(search, access, doc_id), None, list[str]()
    if asked is not None:
        passages, narrowed = await ranking(search, asked, access, top_k=RANKS, action="why")
        rank = rank_of(doc_id, passages)
    else:
        doc_ids = [doc_id] if row is not None else []
        await search.http.audit.record(AuditEvent(email=access.email, action="why", doc_ids=doc_ids))
    return trace(
        row,
        points=points,
        asked=asked is not None,
        rank=rank,
        narrowed=narrowed,
        max_age=search.http.acl_max_age,
        shares=shares,
        principals=access.principals,
    )


async def _points(search: SearchServices, access: Access, doc_id: str) -> int | None:
    """Return the number of a document's points that this caller can find; None if the index does not answer."""
    of_document = filter_for(access, Narrowing(document_ids=(doc_id,), include_archived=True))
    collection = search.embedder.collection
    try:
        with qdrant_errors("count points"):
            async with asyncio.timeout(COUNT_SECONDS):
                return (await search.http.qdrant.count(collection, count_filter=of_document, exact=True)).count
    except (TimeoutError, ConcordanceError) as error:
        log.warning("qdrant_unavailable", error=str(error))
        return None
