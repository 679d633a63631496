"""Responses that both simulators give: JSON, a response that breaks off, the remote control and the start page."""

import base64
import html
import inspect
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import msgspec
from starlette.responses import HTMLResponse, Response

from resources.core.guard import Receive, Scope, Send
from resources.core.json import is_object
from simulators.faults import KINDS, Faults

_TIMES = ("created", "modified", "expires")
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>body{{font:15px/1.5 system-ui;max-width:60rem;margin:2rem auto;padding:0 1rem}}code,pre{{font-size:13px}}</style>
<h1>{title}</h1>
{text}
<h2>What can be done in it</h2>
<p><code>POST /simulator/OPERATION</code> with a JSON object of arguments. <a href="/simulator/state">The whole state as JSON</a></p>
<ul>{operations}</ul>
<h2>What can go wrong</h2>
<p><code>POST /simulator/faults</code> with <code>{{"kind": "rate_limit", "times": 1, "match": "METHOD", "seconds": 1}}</code>,
<code>{{"seed": 1, "share": 0.1}}</code> or <code>{{"clear": true}}</code>; kinds: {kinds}.</p></html>"""


class CutResponse(Response):
    """A response that ends halfway. The server then closes the connection, since the promised length was not sent."""

    def __init__(self, whole: Response) -> None:
        super().__init__(whole.body, whole.status_code, media_type=whole.media_type)
        self.headers["content-length"] = str(len(self.body) + 1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope, receive
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        await send({"type": "http.response.body", "body": self.body[: len(self.body) // 2], "more_body": True})


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    try:
        content = msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can express
        content = json.dumps(msgspec.to_builtins(value)).encode()
    return Response(content, status, headers, "application/json; charset=utf-8")


def control(model: object, operations: Sequence[str], faults: Faults, operation: str, body: bytes) -> Response:
    """Call a method of the model, or order a fault; the response is the return value, or what is wrong with the request.

    Times are ISO 8601, bytes `{"base64": "…"}`.
    """
    if operation not in (*operations, "faults"):
        return as_json({"error": f"There is no operation {operation!r}.", "operations": [*operations, "faults"]}, 404)
    try:
        given = msgspec.json.decode(body or b"{}", type=dict[str, Any])
        action = faults.order if operation == "faults" else getattr(model, operation)
        found = action(given) if operation == "faults" else action(**_arguments(given))
    except LookupError as error:
        return as_json({"error": f"There is no {error}." if isinstance(error, KeyError) else str(error)}, 404)
    except (ValueError, TypeError) as error:
        return as_json(
            {"error": f"{error}: {_signature(model, operation)}" if operation in operations else str(error)}, 400
        )
    return as_json({"result": sorted(cast("set[str]", found)) if isinstance(found, set) else found})


def page(title: str, text: str, model: object, operations: Sequence[str]) -> Response:
    """Return the start page; `text` is HTML."""
    listed = "".join(f"<li><code>{html.escape(_signature(model, name))}</code></li>" for name in operations)
    return HTMLResponse(_PAGE.format(title=title, text=text, operations=listed, kinds=", ".join(KINDS)))


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    for name in _TIMES:
        if isinstance(given.get(name), str):
            given[name] = datetime.fromisoformat(given[name])
            if given[name].tzinfo is None:
                raise ValueError(f"{name} needs a time zone, as in 2026-01-31T09:00:00Z.")
    content = given.get("content")
    if is_object(content) and content.keys() == {"base64"}:
        given["content"] = base64.b64decode(content["base64"], validate=True)
    return given


def _signature(model: object, name: str) -> str:
    known = inspect.signature(getattr(model, name))
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in known.parameters.values()]
    return name + str(known.replace(parameters=bare, return_annotation=inspect.Signature.empty))
