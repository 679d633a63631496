"""The load generator of the benchmarks refuses searches that are not what is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import search_load
from bench.search_load import SEARCHED, Job
from tests.fixtures import loopback


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers with what it is sent."""

    class Echo(loopback.Handler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.answer(200, self.body())

    with loopback.serving(Echo) as url:
        yield int(url.rpartition(":")[2])


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ('{"cached":false,"warnings":[]}', True),
        ('{"cached":true,"warnings":[]}', False),
        ('{"cached":false,"warnings":["rerank_skipped"]}', False),
    ],
)
def test_a_search_from_the_cache_or_with_a_warning_is_not_measured(
    answer: str, right: bool, port: int, tmp_path: Path
) -> None:
    (tmp_path / "bodies").write_text(answer)
    found = search_load.run(Job(port, "/", str(tmp_path / "bodies"), must_hold=SEARCHED))
    assert found["wrong"] == ([] if right else [answer])
