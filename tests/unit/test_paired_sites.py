"""The comparison of two installations allows another order of results, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from serving.web.formats import FILTERS
from tests.fixtures.paired_sites import alike_but_for_order, normal


def link(chunk: str, quoted: str) -> str:
    return f"https://search.example/documents/{chunk}?chunk=0{quoted}#place"


def stored(chunk: str, quoted: str) -> dict[str, Any]:
    return {"chunk_id": chunk, "status": "current", "link": link(chunk, quoted)}


def cited(chunk: str, quoted: str) -> dict[str, Any]:
    return {"chunk_id": chunk, "citation": {"index": 1, "link": link(chunk, quoted)}}


def told(chunk: str, quoted: str) -> dict[str, Any]:
    return {"file": {"id": chunk, "webViewLink": link(chunk, quoted)}, "score": 0.5}


@pytest.mark.parametrize("source", [stored, cited, told])
def test_a_source_that_is_quoted_only_in_one_order_is_the_same_source(source: Any) -> None:
    plain = {"answer": "Two are quoted.", "sources": [source("a", "&from=0&to=83"), source("b", "&from=0&to=79")]}
    full = {"answer": "One is quoted.", "sources": [source("b", ""), source("a", "&from=0&to=83")]}
    assert alike_but_for_order(plain, full)


@pytest.mark.parametrize("changed", [{"status": "changed"}, {"link": "https://search.example/documents/c"}])
def test_a_source_that_differs_in_anything_else_is_another(changed: dict[str, str]) -> None:
    plain = {"sources": [stored("a", ""), stored("b", "")]}
    assert not alike_but_for_order(plain, {"sources": [stored("b", ""), stored("a", "") | changed]})


def test_times_of_a_page_are_left_out_however_they_are_shown() -> None:
    """Two installations are asked one after the other, perhaps in two minutes."""

    def page(moment: datetime) -> Any:
        shown = "".join(f"<li>{FILTERS[name](moment)}</li>" for name in ("exact", "minute"))
        return normal(httpx.Response(200, html=f'<time datetime="{moment.isoformat()}">{shown}</time>'))

    assert page(datetime(2026, 11, 9, 9, 59, 59, tzinfo=UTC)) == page(datetime(2026, 11, 19, 10, 0, tzinfo=UTC))
