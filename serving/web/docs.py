"""Pages of a few words, and the API documentation (Swagger UI). Nothing is loaded from another host."""

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
from litestar import Litestar, MediaType, Request, Response, get
from litestar.datastructures import Cookie
from litestar.exceptions import NotFoundException
from litestar.params import FromPath
from markupsafe import Markup

from resources.core.errors import ConfigurationError
from serving.http.open_route import open_route
from serving.http.openapi.document import build
from serving.web.render import view

MEDIA_TYPES = {"swagger-ui-bundle.js": "text/javascript; charset=utf-8", "swagger-ui.css": "text/css; charset=utf-8"}
START = "start.js"
_SCRIPT = b"""window.addEventListener("load", function () {
  window.ui = SwaggerUIBundle({ url: "/docs/openapi.json", dom_id: "#swagger-ui", deepLinking: true });
});
"""
_PAGE = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Concordance: HTTP interface</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/static/swagger-ui.css">
<script src="/docs/static/swagger-ui-bundle.js"></script>
<script src="/docs/static/start.js"></script>
</head>
<body><div id="swagger-ui"></div></body>
</html>
"""


def page(
    title: str, body: str, status: int = 200, cookies: list[Cookie] | None = None, refresh: str | None = None
) -> Response[str]:
    """Return a page of a few words. `body` is HTML. `refresh` is an address that the browser goes on to."""
    return view("plain.html", status=status, cookies=cookies, title=title, body=Markup(body), refresh=refresh)  # noqa: S704 (HTML, as said)


def static_folder() -> Path:
    """Return the folder of Swagger UI's files in the package `swagger-ui-py`. Raises `ConfigurationError` if it is missing."""
    spec = find_spec("swagger_ui")
    if spec is None or spec.origin is None:
        raise ConfigurationError("The package swagger-ui-py is not installed. Run: make setup")
    return Path(spec.origin).parent / "static"


def release() -> str:
    """Return the version of this package."""
    try:
        return version("concordance")
    except PackageNotFoundError:
        return "0"


@lru_cache(1)
def _document(app: Litestar) -> bytes:
    return msgspec.json.encode(build(app, release()))


@open_route(get, "/docs", "docsPage", "open", thread=False)
def docs_page() -> Response[bytes]:
    """Show the interface with the files of `static_folder`."""
    return Response(_PAGE, media_type=MediaType.HTML)


@open_route(get, "/docs/openapi.json", "docsDocument", "open", thread=True)
def docs_document(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the OpenAPI document. It is composed for the first request."""
    return Response(_document(request.app), media_type=MediaType.JSON)


@open_route(get, "/docs/static/{name:str}", "docsFile", "open", thread=True)
def docs_file(name: FromPath[str]) -> Response[bytes]:
    if name == START:
        return Response(_SCRIPT, media_type="text/javascript; charset=utf-8")
    if name not in MEDIA_TYPES:
        raise NotFoundException
    content = (static_folder() / name).read_bytes()
    return Response(content, media_type=MEDIA_TYPES[name], headers={"Cache-Control": "public, max-age=86400"})
