"""A call as a value: what to send, and what it returns. Both clients send the same calls."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from concordance_client._generated.models import Problem
from concordance_client._model import Model
from concordance_client._retry import seconds_of
from concordance_client._upload import Upload
from concordance_client.errors import ConcordanceError, ResponseError, problem_error

T = TypeVar("T")
PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request to the service. `returns` is a model, or `bytes` for a body as it is."""

    method: str
    path: str
    returns: type[T]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] | None = None
    upload: Upload | None = None
    repeatable: bool = False
    """True if it may be sent again although the first request may have been carried out."""

    def request(self) -> dict[str, Any]:
        """Return the arguments of an httpx request."""
        arguments: dict[str, Any] = {"method": self.method, "url": self.path}
        if self.query:
            arguments["params"] = {name: value for name, value in self.query.items() if value is not None}
        if self.body is not None:
            arguments["json"] = self.body
        if self.upload is not None:
            arguments |= self.upload.form()
        return arguments

    def result(self, response: httpx.Response, content: bytes) -> T:
        """Return what a successful response means. Raises `ResponseError` for one that is not the service's."""
        if self.returns is bytes:
            return cast("T", content)
        assert issubclass(self.returns, Model)  # noqa: S101
        try:
            return self.returns.model_validate_json(content)
        except ValidationError as error:
            raise ResponseError(
                f"The response to {self.method} {self.path} is not a {self.returns.__name__}. Check the address, and that the"
                " client and the service have the same version.",
                response.status_code,
            ) from error


def failure(response: httpx.Response, content: bytes) -> ConcordanceError:
    """Return the error that a response other than 2xx means."""
    if response.headers.get("Content-Type", "").partition(";")[0] == PROBLEM:
        try:
            problem = Problem.model_validate_json(content)
        except ValidationError:
            pass
        else:
            return problem_error(problem, seconds_of(response.headers.get("Retry-After")))
    return ResponseError(
        f"{response.request.method} {response.request.url} returned {response.status_code} without a problem of"
        " Concordance. Check the address, and any proxy in front of it.",
        response.status_code,
    )


def quoted(part: str) -> str:
    """Return a text as one part of a path."""
    return quote(part, safe="")
