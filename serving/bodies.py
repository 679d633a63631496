"""Decode the JSON body of a request straight to the type of its route, without converting values of other types."""

from functools import lru_cache
from typing import Any

import msgspec
from litestar import Request

from serving.errors import ProblemError
from serving.invalid import fault_of


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON body must have the types that its route declares: `"3"` is not a number.

    Litestar itself decodes a body without its type and then converts it leniently, as it does with query parameters.
    """

    async def json(self) -> Any:
        """Return the body as the type of the handler's `data`. Raises the problem `invalid-request` naming the field."""
        declared = self.route_handler.parsed_fn_signature.parameters.get("data")
        body = await self.body()
        if declared is None or not body:
            return await super().json()
        try:
            return _decoder(declared.annotation).decode(body)
        except msgspec.ValidationError as error:
            fault = fault_of(declared.annotation, error)
            raise ProblemError("invalid-request", str(fault), errors=[fault]) from None
        except msgspec.DecodeError:
            return await super().json()  # which raises Litestar's error for invalid JSON


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
