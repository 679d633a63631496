"""What we use of `multipart` (defnull), a single module without a `py.typed` marker."""

from collections.abc import Generator
from types import TracebackType
from typing import Self

class MultipartError(ValueError): ...
class ParserLimitReached(MultipartError): ...  # noqa: N818 (its name)

class MultipartSegment:
    name: str | None
    filename: str | None
    def header(self, name: str, default: str) -> str: ...

class PushMultipartParser:
    closed: bool

    def __init__(
        self,
        boundary: str | bytes,
        content_length: int = ...,
        max_header_size: float = ...,
        max_header_count: float = ...,
        max_segment_size: float = ...,
        max_segment_count: float = ...,
        header_charset: str = ...,
        strict: bool = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def parse(self, chunk: bytes) -> Generator[MultipartSegment | bytes | None]: ...
    def close(self, check_complete: bool = ...) -> None: ...

def parse_options_header(header: str) -> tuple[str, dict[str, str]]: ...
