"""Composes the OpenAPI 3.1 document from the handlers of an app."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, get_args, get_origin

from litestar import Litestar, Response
from litestar.handlers import HTTPRouteHandler
from litestar.params import PathParameter, QueryParameter
from litestar.routes import HTTPRoute
from litestar.typing import FieldDefinition

from resources.core.json import is_object
from serving.http.errors import documentation_of
from serving.http.idempotency import HEADER, IDEMPOTENT, MAX_KEY
from serving.http.json_schema import Components, Schema, kind_of, of_parameter, resolved
from serving.http.openapi.describe import FORM, JSON, KEY, Answer, Description
from serving.http.openapi.problems import problems_of, responses
from serving.http.problems import Problem

ABOUT = "Search a company's knowledge with citations; each caller is shown only what that caller may read."
SIGNED_IN: list[dict[str, list[str]]] = [{"bearer": []}, {"apiKey": []}]
SECURITY_SCHEMES: dict[str, Schema] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT or API key",
        "description": "`Authorization: Bearer TOKEN`. `concordance token EMAIL` makes a token, `concordance key create EMAIL` an API key.",
    },
    "apiKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Api-Key",
        "description": "An API key (`ck_…`), or a token, instead of the header `Authorization`.",
    },
    "widgetToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The token of a widget's visitor, which `POST /api/widget/{name}/token` returns.",
    },
    "metricsToken": {
        "type": "http",
        "scheme": "bearer",
        "description": "The metrics token, which `concordance status --urls` prints.",
    },
}
TAGS = {
    "search": "Find passages, and format citations of documents.",
    "answers": "Answer questions from documents, look at answers again, and rate them.",
    "widget": "Answer questions of anonymous visitors of other sites, from public documents of one collection.",
    "documents": "List, read, download, upload, ingest, change and delete documents, and find out why one is not found.",
    "access": "Who you are, and what your access comes from.",
    "sessions": "Browsers in which you are signed in.",
    "sync": "Sources, their syncs, and the notifications that request them.",
    "audit": "Who did what.",
    "administration": "Keys and sessions of all people.",
    "health": "For monitoring.",
    "pages": "HTML pages for browsers.",
    "compatibility": "The interfaces of other systems: their requests are translated to the same search and answers.",
}


class Route(NamedTuple):
    """A route of the document."""

    path: str
    method: str
    handler: HTTPRouteHandler
    declared: Description

    @property
    def body(self) -> FieldDefinition | None:
        return self.handler.parsed_fn_signature.parameters.get("data")

    @property
    def body_type(self) -> Any:
        """The struct of the body, without the None of an optional one."""
        if self.body is None:
            return None
        return next((one for one in get_args(self.body.annotation) if one is not type(None)), self.body.annotation)

    @property
    def form_properties(self) -> Mapping[str, Any]:
        return self.declared.form["properties"] if self.declared.form is not None else {}

    @property
    def parameters(self) -> Iterator[tuple[str, str, FieldDefinition, PathParameter | QueryParameter]]:
        """Yield the place, name, type and definition of each parameter."""
        for name, field in self.handler.parsed_fn_signature.parameters.items():
            kwarg = field.kwarg_definition
            if isinstance(kwarg, PathParameter | QueryParameter):
                yield "path" if isinstance(kwarg, PathParameter) else "query", kwarg.name or name, field, kwarg

    @property
    def answers(self) -> dict[int, Answer]:
        if self.declared.answers:
            return dict(self.declared.answers)
        returned = self.handler.parsed_fn_signature.return_type.annotation
        if get_origin(returned) is Response:
            returned = get_args(returned)[0]
        described = str(self.handler.summary)
        if returned in {None, type(None)}:
            return {self.handler.status_code: Answer(described)}
        return {self.handler.status_code: Answer(described, {JSON: returned}, example=self.declared.example)}

    @property
    def types(self) -> Iterator[Any]:
        """Yield every type of which the operation needs the schema."""
        if self.body_type is not None:
            yield self.body_type
        yield from self.declared.components
        yield from (kind for kind in (*self.form_properties.values(), self.declared.raw_body) if isinstance(kind, type))
        yield from (kind_of(field) for _, _, field, _ in self.parameters)
        for answer in self.answers.values():
            yield from (kind for kind in answer.content.values() if not isinstance(kind, dict))


def routes_of(app: Litestar) -> list[Route]:
    """Return the routes that the document describes, by path and method: Litestar keeps handlers of a path in a set."""
    found = [
        Route(route.path_format, method, handler, handler.opt.get(KEY, Description()))
        for route in app.routes
        if isinstance(route, HTTPRoute)
        for handler in route.route_handlers
        if handler.operation_id and handler.include_in_schema is not False
        for method in handler.http_methods
    ]
    return sorted(found, key=lambda one: (one.path, one.method))


def build(app: Litestar, release: str) -> dict[str, Any]:
    """Return the document."""
    routes = routes_of(app)
    components = Components([Problem, *(kind for route in routes for kind in route.types)])
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Concordance", "version": release, "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": SIGNED_IN,
        "paths": paths,
        "components": {"schemas": components.schemas, "securitySchemes": SECURITY_SCHEMES},
    }


def _operation(route: Route, components: Components) -> Schema:
    handler, declared = route.handler, route.declared
    security = declared.security
    if security is None:
        security = [] if handler.opt.get("exclude_from_auth") else SIGNED_IN
    parameters = [*_parameters(route, components), *_headers(handler, declared)]
    body = _body(route, components)
    validates = body is not None or any(one["in"] == "query" for one in parameters)
    slugs = problems_of(handler, declared, validates=validates)
    operation: Schema = {
        "operationId": handler.operation_id,
        "tags": list(handler.tags or ()),
        "summary": handler.summary,
        "description": " ".join((handler.fn.__doc__ or "").split()),
        "security": list(security),
    }
    if declared.repeatable:
        operation["x-repeatable"] = True
    if parameters:
        operation["parameters"] = parameters
    if body is not None:
        operation["requestBody"] = body
    successes = {str(status): _answer(answer, components) for status, answer in route.answers.items()}
    failures = responses(slugs, route.path, documentation_of(handler))
    operation["responses"] = dict(sorted((failures | _merged(successes, failures)).items()))
    return operation


def _merged(answers: dict[str, Schema], problems: dict[str, Schema]) -> dict[str, Schema]:
    """Return the declared answers; one with the status of a problem may have either content."""
    merged: dict[str, Schema] = {}
    for status, answer in answers.items():
        problem = problems.get(status, {})
        merged[status] = problem | answer
        if problem:
            merged[status]["description"] = f"{answer['description']}; or a problem:\n\n{problem['description']}"
            merged[status]["content"] = answer.get("content", {}) | problem["content"]
    return merged


def _schema(kind: Any, components: Components) -> Schema:
    """Return the schema of a type; one that is declared as such is returned as it is."""
    return kind if is_object(kind) else components.of(kind)


def _described(kind: Any, components: Components) -> Schema:
    """Return the schema of a type as that of a property, with the description of the type."""
    schema = _schema(kind, components)
    return {"description": resolved(schema, components.schemas)["description"]} | schema


def _answer(answer: Answer, components: Components) -> Schema:
    response: Schema = {"description": answer.description}
    if answer.headers:
        response["headers"] = {
            name: {"description": text, "schema": {"type": "string"}} for name, text in answer.headers.items()
        }
    content: dict[str, Schema] = {
        media: {"schema": _schema(kind, components)} for media, kind in answer.content.items()
    }
    if answer.example is not None:
        next(iter(content.values()))["example"] = answer.example
    if content:
        response["content"] = content
    return response


def _parameters(route: Route, components: Components) -> Iterator[Schema]:
    for place, name, field, kwarg in route.parameters:
        parameter: Schema = {
            "name": name,
            "in": place,
            "required": place == "path" or not field.has_default,
            "description": kwarg.description or "",
            "schema": of_parameter(field, components.of(kind_of(field))),
        }
        if name in route.declared.parameters:
            parameter["example"] = route.declared.parameters[name]
        yield parameter


def _headers(handler: HTTPRouteHandler, declared: Description) -> Iterator[Schema]:
    if handler.opt.get(IDEMPOTENT):
        text = "Names this request for a day: sent again with the same key, it is answered as before."
        schema = {"type": "string", "minLength": 1, "maxLength": MAX_KEY}
        yield {"name": HEADER, "in": "header", "required": False, "description": text, "schema": schema}
    for name, text in declared.headers.items():
        yield {"name": name, "in": "header", "required": True, "description": text, "schema": {"type": "string"}}


def _body(route: Route, components: Components) -> Schema | None:
    declared, required = route.declared, True
    content: dict[str, Schema] = {}
    if declared.raw_body is not None:
        content[JSON] = {"schema": _schema(declared.raw_body, components)}
    elif route.body is not None:
        content[JSON] = {"schema": components.of(route.body_type)}
        required = not route.body.has_default
    if declared.form is not None:
        properties = {name: _described(kind, components) for name, kind in route.form_properties.items()}
        content[FORM] = {"schema": {**declared.form, "properties": properties}}
    if not content:
        return None
    if declared.request is not None:
        next(iter(content.values()))["example"] = declared.request
    return {"required": required, "content": content}
