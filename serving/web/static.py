"""The route of style sheets, scripts and icons. Their addresses contain a hash of the content, so browsers keep them."""

import hashlib
from functools import lru_cache
from pathlib import Path

from litestar import Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

from serving.http.open_route import open_route

FOLDER = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
FOREVER = "public, max-age=31536000, immutable"


@lru_cache(1)
def _files() -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in FOLDER.iterdir() if file.suffix in MEDIA_TYPES}


@lru_cache(1)
def version() -> str:
    """Return a hash of all files. Modules import each other by relative addresses, so they change it together."""
    digest = hashlib.sha256()
    for name, content in sorted(_files().items()):
        digest.update(name.encode() + b"\0" + content)
    return digest.hexdigest()[:12]


def address(name: str) -> str:
    """Return the path of a file of the pages."""
    return f"/static/{version()}/{name}"


@open_route(get, "/static/{release:str}/{name:str}", "staticFile", "open", thread=False)
def static_file(release: FromPath[str], name: FromPath[str]) -> Response[bytes]:
    """Return a file of the pages. An address of another release gives today's file, which is then not kept."""
    content = _files().get(name)
    if content is None:
        raise NotFoundException
    kept = FOREVER if release == version() else "no-cache"
    return Response(content, media_type=MEDIA_TYPES[Path(name).suffix], headers={"Cache-Control": kept})
