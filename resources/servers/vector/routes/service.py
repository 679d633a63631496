"""Routes about the server itself: version, health, telemetry, metrics."""

from __future__ import annotations

from typing import Any

import msgspec

from resources.servers.vector import SERVER_VERSION
from resources.servers.vector.http import Application, Request
from resources.servers.vector.http import Raw as RawResponse

_TITLE = "concordance embedded vector server - speaks Qdrant's REST"


def add_routes(app: Application) -> None:
    """Register the routes."""
    app.add("GET", "/", version)
    for path, text in (
        ("/healthz", "healthz check passed"),
        ("/livez", "healthz check passed"),
        ("/readyz", "all shards are ready"),
    ):
        app.add("GET", path, _text(text))
    app.add("GET", "/telemetry", telemetry)
    app.add("GET", "/metrics", metrics)
    app.add("GET", "/cluster", cluster)


async def version(_request: Request) -> RawResponse:
    """Return the version that qdrant-client checks for compatibility."""
    return RawResponse(msgspec.json.encode({"title": _TITLE, "version": SERVER_VERSION}))


async def cluster(_request: Request) -> Any:
    return {"status": "disabled"}


async def telemetry(request: Request) -> Any:
    collections = [{"id": name} | collection.info() for name, collection in request.store.collections.items()]
    return {
        "id": "concordance-embedded",
        "app": {"name": "concordance-vector", "version": SERVER_VERSION},
        "collections": {"number_of_collections": len(collections), "collections": collections},
    }


async def metrics(request: Request) -> RawResponse:
    """Return Prometheus text: collections, and points and compaction state of each."""
    lines = ["# TYPE collections_total gauge", f"collections_total {len(request.store.collections)}"]
    points = ["# TYPE collection_points gauge"]
    compacting = ["# TYPE collection_compacting gauge"]
    for name, collection in request.store.collections.items():
        label = name.replace("\\", "\\\\").replace('"', '\\"')
        points.append(f'collection_points{{id="{label}"}} {collection.shard.info().points_count}')
        compacting.append(f'collection_compacting{{id="{label}"}} {int(collection.compacting)}')
    return RawResponse("\n".join([*lines, *points, *compacting, ""]).encode(), b"text/plain; version=0.0.4")


def _text(text: str) -> Any:
    async def answer(_request: Request) -> RawResponse:
        return RawResponse(text.encode(), b"text/plain")

    return answer
