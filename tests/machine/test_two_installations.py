"""A second installation on a machine needs nothing but a HOME of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.installed import Installed


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Installed, Installed]]:
    both = Installed(tmp_path / "one"), Installed(tmp_path / "two")
    yield both
    for one in both:
        one.run("down")


@pytest.mark.slow
def test_two_installations_run_side_by_side(two: tuple[Installed, Installed]) -> None:
    for one in two:
        done = one.run("up", "--detach")
        assert done.returncode == 0, done.stderr
    first, second = (one.status() for one in two)
    assert {service["state"] for service in (*first.values(), *second.values())} == {"ready"}
    urls = [service["url"] for services in (first, second) for service in services.values() if service["url"]]
    assert len(urls) == len(set(urls)) == 8
    for one, services in zip(two, (first, second), strict=True):
        assert one.run("search", "parental leave", "--as", "ann@acme.com").returncode == 0
        doctor = json.loads(one.run("doctor", "--json").stdout.splitlines()[-1])
        assert [check for check in doctor["checks"] if not check["ok"]] == []
        addresses = {
            check["detail"].split()[0] for check in doctor["checks"] if check["name"] in {"serving", "dagster"}
        }
        assert addresses == {services["serving"]["url"], services["dagster-webserver"]["url"]}
    assert two[1].run("restart").returncode == 0
    assert {name: one["url"] for name, one in two[1].status().items()} == {
        name: one["url"] for name, one in second.items()
    }
    assert two[0].run("down").returncode == 0
    assert {service["state"] for service in two[1].status().values()} == {"ready"}
