"""Decode the JSON body of a request straight to the type of its route, without converting values of other types."""

from functools import lru_cache
from typing import Any

import msgspec
from litestar import Request

from resources.core.errors import InvalidRequestError
from resources.core.json import is_list, is_object
from serving.http.errors import ProblemError
from serving.http.every_fault import every_fault
from serving.http.invalid import fault_of


class StrictRequest(Request[Any, Any, Any]):
    """A request whose JSON body must have the types that its route declares: `"3"` is not a number.

    Litestar itself decodes a body without its type and then converts it leniently, as it does with query parameters.
    """

    async def json(self) -> Any:
        """Return the body as the type of the handler's `data`. Raises the problem `invalid-request` naming all fields that are wrong."""
        declared = self.route_handler.parsed_fn_signature.parameters.get("data")
        body = await self.body()
        if declared is None or not body:
            return await super().json()
        check_encoding(body)
        kind = declared.annotation
        try:
            return _decoder(kind).decode(body)
        except msgspec.ValidationError as error:
            fault = error
        except msgspec.DecodeError:
            return await super().json()  # which raises Litestar's error for invalid JSON
        try:
            value = _whole(msgspec.json.decode(body))
        except msgspec.ValidationError:  # a number is out of range
            found = [fault_of(kind, fault)]
        except msgspec.DecodeError:  # behind what is wrong the JSON is invalid, too
            return await super().json()
        else:
            try:
                return msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                found = every_fault(kind, value) or [fault_of(kind, error)]
        raise ProblemError("invalid-request", " ".join(map(str, found)), errors=found)


def check_encoding(body: bytes) -> None:
    """Raise `InvalidRequestError` for JSON that is not UTF-8: msgspec raises an error that is none of its own."""
    try:
        body.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"The body is not UTF-8 (byte {error.start}). Send JSON in UTF-8.") from None


def _whole(value: Any) -> Any:
    """Return a decoded value with every number that is whole as an int: as in JSON Schema, 16.0 is one, which some languages write so."""
    if is_object(value):
        return {name: _whole(one) for name, one in value.items()}
    if is_list(value):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)
