"""Every route declares its class of limits."""

from __future__ import annotations

import pytest
from litestar import get

from resources.core.errors import ConfigurationError
from serving.app import route
from serving.http.request_limits import CLASSES, LIMITS, limited
from tests.fixtures.routes import declared_handlers


def test_every_class_of_limits_has_a_route() -> None:
    assert {handler.opt[LIMITS] for _, handler in declared_handlers().values()} == set(CLASSES)


def test_an_app_with_a_route_without_limits_is_refused() -> None:
    @get("/unlimited", operation_id="unlimited", sync_to_thread=False)
    def unlimited() -> None: ...

    with pytest.raises(ConfigurationError, match=r"GET /unlimited .*limited\("):
        route([unlimited])


def test_a_route_that_declares_limits_is_accepted() -> None:
    @get("/limited", operation_id="limited", opt=limited("read"), sync_to_thread=False)
    def reads() -> None: ...

    assert route([reads]).routes


def test_an_unknown_class_of_limits_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match="'reed'"):
        limited("reed")
