from collections.abc import Iterator
from typing import Any

class XMLSyntaxError(SyntaxError): ...

class XMLParser:
    def __init__(
        self,
        *,
        resolve_entities: bool = ...,
        no_network: bool = ...,
        load_dtd: bool = ...,
        remove_comments: bool = ...,
        remove_pis: bool = ...,
    ) -> None: ...

def fromstring(text: bytes, parser: XMLParser = ...) -> Any: ...
def iterparse(
    source: Any, *, events: tuple[str, ...], tag: tuple[str, ...], **options: bool
) -> Iterator[tuple[str, Any]]: ...
def Entity(name: str) -> Any: ...  # noqa: N802 # the name in lxml
