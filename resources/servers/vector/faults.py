"""Errors in Qdrant's wording: one exception carries status code and message to the HTTP layer.

The engine raises bare `Exception`; this module maps it and our own checks to `RequestError`.
"""

from collections.abc import Generator
from contextlib import contextmanager

import msgspec

SUBSET = (
    "The embedded vector server serves a part of Qdrant's interface: for the rest, use a Qdrant server "
    "(CONCORDANCE_QDRANT_URL)"
)


class RequestError(Exception):
    """A request that is answered with `status` and Qdrant's error body."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def not_found(what: str) -> RequestError:
    """Return a 404 in Qdrant's wording."""
    return RequestError(404, f"Not found: {what}")


def bad_request(what: str) -> RequestError:
    """Return a 400 for a well-formed request that cannot be fulfilled."""
    return RequestError(400, f"Bad request: {what}")


def wrong_input(what: str) -> RequestError:
    """Return a 400 for values that don't fit the collection."""
    return RequestError(400, f"Wrong input: {what}")


def format_error(what: str) -> RequestError:
    """Return a 400 for a body that does not match the route, or that uses a part of the interface that is not served."""
    if "unknown field" in what or "unknown variant" in what:
        what += f". {SUBSET}"
    return RequestError(400, f"Format error in JSON body: {what}")


def validation_error(what: str) -> RequestError:
    """Return a 422 for values that Qdrant's own validation rejects."""
    return RequestError(422, f"Validation error in JSON body: {what}")


@contextmanager
def converting() -> Generator[None]:
    """Convert errors of the engine's constructors and msgspec about invalid values to a 400."""
    try:
        yield
    except msgspec.MsgspecError as error:
        raise format_error(str(error)) from error
    except (ValueError, TypeError, OverflowError) as error:
        # The first line names the value; the rest lists the engine's internal variants.
        raise format_error(str(error).splitlines()[0]) from error


def engine_error(error: Exception) -> RequestError:
    """Map an error of the engine by its message: the engine raises only bare `Exception`."""
    message = str(error)
    if message.startswith("No point with id"):
        return not_found(f"{message} found")
    if message.startswith(("No appropriate index", "No range index", "Index required")):
        return bad_request(message)
    if message.startswith("Service runtime error"):
        return RequestError(500, message)
    return wrong_input(message)


@contextmanager
def engine() -> Generator[None]:
    """Wrap an engine call: its bare `Exception` becomes a `RequestError`, everything else passes through."""
    try:
        yield
    except Exception as error:
        if type(error) is Exception:
            raise engine_error(error) from error
        if isinstance(error, ValueError | TypeError | OverflowError):
            raise format_error(str(error).splitlines()[0]) from error
        raise
