"""Declarations of a route in addition to the types of its handler."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from serving.http.json_schema import REFERENCE

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
    """Problem types of the route itself; those of all routes are added by `serving.http.openapi.problems`."""
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
    repeatable: bool = False
    """True if a POST, PATCH or DELETE may be sent again after a failure, with the same result: clients may retry it (`x-repeatable`)."""
    security: Sequence[Mapping[str, Sequence[str]]] | None = None
    """Default: a token or an API key, or nothing on routes that are excluded from authentication."""


def event_stream(events: Mapping[str, type]) -> dict[str, Any]:
    """Return the JSON schema of a server-sent event, given the struct of each event's data by the event's name.

    OpenAPI 3.1 has no keyword for the items of a stream, so the schema is that of one event, with its data as JSON in a text. List the
    structs as `components` as well.
    """
    return {"oneOf": [_event(name, data.__name__) for name, data in events.items()]}


def _event(name: str, data: str) -> dict[str, Any]:
    text = {
        "type": "string",
        "description": f"JSON of `{data}`.",
        "contentMediaType": JSON,
        "contentSchema": {"$ref": f"{REFERENCE}{data}"},
    }
    return {
        "type": "object",
        "properties": {
            "event": {"type": "string", "const": name, "description": "The name of the event."},
            "data": text,
        },
        "required": ["event", "data"],
    }


def described(**declared: Any) -> dict[str, Any]:
    """Return the `opt` of a handler with this `Description`."""
    return {KEY: Description(**declared)}
