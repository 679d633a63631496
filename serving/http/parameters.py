"""The check that refuses query parameters that a route does not have, as bodies with unknown fields are refused."""

from collections.abc import Mapping
from typing import Any

from litestar import Request
from litestar.params import QueryParameter
from litestar.typing import FieldDefinition

from serving.http.errors import ProblemError
from serving.http.invalid import MAX_NAME, FieldError


async def refuse_unknown(request: Request[Any, Any, Any]) -> None:
    """Raise the problem `invalid-request` if a request has other parameters than its route declares, if that has any.

    Vendors add their own when they send a browser back to `/api/auth`, and anyone to the address of a page.
    """
    path = request.scope["path"]
    if not request.scope["query_string"] or not path.startswith("/api/") or path.startswith("/api/auth/"):
        return
    parameters: Mapping[str, FieldDefinition] = request.route_handler.parsed_fn_signature.parameters
    declared = ((name, field.kwarg_definition) for name, field in parameters.items())
    known = [kwarg.name or name for name, kwarg in declared if isinstance(kwarg, QueryParameter)]
    unknown = [name for name in request.query_params if name not in known]
    if known and unknown:  # nothing is misspelled where there is nothing to spell
        allowed = ", ".join(known)
        found = [
            FieldError(field=one[:MAX_NAME], message="is not a known parameter", allowed=allowed) for one in unknown
        ]
        raise ProblemError("invalid-request", " ".join(map(str, found)), errors=found)
