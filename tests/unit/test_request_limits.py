"""Every route belongs to a class of limits."""

from __future__ import annotations

from pathlib import Path

from litestar.routes import HTTPRoute

from resources.settings import Settings
from serving.access.request_limits import CLASS_OF, CLASSES
from serving.app import create_app


def test_every_route_has_limits(tmp_path: Path) -> None:
    app = create_app(Settings(home=tmp_path, _env_file=None))  # pyright: ignore[reportCallIssue]
    routes = [route for route in app.routes if isinstance(route, HTTPRoute)]
    ids = {handler.operation_id for route in routes for handler in route.route_handlers if handler.operation_id}
    assert ids == set(CLASS_OF)
    assert set(CLASS_OF.values()) == set(CLASSES)
