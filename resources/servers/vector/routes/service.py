"""Routes about the server itself: version, health, metrics."""

from typing import Any

from resources.servers.vector import SERVER_VERSION
from resources.servers.vector.http import Application, Handler, Raw, Request

_TITLE = "concordance embedded vector server - speaks Qdrant's REST"


def add_routes(app: Application) -> None:
    """Register the routes. qdrant-client checks the version at `/` for compatibility."""
    version = f'{{"title":"{_TITLE}","version":"{SERVER_VERSION}"}}'
    for path, text, kind in (
        ("/", version, b"application/json"),
        ("/healthz", "healthz check passed", b"text/plain"),
        ("/livez", "healthz check passed", b"text/plain"),
        ("/readyz", "all shards are ready", b"text/plain"),
    ):
        app.add("GET", path, _constant(Raw(text.encode(), kind)))
    app.add("GET", "/metrics", metrics)


async def metrics(request: Request) -> Raw:
    """Return Prometheus text: collections, and points and compaction state of each."""
    lines = ["# TYPE collections_total gauge", f"collections_total {len(request.store.collections)}"]
    points = ["# TYPE collection_points gauge"]
    compacting = ["# TYPE collection_compacting gauge"]
    for name, collection in request.store.collections.items():
        label = name.replace("\\", "\\\\").replace('"', '\\"')
        points.append(f'collection_points{{id="{label}"}} {collection.shard.info().points_count}')
        compacting.append(f'collection_compacting{{id="{label}"}} {int(collection.compacting)}')
    return Raw("\n".join([*lines, *points, *compacting, ""]).encode(), b"text/plain; version=0.0.4")


def _constant(raw: Raw) -> Handler:
    async def answer(_request: Request) -> Any:
        return raw

    return answer
