"""`concordance doctor` finds a reverse proxy that passes on the X-Forwarded-For of its clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from orchestration.diagnosis import network
from resources import http_clients
from tests.fixtures import loopback
from tests.fixtures.serving import Site

SECONDS = 10
MANNERS: dict[str, tuple[Callable[[str | None], str | None], bool]] = {
    "sets the client's address": (lambda _: "203.0.113.9", True),
    "appends the client's address": (lambda given: f"{given}, 203.0.113.9", True),
    "appends an address of this machine": (lambda given: f"{given}, 127.0.0.1", True),
    "sends none": (lambda _: None, True),
    "passes on what a client sends": (lambda given: given, False),
}


@contextmanager
def reverse_proxy(target: str, header: Callable[[str | None], str | None]) -> Iterator[str]:
    """Serve a reverse proxy whose X-Forwarded-For is what `header` makes of the client's."""

    class Handler(loopback.Handler):
        def do_GET(self) -> None:
            sent = header(self.headers["x-forwarded-for"])
            headers = {"authorization": self.headers["authorization"]} | ({"x-forwarded-for": sent} if sent else {})
            with http_clients.own(target, timeout=SECONDS) as http:
                answer = http.get(self.path, headers=headers)
            self.answer(answer.status_code, answer.content)

    with loopback.serving(Handler) as url:
        yield url


@pytest.mark.parametrize("manner", MANNERS)
def test_a_reverse_proxy_that_lets_clients_choose_their_address_is_found(site: Site, manner: str) -> None:
    header, right = MANNERS[manner]
    site.settings = site.settings.model_copy(update={"trusted_proxies": ("127.0.0.1",)})
    with site.running() as running, reverse_proxy(running.url, header) as url:
        fault = network.spoofing(site.settings.model_copy(update={"public_url": url}))
    assert (fault is None) == right
    if fault is not None:
        assert "passes on the X-Forwarded-For" in str(fault)
        assert "docs/operations.md#behind-a-reverse-proxy" in str(fault)


def test_another_site_at_the_public_url_is_no_fault_of_a_proxy(site: Site) -> None:
    with site.running() as running, pytest.raises(httpx.HTTPError):
        network.spoofing(site.settings.model_copy(update={"public_url": f"{running.url}/elsewhere"}))


def test_a_reverse_proxy_is_only_looked_for_where_one_is(site: Site) -> None:
    urls = (
        None,
        "http://localhost:8080",
        "http://search.acme.com:8080",
        "https://search.acme.com",
        "http://search.acme.com",
    )
    found = [
        network.is_behind_proxy(site.settings.model_copy(update={"public_url": url, "http_port": 8080})) for url in urls
    ]
    assert found == [False, False, False, True, True]
