"""Everything that a call may raise."""

from concordance_client._generated.models import FieldError, Problem


class ConcordanceError(Exception):
    """The base of all errors of this package."""


class UnreachableError(ConcordanceError):
    """The service could not be reached, or the connection broke."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent
        """False if the service cannot have received the request."""


class DeadlineError(ConcordanceError):
    """The call was not done within the client's deadline."""


class ResponseError(ConcordanceError):
    """The response is not one of Concordance, but for example a proxy's."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class AnswerInterruptedError(ConcordanceError):
    """A streamed answer ended early. What has arrived of it is not checked against its sources."""


class ProblemError(ConcordanceError):
    """The service refused the request, or could not carry it out. The message says what to do next."""

    def __init__(self, problem: Problem, retry_after: float | None) -> None:
        super().__init__(f"{problem.title}: {problem.detail}")
        self.problem = problem
        """All that the service says of it."""
        self.retry_after = retry_after
        """Seconds after which to try again, if the service names them."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def kind(self) -> str:
        """The stable name of the problem, such as `not-found`."""
        return self.problem.type.rpartition("/")[2]

    @property
    def fields(self) -> list[FieldError]:
        """What is wrong with each field (`field`, `message`), and what is `allowed`."""
        return self.problem.errors or []


class InvalidRequestError(ProblemError):
    """The request is not valid (400); see `fields`."""


class AuthenticationError(ProblemError):
    """The token or key is missing, expired, revoked or not valid (401)."""


class ForbiddenError(ProblemError):
    """The caller lacks a role, or may not share so widely (403)."""


class NotFoundError(ProblemError):
    """It does not exist, or the caller may not see it (404)."""


class ConflictError(ProblemError):
    """The source is being synced, or is not set up (409); see `problem.job_id` and `problem.merged`."""


class RefusedContentError(ProblemError):
    """The content is too large, exceeds the quota, or is of a type that is not supported (413, 415)."""


class RateLimitedError(ProblemError):
    """Too many requests (429); see `retry_after`."""


class UnavailableError(ProblemError):
    """The service or something that it depends on fails, is overloaded, or cannot save (5xx)."""


BY_STATUS: dict[int, type[ProblemError]] = {
    400: InvalidRequestError,
    401: AuthenticationError,
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    413: RefusedContentError,
    415: RefusedContentError,
    429: RateLimitedError,
}


def problem_error(problem: Problem, retry_after: float | None) -> ProblemError:
    """Return the error of a problem's status."""
    general = UnavailableError if problem.status >= 500 else ProblemError
    return BY_STATUS.get(problem.status, general)(problem, retry_after)
