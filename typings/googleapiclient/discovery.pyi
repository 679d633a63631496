from typing import Any

import httplib2

def build(
    service: str,
    version: str,
    *,
    http: httplib2.Http | None = ...,
    static_discovery: bool | None = ...,
    cache_discovery: bool = ...,
    client_options: dict[str, str] | None = ...,
) -> Any: ...  # methods are made from the API's description
