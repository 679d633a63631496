"""A client of Concordance: search, ask, upload, list and sync.

`Client` and `AsyncClient` have a method for each operation of the service, with the fields of its documentation as keyword arguments.
"""

from concordance_client._call import Call
from concordance_client._generated.models import (
    AnswerEvent,
    AnswerResponse,
    CheckEvent,
    RestartEvent,
    Result,
    SearchResponse,
    SourcesEvent,
    TokenEvent,
)
from concordance_client._generated.params import DateRange, Filters, Message, Selection
from concordance_client._retry import Retries
from concordance_client.async_client import AsyncClient
from concordance_client.client import Client
from concordance_client.errors import (
    AnswerInterruptedError,
    AuthenticationError,
    ConcordanceError,
    ConflictError,
    DeadlineError,
    ForbiddenError,
    InvalidRequestError,
    NotFoundError,
    ProblemError,
    RateLimitedError,
    RefusedContentError,
    ResponseError,
    UnavailableError,
    UnreachableError,
)

__all__ = [
    "AnswerEvent",
    "AnswerInterruptedError",
    "AnswerResponse",
    "AsyncClient",
    "AuthenticationError",
    "Call",
    "CheckEvent",
    "Client",
    "ConcordanceError",
    "ConflictError",
    "DateRange",
    "DeadlineError",
    "Filters",
    "ForbiddenError",
    "InvalidRequestError",
    "Message",
    "NotFoundError",
    "ProblemError",
    "RateLimitedError",
    "RefusedContentError",
    "ResponseError",
    "RestartEvent",
    "Result",
    "Retries",
    "SearchResponse",
    "Selection",
    "SourcesEvent",
    "TokenEvent",
    "UnavailableError",
    "UnreachableError",
]
