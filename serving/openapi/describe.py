"""What a route declares about itself in addition to the types of its handler."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

JSON = "application/json"
HTML = "text/html"
FORM = "multipart/form-data"
EVENTS = "text/event-stream"
KEY = "openapi"
"""Key of a handler's `Description` in its `opt`."""


class Answer(NamedTuple):
    """A successful response. `content` maps media types to a struct, or to a JSON schema."""

    description: str
    content: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
    """Names of headers and their meaning."""
    example: Any = None


class Description(NamedTuple):
    """The declarations of a route."""

    problems: Sequence[str] = ()
    """Problem types of the route itself; those of all routes are added by `serving.openapi.problems`."""
    request: Any = None
    """An example of the body; of a route that accepts two types, of the JSON."""
    parameters: Mapping[str, Any] = {}
    """Examples of parameters by name."""
    example: Any = None
    """An example of the response that the return type describes."""
    answers: Mapping[int, Answer] = {}
    """Successful responses by status. Default: the handler's status, and its return type as JSON."""
    form: Mapping[str, Any] | None = None
    """JSON schema of a multipart form, if the route reads its body as a stream. A property may be a struct."""
    raw_body: Any = None
    """Struct or JSON schema of a body that the route decodes itself; with `form`, the body may be either."""
    headers: Mapping[str, str] = {}
    """Request headers that the route requires, and their meaning."""
    components: Sequence[Any] = ()
    """Types that belong to the components although no schema refers to them, such as the events of a stream."""
    security: Sequence[Mapping[str, Sequence[str]]] | None = None
    """Default: a token or an API key, or nothing on routes that are excluded from authentication."""


def described(**declared: Any) -> dict[str, Any]:
    """Return the `opt` of a handler with this `Description`."""
    return {KEY: Description(**declared)}
