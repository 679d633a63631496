"""Queries of the vector server while points change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from resources.servers.vector import reads
from resources.servers.vector.reads import QueryBody


def test_a_hit_that_is_deleted_before_its_payload_is_read_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    hits = [[{"id": 1, "score": 0.9}, {"id": 2, "score": 0.8}], [{"id": 2, "score": 0.7}]]
    monkeypatch.setattr(reads, "_run_batch", lambda *_: hits)
    shard = SimpleNamespace(retrieve=lambda *_, **__: [SimpleNamespace(id=1, payload={"title": "Otter"})])
    bodies = [QueryBody(limit=2, with_payload=True), QueryBody(limit=2, with_payload=True)]
    found = reads.query_batch(cast("Any", SimpleNamespace(shard=shard)), bodies)
    assert found == [[{"id": 1, "score": 0.9, "payload": {"title": "Otter"}}], []]
