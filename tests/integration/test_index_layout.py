"""Collections are created as the settings say. Requests are read with the models of Qdrant's own client."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from qdrant_client import models

from resources.core.errors import AbortSyncError
from resources.settings import Settings
from resources.stores import qdrant
from tests.fixtures import loopback
from tests.fixtures.vector import VectorProcess

NAME = "documents_layout_4"


@contextmanager
def recording() -> Generator[tuple[str, list[tuple[str, Any]]]]:
    """Yield the address of a server that refuses the creation of collections, and the bodies that it got, by path."""
    found: list[tuple[str, Any]] = []

    class Handler(loopback.Handler):
        def do_GET(self) -> None:
            self._answer(200, {"result": {"exists": False}, "status": "ok", "time": 0})

        def do_PUT(self) -> None:
            found.append((self.path, json.loads(self.body())))
            self._answer(400, {"status": {"error": "recorded"}, "time": 0})

        def _answer(self, status: int, body: Any) -> None:
            self.answer(status, json.dumps(body).encode(), content_type="application/json")

    with loopback.serving(Handler) as url:
        yield url, found


def test_a_cluster_gets_what_the_settings_say() -> None:
    with recording() as (url, found):
        settings = Settings(
            _env_file=None,  # type: ignore[call-arg]
            qdrant_url=url,
            index_shards=6,
            index_replicas=2,
            index_write_consistency=2,
            index_on_disk=True,
            index_quantization="binary",
            index_hnsw_m=32,
            index_hnsw_ef_construct=200,
        )
        with closing(qdrant.client(settings)) as client, pytest.raises(AbortSyncError, match="recorded"):
            qdrant.create_collection(client, NAME, 4, qdrant.layout_of(settings))
    ((path, body),) = found
    assert path.startswith(f"/collections/{NAME}")
    asked = models.CreateCollection.model_validate(body)
    assert (asked.shard_number, asked.replication_factor, asked.write_consistency_factor) == (6, 2, 2)
    assert isinstance(asked.vectors, dict)
    assert (asked.vectors["dense"].size, asked.vectors["dense"].on_disk) == (4, True)
    assert isinstance(asked.quantization_config, models.BinaryQuantization)
    assert asked.hnsw_config == models.HnswConfigDiff(m=32, ef_construct=200)


def test_without_settings_the_server_decides() -> None:
    with recording() as (url, found):
        settings = Settings(_env_file=None, qdrant_url=url)  # type: ignore[call-arg]
        with closing(qdrant.client(settings)) as client, pytest.raises(AbortSyncError, match="recorded"):
            qdrant.create_collection(client, NAME, 4, qdrant.layout_of(settings))
    ((_, body),) = found
    assert not body.keys() & {"shard_number", "replication_factor", "write_consistency_factor", "hnsw_config"}


@pytest.mark.parametrize("quantization", ["int8", "none"])
def test_the_embedded_server_takes_the_layout_of_one_machine(vector_process: VectorProcess, quantization: str) -> None:
    settings = Settings(
        _env_file=None,  # type: ignore[call-arg]
        qdrant_url=vector_process.url,
        index_on_disk=True,
        index_quantization=quantization,
        index_hnsw_m=24,
    )
    name = f"{NAME}_{quantization}"
    with closing(qdrant.client(settings)) as client:
        qdrant.create_collection(client, name, 4, qdrant.layout_of(settings))
        made = client.get_collection(name)
        client.delete_collection(name)
    assert (made.config.quantization_config is None) is (quantization == "none")
    assert made.config.hnsw_config.m == 24


@pytest.mark.parametrize("setting", ["index_shards", "index_replicas", "index_write_consistency"])
def test_the_embedded_server_is_no_cluster(setting: str) -> None:
    with pytest.raises(ValueError, match="CONCORDANCE_QDRANT_URL"):
        Settings(_env_file=None, **{setting: 2})  # type: ignore[call-arg, arg-type]
