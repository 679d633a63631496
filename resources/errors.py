"""The one tree of errors, split by what the caller should do: abort the sync, retry later, or skip this document.

Vendor errors are mapped to these once, in the client that meets them. A message tells the person what happened and what to do
next, and names the document, setting or command.
"""

from __future__ import annotations


class ConcordanceError(Exception):
    """Any failure that we explain. `str(error)` is fit for a person's eyes: no secret, no stack trace."""


class ConfigurationError(ConcordanceError):
    """A setting is missing or wrong; the message names the variable."""


class NotRunningError(ConcordanceError):
    """A service that is needed does not answer; the message says how to start it."""


class AbortSyncError(ConcordanceError):
    """Nothing more can be done in this sync (authorisation expired, a listing failed, a budget or limit is reached)."""


class AuthorizationError(AbortSyncError):
    """The source refuses our credentials (expired, revoked, a scope is missing): it is paused until somebody mends that."""


class LostPartitionError(ConcordanceError):
    """One partition may not be read any more; its documents are hidden, and kept for when it comes back."""


class BudgetExceededError(AbortSyncError):
    """The monthly embedding budget is used up and the setting says to stop."""


class CapacityError(AbortSyncError):
    """The index holds as many vectors or bytes as the settings allow."""


class RetryLaterError(ConcordanceError):
    """A passing fault (rate limit, server error, dropped connection). `retry_after` is in seconds when the service named it."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RateLimitedError(RetryLaterError):
    """The service asks us to slow down; waiting as told is no attempt lost."""


class TooManyWaitingError(RetryLaterError):
    """A person has as many uploads waiting to be indexed as the settings allow."""


class OverloadedError(RetryLaterError):
    """A service that we depend on answers, but not in time. Nobody degrades for it: the caller is asked to come back."""


class ServiceUnavailableError(RetryLaterError):
    """A service that we depend on (Postgres, Qdrant, the embedding provider) is down; the caller may degrade."""


class StorageFullError(ServiceUnavailableError):
    """The disk is full; nothing was kept, and somebody must free space."""


class DocumentError(ConcordanceError):
    """This document alone fails; the rest goes on."""


class SkipDocumentError(DocumentError):
    """This document cannot be indexed and trying again will not help: encrypted, unsupported, empty, too large."""


class FailedDocumentError(DocumentError):
    """This document failed and will be tried again at the next sync, at most three times for the same content."""


class AccessDeniedError(ConcordanceError):
    """The caller may not do this. Never tells whether the thing exists."""


class AuthenticationError(ConcordanceError):
    """The token is missing, expired, malformed or signed by another key."""


class InvalidRequestError(ConcordanceError):
    """The request is understood and wrong; the message says which field and what is allowed."""


class QuotaExceededError(ConcordanceError):
    """A person keeps as much as the settings allow; the message names the setting and what to do."""


class BusyError(ConcordanceError):
    """A sync of this source is running already; `job_id` names it."""

    def __init__(self, message: str, job_id: str) -> None:
        super().__init__(message)
        self.job_id = job_id
