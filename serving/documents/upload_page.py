"""The upload page, `/upload`: send files, and the list of one's uploads."""

from __future__ import annotations

from typing import Any

from litestar import Request, Response
from litestar.di import NamedDependency

from resources.core.domain import SourceName
from resources.core.filetypes import SUPPORTED_EXTENSIONS, SUPPORTED_MIME_TYPES
from serving.documents.listing import listed
from serving.documents.service import DocumentServices
from serving.identity.visitor import PART, page_route, signed_in
from serving.search.filters import Filters, narrowing
from serving.web.formats import kind
from serving.web.render import view

PAGE_SIZE = 20


@page_route("/upload", "uploadPage", "search")
async def upload_page(request: Request[Any, Any, Any], documents: NamedDependency[DocumentServices]) -> Response[str]:
    """Show the form and the caller's uploads; to a script that asks for a part, the uploads alone."""
    access = await signed_in(request, documents.identity)
    own = Filters(source_types=[SourceName.UPLOAD], authors=[access.email], include_archived=True)
    uploads = await listed(
        documents, access, narrowing(own), limit=PAGE_SIZE, cursor=request.query_params.get("cursor")
    )
    if PART in request.headers:
        return view("parts/uploads.html", access, uploads=uploads)
    return view(
        "upload.html",
        access,
        script="upload.js",
        here="/upload",
        uploads=uploads,
        limit=documents.http.settings.max_upload_bytes,
        endings=",".join(SUPPORTED_EXTENSIONS),
        types=sorted({kind(one) for one in SUPPORTED_MIME_TYPES}, key=str.casefold),
    )
