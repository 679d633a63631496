"""`POST /api/documents/{source}/batch`: push several documents."""

from contextlib import suppress
from typing import Annotated, Any

import msgspec
from litestar import Request, post
from litestar.di import NamedDependency
from msgspec import UNSET, Meta, UnsetType

from resources.core.domain import Access, Role
from resources.core.errors import (
    ConcordanceError,
    InvalidRequestError,
    QuotaExceededError,
    SkipDocumentError,
    StorageFullError,
    StorageReadOnlyError,
)
from serving.documents.intake import MAX_CONTENT
from serving.documents.push import EXAMPLE, PUSHED, PushOutcome, PushSource, launch_push_sync, push_collection
from serving.documents.pushing import MAX_DOCUMENTS, BatchDocument, checked_id, decode, store, write_inline
from serving.documents.receiver import Kept
from serving.documents.service import DocumentServices
from serving.http.errors import DISK_PROBLEMS, ProblemError, explain
from serving.http.idempotency import do_again, idempotent
from serving.http.openapi.describe import described
from serving.http.problems import PREFIX
from serving.http.request_limits import limited
from serving.http.roles import NeedsRole


class BatchRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents, which are stored in this order, each on its own."""

    documents: Annotated[list[BatchDocument], Meta(min_length=1, max_length=MAX_DOCUMENTS)]
    """The documents."""


class _RawBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The same, with documents that are decoded one by one, so that an invalid one doesn't affect the others."""

    documents: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=MAX_DOCUMENTS)]


class _DocumentId(msgspec.Struct, frozen=True):
    """The id of a document that may otherwise be invalid."""

    id: str


class RefusedDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Reason why a document of a batch was not stored."""

    type: str
    """The problem, as in the responses of single requests: `/problems/` and its name."""
    detail: str
    """What is wrong with the document, or the fault that ended the batch before it, and what to do about it."""


class BatchResult(msgspec.Struct, frozen=True, kw_only=True):
    """Result for one document; `error` is set if it was not stored."""

    id: str | None
    """Your own id of the document; null if it could not be read."""
    doc_id: str | None = None
    """ID of the document; null if it was refused."""
    status: PushOutcome | None = None
    """What the push did; null if the document was refused."""
    job_id: str | None = None
    """The job that indexes it; null if nothing was written."""
    error: RefusedDocument | UnsetType = UNSET
    """Why it was refused."""


class BatchResponse(msgspec.Struct, frozen=True):
    """Results of the documents, in the order of the request."""

    results: list[BatchResult]
    """One entry for each document."""
    refused: int
    """Number of documents that were refused."""


@post(
    "/api/documents/{source:str}/batch",
    operation_id="pushDocuments",
    status_code=200,
    tags=["documents"],
    summary="Push documents",
    request_max_body_size=MAX_CONTENT,
    guards=[NeedsRole(Role.PUBLISHER)],
    opt=limited("ingest")
    | idempotent()
    | described(
        repeatable=True,
        parameters={"source": "wiki"},
        raw_body=BatchRequest,
        request={"documents": [{"id": "kitchen/tea", **EXAMPLE}]},
        example={"results": [PUSHED], "refused": 0},
    ),
)
async def push_documents(
    request: Request[Access, Any, Any], source: PushSource, documents: NamedDependency[DocumentServices]
) -> BatchResponse:
    """Store up to 100 documents, together at most 8 MB, and start indexing them. Needs the role `publisher`.

    Each is stored or refused on its own; `results` says which. A full disk ends the batch, and the rest is refused. Sent again, what is
    stored already changes nothing.
    """
    collection = await push_collection(documents, source)
    results: list[BatchResult] = []
    stored: list[Kept] = []
    given = [(raw, _own_id(raw)) for raw in decode(await request.body(), _RawBatch).documents]
    for position, (raw, own_id) in enumerate(given):
        try:
            document = decode(raw, BatchDocument)
            checked_id(document.id)
            with documents.http.blobs.writer() as writer:
                received = await documents.http.lake_threads.run(write_inline, documents, document, document.id, writer)
                one = await store(documents, request.user, collection, document.id, received, writer)
        except (InvalidRequestError, SkipDocumentError, ProblemError) as error:
            results.append(BatchResult(id=own_id, error=_refusal(error)))
        except Exception as error:
            if not stored or not _lasts(error):  # sent again as it is, what is stored changes nothing
                await launch_push_sync(documents, request.user, stored)
                raise
            explained = explain(error, documents.http.monitor.disk_faults, reads=False)
            fault = RefusedDocument(type=PREFIX + explained.slug, detail=explained.detail)
            results += [BatchResult(id=one_id, error=fault) for _, one_id in given[position:]]
            break
        else:
            stored.append(one)
            results.append(BatchResult(id=own_id, doc_id=one.doc_id, status=one.outcome, job_id=one.job_id))
    refused = len(results) - len(stored)
    if refused:
        do_again(request)
    documents.http.metrics.pushed.labels("refused").inc(refused)
    await launch_push_sync(documents, request.user, stored)
    return BatchResponse(results, refused)


def _own_id(raw: msgspec.Raw) -> str | None:
    with suppress(ConcordanceError):
        return checked_id(decode(raw, _DocumentId).id)
    return None


def _lasts(error: Exception) -> bool:
    """Return True if a fault does not pass by itself, so that all documents that follow would meet it."""
    if isinstance(error, OSError):
        return error.errno in DISK_PROBLEMS
    return isinstance(error, StorageFullError | StorageReadOnlyError | QuotaExceededError)


def _refusal(error: ConcordanceError) -> RefusedDocument:
    slug = "unsupported-type" if isinstance(error, SkipDocumentError) else "invalid-request"
    return RefusedDocument(type=PREFIX + (error.slug if isinstance(error, ProblemError) else slug), detail=str(error))
