"""All errors, in one tree split by what the caller should do: abort the sync, retry later, or skip this document.

Vendor errors are mapped to these once, in the client that raises them. A message tells the user what happened and what to do
next, and names the document, setting or command.
"""


class ConcordanceError(Exception):
    """Base class of expected failures. `str(error)` is safe to show to users: no secret, no stack trace."""


class ConfigurationError(ConcordanceError):
    """A setting is missing or wrong: its variable, what is wrong, and what to do, of which the message consists."""

    def __init__(self, what: str, remedy: str = "", *, setting: str | None = None) -> None:
        """`what` and `remedy` are sentences; `setting` is the variable, if `what` does not begin with it."""
        super().__init__(" ".join(part for part in (setting and f"{setting}:", what, remedy) if part))
        self.what = what
        self.remedy = remedy


class NotRunningError(ConcordanceError):
    """A required service is not responding; the message says how to start it."""


class NoAnswerError(NotRunningError):
    """A service received a request and did not answer in time; it may carry the request out all the same."""


class AbortSyncError(ConcordanceError):
    """The sync cannot continue (authorisation expired, a listing failed, a budget or limit is reached)."""


class NoCollectionError(AbortSyncError):
    """The vector index has no collection of this name."""


class AuthorizationError(AbortSyncError):
    """The source rejects our credentials (expired, revoked, missing scope); it stays paused until they are renewed."""


class LostLeaseError(AbortSyncError):
    """Another process has taken over what this one writes to, because it was paused for too long; it must write nothing more."""


class LostPartitionError(ConcordanceError):
    """A partition can no longer be read; its documents are hidden, and kept in case access returns."""


class BudgetExceededError(AbortSyncError):
    """The monthly embedding budget is used up and the setting says to stop."""


class CapacityError(AbortSyncError):
    """The index has reached the limit on vectors or bytes in the settings."""


class TemporaryError(ConcordanceError):
    """A fault that may pass. `retry_after` is in seconds, if the service gave it."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RetryLaterError(TemporaryError):
    """One call to a source or a model failed for now (rate limit, server error, dropped connection); others may succeed."""


class RateLimitedError(RetryLaterError):
    """The service limits our request rate; waiting as requested does not count as an attempt."""


class ServiceUnavailableError(TemporaryError):
    """A service that all work depends on (Postgres, Qdrant, the lake, the model) is down: a sync ends, a search may degrade."""


class OverloadedError(TemporaryError):
    """A dependency responds, but not in time. Callers do not degrade; the client is asked to retry later."""


class TooManyWaitingError(TemporaryError):
    """The user has as many uploads waiting to be indexed as the settings allow."""


class StorageFullError(ServiceUnavailableError):
    """The disk is full: nothing was stored, and space must be freed."""


class StorageReadOnlyError(ServiceUnavailableError):
    """A disk or folder is not writable; nothing was stored, and the operator must make it writable."""


class DocumentError(ConcordanceError):
    """Only this document fails; the sync continues."""


class SkipDocumentError(DocumentError):
    """The document cannot be indexed, and retrying will not help: encrypted, unsupported, empty, too large."""


class FailedDocumentError(DocumentError):
    """The document failed and is retried at the next syncs, at most three times for the same content."""


class DeferredDocumentError(FailedDocumentError):
    """The document cannot be read for now, for a reason that passes by itself: what is indexed of it stays."""


class ChangedDocumentError(DeferredDocumentError):
    """The document changed after it was listed: its readers may have changed before its content, so nothing of it is stored."""

    def __init__(self, message: str = "It changed while it was read; the next sync looks again.") -> None:
        super().__init__(message)


class AuthenticationError(ConcordanceError):
    """The token is missing, expired, malformed or signed by another key."""


class InvalidRequestError(ConcordanceError):
    """The request is well-formed but invalid; the message names the field and the allowed values."""


class QuotaExceededError(ConcordanceError):
    """The user has used up a quota; the message names the setting and what to do."""


class BusyError(ConcordanceError):
    """A sync of this source is already running; `job_id` identifies it. `merged`: it also does what was requested."""

    def __init__(self, message: str, job_id: str, *, merged: bool = False) -> None:
        super().__init__(message)
        self.job_id = job_id
        self.merged = merged


class EndedJobError(ConcordanceError):
    """The job of a run has ended, and another run has done its work or will: this one has nothing to do."""
