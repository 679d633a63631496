"""uvicorn's configuration: protocol, sockets, connection limits and trusted proxies."""

from typing import Any

import uvicorn

from resources.servers.connections import Bounds, bounded
from resources.servers.shared import Shared
from resources.settings import Settings

STOP_SECONDS = 10
KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an idle connection (httpx 5 s, aiohttp 15 s, nginx and AWS load balancers 60 s): if the server closed it
first, a request that was just sent would be lost."""


def config(app: Any, settings: Settings, shared: Shared | None = None, **changed: Any) -> uvicorn.Config:
    """Return the configuration. `changed` replaces limits of `resources.servers.connections.Bounds`, for tests."""
    bounds = Bounds(
        connections=settings.http_connections,
        per_address=settings.http_connections_per_address,
        trusted=settings.trusted_proxies,
    )
    return uvicorn.Config(
        app,
        host=settings.http_host,
        port=settings.http_port,
        loop="uvloop",
        http=bounded(bounds._replace(**changed), shared),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        forwarded_allow_ips=list(settings.trusted_proxies),
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=STOP_SECONDS,
    )
