"""Writes and collections: the same steps on our server and in qdrant-client's local mode end in the same state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any
from uuid import uuid4

import httpx
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.common.version_check import is_compatible
from qdrant_client.http.exceptions import UnexpectedResponse

from resources.core.bm25 import SparseVector
from resources.stores import qdrant

SIZE = 4
JSON = {"content-type": "application/json"}
UUID_ID = "550e8400-e29b-41d4-a716-446655440000"


def create(client: QdrantClient, name: str) -> None:
    client.create_collection(
        name,
        vectors_config={"dense": models.VectorParams(size=SIZE, distance=models.Distance.DOT)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )


def batch() -> models.Batch:
    return models.Batch(
        ids=[1, 2, 3, UUID_ID],
        vectors={"dense": [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]},
        payloads=[{"a": 1, "n": {"x": 1}}, {"a": 2}, {"a": 3, "b": "x"}, {"a": 4}],
    )


@pytest.fixture(params=["server", "local"])
def client(request: pytest.FixtureRequest, vector_url: str) -> Iterator[QdrantClient]:
    made = QdrantClient(url=vector_url) if request.param == "server" else QdrantClient(":memory:")
    yield made
    made.close()


@pytest.fixture
def name(client: QdrantClient) -> Iterator[str]:
    name = f"writes-{uuid4()}"
    create(client, name)
    client.upsert(name, batch())
    yield name
    client.delete_collection(name)


@pytest.fixture
def server(vector_url: str) -> Iterator[tuple[httpx.Client, str]]:
    """A plain HTTP client and the name of a filled collection."""
    made, name = QdrantClient(url=vector_url), f"wire-{uuid4()}"
    create(made, name)
    made.upsert(name, batch())
    with httpx.Client(base_url=vector_url) as wire:
        yield wire, name
    made.delete_collection(name)
    made.close()


def payloads(client: QdrantClient, name: str) -> dict[Any, Any]:
    return {record.id: record.payload for record in client.scroll(name, limit=100)[0]}


def by_a(value: int) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="a", match=models.MatchValue(value=value))])


def test_points_of_the_index_stage_are_those_that_the_client_would_write(server: tuple[httpx.Client, str]) -> None:
    wire, name = server
    client = QdrantClient(url=str(wire.base_url))
    dense, sparse = [0.1, -0.2, 0.3, 1e-9], SparseVector([3, 7], [0.5, 1.25])
    payload = {"a": None, "n": {"x": [1, 2.5, True]}, "text": 'ß "quoted"\n'}
    qdrant.upsert(client, name, [UUID_ID], [dense], [sparse], [payload])
    ours = client.retrieve(name, [UUID_ID], with_vectors=True)
    named = {"dense": dense, "bm25": models.SparseVector(indices=sparse.indices, values=sparse.values)}
    client.upsert(name, [models.PointStruct(id=UUID_ID, vector=named, payload=payload)])
    assert ours == client.retrieve(name, [UUID_ID], with_vectors=True)
    client.close()


def test_columnar_and_list_forms_store_the_same(client: QdrantClient, name: str) -> None:
    before = payloads(client, name)
    rows = zip(batch().ids, batch().vectors["dense"], batch().payloads, strict=True)
    client.upsert(name, [models.PointStruct(id=i, vector={"dense": v}, payload=p) for i, v, p in rows])
    assert payloads(client, name) == before
    assert client.count(name).count == 4


def test_payload_operations(client: QdrantClient, name: str) -> None:
    client.set_payload(name, {"c": [1, 2]}, points=[1, UUID_ID])
    client.set_payload(name, {"y": 2}, points=[1], key="n")
    client.set_payload(name, {"d": [None, 0]}, points=by_a(3))
    client.overwrite_payload(name, {"only": True}, points=[2])
    client.delete_payload(name, ["b"], points=[3])
    client.clear_payload(name, points_selector=by_a(4))
    assert payloads(client, name) == {
        1: {"a": 1, "n": {"x": 1, "y": 2}, "c": [1, 2]},
        2: {"only": True},
        3: {"a": 3, "d": [None, 0]},
        UUID_ID: {},
    }


def test_delete_by_ids_and_by_filter(client: QdrantClient, name: str) -> None:
    client.delete(name, [1, 77])
    client.delete(name, models.FilterSelector(filter=by_a(4)))
    assert set(payloads(client, name)) == {2, 3}


def test_vectors_are_replaced(client: QdrantClient, name: str) -> None:
    sparse = models.SparseVector(indices=[9, 2], values=[1.0, 2.0])
    client.update_vectors(name, [models.PointVectors(id=1, vector={"dense": [0, 0, 0, 5], "bm25": sparse})])
    stored = {r.id: r.vector for r in client.retrieve(name, [1], with_vectors=True)}
    assert stored[1]["dense"] == [0, 0, 0, 5]
    assert dict(zip(stored[1]["bm25"].indices, stored[1]["bm25"].values, strict=True)) == {2: 2.0, 9: 1.0}
    assert client.query_points(name, query=[0, 0, 0, 1], using="dense", limit=1).points[0].id == 1


def test_a_batch_of_operations(client: QdrantClient, name: str) -> None:
    point = models.PointStruct(id=8, vector={"dense": [1, 1, 1, 1]}, payload={"a": 8})
    client.batch_update_points(
        name,
        [
            models.UpsertOperation(upsert=models.PointsList(points=[point])),
            models.SetPayloadOperation(set_payload=models.SetPayload(payload={"new": 1}, points=[8])),
            models.DeleteOperation(delete=models.PointIdsList(points=[1])),
        ],
    )
    assert payloads(client, name)[8] == {"a": 8, "new": 1}
    assert 1 not in payloads(client, name)


def test_aliases_switch_at_once(client: QdrantClient, name: str) -> None:
    other, alias = f"{name}-next", f"alias-{name}"
    create(client, other)
    made = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=name, alias_name=alias))
    client.update_collection_aliases([made])
    assert client.count(alias).count == 4
    client.upsert(alias, [models.PointStruct(id=50, vector={"dense": [1, 1, 1, 1]}, payload={})])
    assert client.count(name).count == 5
    switch = [
        models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)),
        models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=other, alias_name=alias)),
    ]
    client.update_collection_aliases(switch)
    assert client.count(alias).count == 0
    assert [a.alias_name for a in client.get_collection_aliases(other).aliases] == [alias]
    client.delete_collection(other)
    assert alias not in {a.alias_name for a in client.get_aliases().aliases}


GOOD = {"id": 90, "vector": {"dense": [1, 1, 1, 1]}}


@pytest.mark.parametrize(
    ("bad", "status", "message"),
    [
        ({"id": 91, "vector": {"dense": [1, 2]}}, 400, "expected dim: 4, got 2"),
        ({"id": 91, "vector": {"other": [1, 2, 3, 4]}}, 400, "Not existing vector name error: other"),
        ({"id": 91, "vector": [1, 2, 3, 4]}, 400, "Not existing vector name"),
        ({"id": -1, "vector": {"dense": [1, 2, 3, 4]}}, 400, "not a valid point ID"),
        ({"id": "x", "vector": {"dense": [1, 2, 3, 4]}}, 400, "not a valid point ID"),
        ({"id": 91, "vector": {"dense": [1, 2, 3, 1e39]}}, 400, "finite"),
        ({"id": 91, "vector": {"dense": [1, 2, 3, float("nan")]}}, 400, "malformed"),
        ({"id": 91, "vector": {"dense": [1, 2, 3, "4"]}}, 400, "Expected"),
        ({"id": 91, "vector": {"bm25": {"indices": [1, 1], "values": [1, 2]}}}, 422, "must be unique"),
        ({"id": 91, "vector": {"bm25": {"indices": [1, 2], "values": [1]}}}, 422, "same length"),
        ({"id": 91, "vector": {"bm25": {"indices": [-1], "values": [1]}}}, 400, "32-bit"),
        ({"id": 91, "vector": {"bm25": [1, 2, 3, 4]}}, 400, "not a dense vector"),
        ({"id": 91, "vector": {"dense": {"indices": [1], "values": [1]}}}, 400, "not a sparse vector"),
        ({"vector": {"dense": [1, 2, 3, 4]}}, 400, "missing required field `id`"),
    ],
)
def test_nothing_of_a_bad_batch_lands(
    server: tuple[httpx.Client, str], bad: dict[str, Any], status: int, message: str
) -> None:
    wire, name = server
    body = json.dumps({"points": [GOOD, bad]})
    for method, path, sent in (
        ("PUT", "points", body),
        ("POST", "points/batch", f'{{"operations":[{{"delete":{{"points":[1]}}}},{{"upsert":{body}}}]}}'),
    ):
        answer = wire.request(method, f"/collections/{name}/{path}?wait=true", content=sent, headers=JSON)
        assert answer.status_code == status
        assert message in answer.json()["status"]["error"]
        assert answer.json()["time"] >= 0
    assert wire.post(f"/collections/{name}/points/count", json={}).json()["result"] == {"count": 4}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("points/payload", {"payload": {"z": 1}, "points": [1, 404]}),
        ("points/payload/delete", {"keys": ["a"], "points": [1, 404]}),
        ("points/payload/clear", {"points": [1, 404]}),
    ],
)
def test_a_missing_point_stops_the_whole_change(
    server: tuple[httpx.Client, str], path: str, body: dict[str, Any]
) -> None:
    wire, name = server
    before = wire.get(f"/collections/{name}/points/1").json()["result"]
    answer = wire.post(f"/collections/{name}/{path}?wait=true", json=body)
    assert answer.status_code == 404
    assert "No point with id 404 found" in answer.json()["status"]["error"]
    assert wire.get(f"/collections/{name}/points/1").json()["result"] == before


def test_columns_of_different_lengths_are_refused(server: tuple[httpx.Client, str]) -> None:
    wire, name = server
    body = {"batch": {"ids": [91, 92], "vectors": {"dense": [[1, 1, 1, 1]]}}}
    answer = wire.put(f"/collections/{name}/points", json=body)
    assert (answer.status_code, "same length" in answer.text) == (400, True)


def test_errors_as_qdrant_words_them(vector_url: str) -> None:
    client = QdrantClient(url=vector_url)
    name = f"errors-{uuid4()}"
    with pytest.raises(UnexpectedResponse, match=f"Not found: Collection `{name}` doesn.*t exist!") as caught:
        client.count(name)
    assert caught.value.status_code == 404
    assert not client.collection_exists(name)
    create(client, name)
    with pytest.raises(UnexpectedResponse, match="already exists!") as caught:
        create(client, name)
    assert caught.value.status_code == 409
    answer = httpx.get(f"{vector_url}/collections/{name}/points/404")
    assert answer.status_code == 404
    assert httpx.get(f"{vector_url}/nothing/here").status_code == 404
    assert (
        httpx.put(f"{vector_url}/collections/a%2Fb", json={"vectors": {"size": 4, "distance": "Dot"}}).status_code
        == 400
    )
    assert (
        httpx.put(f"{vector_url}/collections/{name}-2", json={"vectors": {"size": 4, "distance": "Dots"}}).status_code
        == 400
    )
    assert not client.collection_exists(f"{name}-2")
    client.delete_collection(name)
    assert httpx.delete(f"{vector_url}/collections/{name}").json()["result"] is False


def test_the_configuration_comes_back(vector_url: str) -> None:
    client, name = QdrantClient(url=vector_url), f"config-{uuid4()}"
    client.create_collection(
        name,
        vectors_config=models.VectorParams(size=8, distance=models.Distance.COSINE, on_disk=True),
        sparse_vectors_config={
            "s": models.SparseVectorParams(index=models.SparseIndexParams(on_disk=True), modifier=models.Modifier.IDF)
        },
        quantization_config=models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        hnsw_config=models.HnswConfigDiff(m=24),
        on_disk_payload=False,
    )
    client.upsert(name, [models.PointStruct(id=1, vector=[1.0] * 8, payload={"t": "some words here"})])
    words = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
    client.create_payload_index(name, "t", words)
    client.create_payload_index(name, "u", models.PayloadSchemaType.UUID)
    with pytest.raises(UnexpectedResponse, match="unknown variant `text`"):
        client.create_payload_index(name, "v", models.PayloadSchemaType.TEXT)
    client.update_collection(name, hnsw_config=models.HnswConfigDiff(m=32), metadata={"owner": "docs"})
    info = client.get_collection(name)
    assert (info.status, info.points_count, info.segments_count) == (models.CollectionStatus.GREEN, 1, 1)
    assert isinstance(info.config.params.vectors, models.VectorParams)
    assert info.config.params.vectors.on_disk
    assert (info.config.params.sparse_vectors or {})["s"].modifier == models.Modifier.IDF
    assert info.config.hnsw_config.m == 32
    assert info.config.metadata == {"owner": "docs"}
    assert isinstance(info.config.quantization_config, models.ScalarQuantization)
    assert info.payload_schema["t"].params == words
    assert info.payload_schema["u"].data_type == models.PayloadSchemaType.UUID
    client.delete_payload_index(name, "t")
    assert set(client.get_collection(name).payload_schema) == {"u"}
    assert client.retrieve(name, [1], with_vectors=True)[0].vector == pytest.approx([8**-0.5] * 8, abs=1e-3)
    client.delete_collection(name)


def test_the_service_answers(vector_url: str) -> None:
    ours = QdrantClient(url=vector_url).info().version
    assert is_compatible(version("qdrant-client"), ours)
    for path in ("/healthz", "/livez", "/readyz"):
        assert httpx.get(vector_url + path).status_code == 200
    assert "collections_total" in httpx.get(f"{vector_url}/metrics").text
