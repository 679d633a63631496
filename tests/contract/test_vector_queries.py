"""Reads: our server and qdrant-client's local mode must give the same answers to the same requests on the same data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4, uuid5

import httpx
import numpy as np
import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

SIZE = 16
JSON = {"content-type": "application/json"}
POINTS = 120
NAMESPACE = UUID("6f1b3a52-0d7e-4b0a-9a51-5d5b7a0d3c11")


UNSET: list[dict[str, Any]] = [
    *(
        {"owner": value}
        for value in (None, [], [None], ["ada", None], {}, "", "ada", ["ada", "bob", "eve"], {"name": None})
    ),
    {},
]
"""Every way in which a field can be unset, empty, null or filled."""


def point_id(i: int) -> int | str:
    """Numbers and UUIDs mixed."""
    return i if i % 2 else str(uuid5(NAMESPACE, str(i)))


def points() -> list[models.PointStruct]:
    """Return the same points at every call."""
    generator = np.random.default_rng(3)
    made: list[models.PointStruct] = []
    for i in range(POINTS):
        terms = sorted({int(term) for term in generator.integers(0, 40, size=6)})
        payload: dict[str, Any] = {
            "permissions": [f"user{i % 7}@example.com", f"group:g{i % 3}@example.com"],
            "doc_id": f"doc-{i // 4}",
            "rank": i,
            "weight": float(i) / 10,
            "public": i % 5 == 0,
            "modified_at": f"2024-{i % 12 + 1:02d}-01T00:00:00Z",
            "tags": {"tenant": f"t{i % 2}"},
        }
        payload |= UNSET[i % len(UNSET)]
        vector = {
            "dense": generator.normal(size=SIZE).tolist(),
            "bm25": models.SparseVector(indices=terms, values=generator.uniform(0.5, 2, size=len(terms)).tolist()),
        }
        made.append(models.PointStruct(id=point_id(i), vector=vector, payload=payload))
    return made


def fill(client: QdrantClient, name: str) -> None:
    client.create_collection(
        name,
        vectors_config={"dense": models.VectorParams(size=SIZE, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    client.upsert(name, points())


class Pair:
    """One collection on the server and the same one in the client's local mode."""

    def __init__(self, server: QdrantClient, local: QdrantClient, name: str) -> None:
        self.server, self.local, self.name = server, local, name

    def both(self, method: str, **arguments: Any) -> tuple[Any, Any]:
        return tuple(
            getattr(client, method)(collection_name=self.name, **arguments) for client in (self.server, self.local)
        )

    def agree(self, **query: Any) -> list[models.ScoredPoint]:
        """Compare points and scores; ids with equal scores may change places."""
        ours, theirs = self.both("query_points", **query)
        assert [p.score for p in ours.points] == pytest.approx([p.score for p in theirs.points], abs=1e-4)
        assert {(p.id, round(p.score, 3)) for p in ours.points} == {(p.id, round(p.score, 3)) for p in theirs.points}
        assert ours.points, "a comparison of nothing proves nothing"
        return ours.points


@pytest.fixture(scope="module")
def pair(vector_url: str) -> Iterator[Pair]:
    name = f"queries-{uuid4()}"
    server, local = QdrantClient(url=vector_url), QdrantClient(":memory:")
    fill(server, name)
    fill(local, name)
    for field, schema in {
        "permissions": models.PayloadSchemaType.KEYWORD,
        "doc_id": models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True),
        "rank": models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=True),
        "weight": models.PayloadSchemaType.FLOAT,
        "public": models.PayloadSchemaType.BOOL,
        "modified_at": models.DatetimeIndexParams(type=models.DatetimeIndexType.DATETIME),
    }.items():
        server.create_payload_index(name, field, schema)
    yield Pair(server, local, name)
    server.delete_collection(name)
    server.close()


def dense(seed: int) -> list[float]:
    return np.random.default_rng(seed).normal(size=SIZE).tolist()


SPARSE = models.SparseVector(indices=[30, 3, 11], values=[1.0, 2.0, 1.0])


def field(key: str, **condition: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, **condition)


FILTERS: dict[str, models.Filter] = {
    "any": models.Filter(
        must=[field("permissions", match=models.MatchAny(any=["user1@example.com", "user3@example.com"]))]
    ),
    "any and more": models.Filter(
        must=[
            field("permissions", match=models.MatchAny(any=["user1@example.com", "user3@example.com"])),
            field("tags.tenant", match=models.MatchValue(value="t1")),
        ]
    ),
    "any but": models.Filter(
        must=[field("permissions", match=models.MatchAny(any=["user1@example.com", "user3@example.com"]))],
        must_not=[field("tags.tenant", match=models.MatchValue(value="t1"))],
    ),
    "except": models.Filter(must=[field("doc_id", match=models.MatchExcept(**{"except": ["doc-1", "doc-2"]}))]),
    "value": models.Filter(must=field("tags.tenant", match=models.MatchValue(value="t1"))),
    "bool": models.Filter(must=[field("public", match=models.MatchValue(value=True))]),
    "range": models.Filter(must=[field("weight", range=models.Range(gt=1.5, lte=9))]),
    "datetime": models.Filter(
        must=[field("modified_at", range=models.DatetimeRange(gte="2024-03-01T00:00:00Z", lt="2024-07-01T00:00:00Z"))]
    ),
    "must_not": models.Filter(must_not=[field("rank", match=models.MatchValue(value=7))]),
    "should": models.Filter(
        should=[
            field("rank", match=models.MatchAny(any=[1, 2, 3])),
            field("public", match=models.MatchValue(value=True)),
        ]
    ),
    "has_id": models.Filter(must=[models.HasIdCondition(has_id=[point_id(1), point_id(2), point_id(9)])]),
    "has_vector": models.Filter(must=[models.HasVectorCondition(has_vector="bm25")]),
    "is_null": models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="owner"))]),
    "is_null of a part": models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="owner.name"))]),
    "is_null true": models.Filter(must=[field("owner", is_null=True)]),
    "is_null false": models.Filter(must=[field("owner", is_null=False)]),
    "is_empty": models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="owner"))]),
    "is_empty true": models.Filter(must=[field("owner", is_empty=True)]),
    "is_empty false": models.Filter(must=[field("owner", is_empty=False)]),
    **{
        f"values_count {bound} {number}": models.Filter(
            must=[field("owner", values_count=models.ValuesCount(**{bound: number}))]
        )
        for bound, number in [("gt", 0), ("gte", 0), ("gte", 1), ("gte", 3), ("lt", 1), ("lt", 2), ("lte", 0)]
    },
    "inner": models.Filter(
        must=[
            models.Filter(should=[field("rank", range=models.Range(lt=20)), field("rank", range=models.Range(gte=100))])
        ]
    ),
}


@pytest.mark.parametrize("name", FILTERS)
def test_filters_select_the_same_points(pair: Pair, name: str) -> None:
    ours, theirs = pair.both("count", count_filter=FILTERS[name], exact=True)
    assert ours.count == theirs.count > 0
    pair.agree(query=dense(1), using="dense", query_filter=FILTERS[name], limit=20)


def test_nearest_dense_by_vector_and_by_id(pair: Pair) -> None:
    pair.agree(query=dense(2), using="dense", limit=15, offset=5)
    found = pair.agree(query=point_id(4), using="dense", limit=15)
    assert point_id(4) not in {p.id for p in found}
    pair.agree(query=models.NearestQuery(nearest=dense(3)), using="dense", score_threshold=0.2, limit=50)


def test_sparse_scores_follow_idf(pair: Pair) -> None:
    pair.agree(query=SPARSE, using="bm25", limit=30)
    pair.agree(query=SPARSE, using="bm25", query_filter=FILTERS["any"], limit=30)


@pytest.mark.parametrize(
    "query",
    [
        models.FusionQuery(fusion=models.Fusion.RRF),
        models.FusionQuery(fusion=models.Fusion.DBSF),
        models.RrfQuery(rrf=models.Rrf(k=60)),
        models.RrfQuery(rrf=models.Rrf(k=10, weights=[3.0, 1.0])),
    ],
    ids=["rrf", "dbsf", "rrf-k", "rrf-weights"],
)
def test_fusion_scores(pair: Pair, query: Any) -> None:
    legs = [
        models.Prefetch(query=dense(5), using="dense", limit=20),
        models.Prefetch(query=SPARSE, using="bm25", limit=20),
    ]
    ours, theirs = pair.both("query_points", prefetch=legs, query=query, limit=10)
    assert [p.score for p in ours.points] == pytest.approx([p.score for p in theirs.points], abs=1e-4)


def test_nested_prefetch_rescores(pair: Pair) -> None:
    inner = models.Prefetch(query=SPARSE, using="bm25", limit=40, filter=FILTERS["should"])
    pair.agree(
        prefetch=models.Prefetch(prefetch=inner, query=dense(6), using="dense", limit=8),
        query=dense(7),
        using="dense",
        limit=5,
    )


def test_order_by_and_scroll(pair: Pair) -> None:
    order = models.OrderBy(key="rank", direction=models.Direction.DESC, start_from=80)
    ours, theirs = pair.both("scroll", order_by=order, limit=7)
    assert [record.id for record in ours[0]] == [record.id for record in theirs[0]]
    assert ours[0][0].payload["rank"] == 80
    assert ours[1] is None


def test_scroll_goes_by_number_then_by_uuid(pair: Pair) -> None:
    page, following = pair.server.scroll(pair.name, limit=POINTS)
    numbers = [record.id for record in page if isinstance(record.id, int)]
    uuids = [record.id for record in page if not isinstance(record.id, int)]
    assert [record.id for record in page] == sorted(numbers) + sorted(uuids)
    assert following is None
    page, following = pair.server.scroll(pair.name, limit=3, offset=2)
    assert ([record.id for record in page], following) == ([3, 5, 7], 9)
    for arguments, message in (
        ({"order_by": "tags.tenant"}, "No range index"),
        ({"order_by": "rank", "offset": 3}, "Offset is not supported"),
    ):
        with pytest.raises(UnexpectedResponse, match=message) as caught:
            pair.server.scroll(pair.name, **arguments)
        assert caught.value.status_code == 400


def test_what_was_not_asked_for_is_left_out_of_answers(pair: Pair, vector_url: str) -> None:
    with httpx.Client(base_url=f"{vector_url}/collections/{pair.name}/points") as wire:
        scrolled = wire.post("/scroll", json={"limit": 1, "with_payload": False}).json()["result"]
        assert scrolled["points"] == [{"id": 1}]
        assert wire.post("/scroll", json={"filter": {"must": [{"has_id": []}]}}).json()["result"] == {
            "points": [],
            "next_page_offset": None,
        }
        [hit] = wire.post("/query", json={"query": 1, "using": "dense", "limit": 1}).json()["result"]["points"]
        assert set(hit) == {"id", "version", "score"}
    assert "metadata" not in httpx.get(f"{vector_url}/collections/{pair.name}").json()["result"]["config"]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        ("points/search", {"vector": [1.0]}, "points/search"),
        ("points/query/groups", {"query": 1, "group_by": "doc_id"}, "points/query/groups"),
        ("snapshots", {}, "snapshots"),
        ("facet", {"key": "doc_id"}, "facet"),
        ("points/query", {"query": {"recommend": {"positive": [1]}}}, "recommend"),
        ("points/query", {"query": {"formula": "$score"}}, "formula"),
        ("points/query", {"query": 1, "lookup_from": {"collection": "other"}}, "lookup_from"),
        ("points/count", {"filter": {"must": [{"nested": {"key": "rows", "filter": {}}}]}}, "nested"),
        ("points/count", {"filter": {"must": [{"key": "t", "match": {"text": "word"}}]}}, "text"),
        ("points/vectors/delete", {"vector": ["dense"], "points": [1]}, "points/vectors/delete"),
    ],
)
def test_the_rest_of_qdrants_interface_is_refused_by_name(
    pair: Pair, vector_url: str, path: str, body: dict[str, Any], named: str
) -> None:
    answer = httpx.post(f"{vector_url}/collections/{pair.name}/{path}", json=body)
    assert answer.status_code in {400, 501}
    assert named in answer.json()["status"]["error"]
    assert "use a Qdrant server" in answer.json()["status"]["error"]


def test_scroll_pages_cover_everything_once(pair: Pair) -> None:
    seen: list[Any] = []
    offset = None
    while True:
        page, offset = pair.server.scroll(pair.name, limit=50, offset=offset, with_payload=False)
        seen += [record.id for record in page]
        assert all(record.payload is None for record in page)
        if offset is None:
            break
    assert len(seen) == len(set(seen)) == POINTS


def test_selectors_of_payload_and_vectors(pair: Pair) -> None:
    for selector in (
        True,
        ["rank", "tags.tenant"],
        models.PayloadSelectorInclude(include=["doc_id"]),
        models.PayloadSelectorExclude(exclude=["tags"]),
    ):
        ours, theirs = pair.both("retrieve", ids=[point_id(1), point_id(2)], with_payload=selector)
        assert {r.id: r.payload for r in ours} == {r.id: r.payload for r in theirs}
    ours, theirs = pair.both("retrieve", ids=[point_id(2)], with_payload=False, with_vectors=["dense"])
    assert list(ours[0].vector) == ["dense"]
    assert ours[0].vector["dense"] == pytest.approx(theirs[0].vector["dense"], abs=1e-5)
    found = pair.server.query_points(pair.name, query=SPARSE, using="bm25", with_vectors=True, limit=1).points[0]
    assert isinstance(found.vector, dict)
    assert isinstance(found.vector["bm25"], models.SparseVector)
    assert found.payload is not None


def test_a_batch_answers_each_query_in_order(pair: Pair) -> None:
    requests = [
        models.QueryRequest(query=dense(12), using="dense", filter=FILTERS["any"], limit=10, with_payload=["rank"]),
        models.QueryRequest(query=SPARSE, using="bm25", filter=FILTERS["any"], limit=10),
    ]
    ours, theirs = pair.both("query_batch_points", requests=requests)
    for mine, its in zip(ours, theirs, strict=True):
        assert [p.score for p in mine.points] == pytest.approx([p.score for p in its.points], abs=1e-4)
    assert set(ours[0].points[0].payload) == {"rank"}


@pytest.mark.parametrize("own_filter", ["any", "should", None])
@pytest.mark.parametrize("limit", [5, 40])
def test_hits_of_one_query_scored_by_another(pair: Pair, vector_url: str, own_filter: str | None, limit: int) -> None:
    searches = [{"query": dense(12), "using": "dense"}, {"query": SPARSE, "using": "bm25"}]
    shared = {"filter": FILTERS["any"], "limit": 20}
    scored = {"filter": FILTERS[own_filter] if own_filter else None, "limit": limit}
    requests = [
        models.QueryRequest(**searches[0], **scored, prefetch=models.Prefetch(**searches[1], **shared)),
        *(models.QueryRequest(**search, **shared, with_payload=["rank"]) for search in searches),
        models.QueryRequest(**searches[1], **scored, prefetch=models.Prefetch(**searches[0], **shared)),
    ]
    ours, theirs = pair.both("query_batch_points", requests=requests)
    # searches send a prefetch as it is, the client as a list of one
    body = models.QueryRequestBatch(searches=requests).model_dump_json(exclude_unset=True)
    answer = httpx.post(f"{vector_url}/collections/{pair.name}/points/query/batch", content=body, headers=JSON).json()
    for mine, sent, its in zip(ours, answer["result"], theirs, strict=True):
        assert mine.points
        wanted = pytest.approx({p.id: p.score for p in its.points}, abs=1e-4)
        assert {p.id: p.score for p in mine.points} == wanted
        assert {p["id"]: p["score"] for p in sent["points"]} == wanted


def test_search_parameters(pair: Pair) -> None:
    plain = pair.server.query_points(pair.name, query=dense(13), using="dense", limit=5).points
    params = models.SearchParams(
        exact=True, hnsw_ef=64, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
    )
    exact = pair.server.query_points(pair.name, query=dense(13), using="dense", limit=5, search_params=params).points
    assert [p.id for p in exact] == [p.id for p in plain]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ({"query": [1.0], "using": "dense"}, 400, "Vector dimension error: expected dim: 16, got 1"),
        ({"query": dense(1), "using": "other"}, 400, "Not existing vector name error: other"),
        ({"query": 999_999, "using": "dense"}, 404, "No point with id 999999 found"),
        ({"query": "no-uuid", "using": "dense"}, 400, "not a valid point ID"),
        ({"query": dense(1), "using": "dense", "limit": 0}, 422, "must be 1 or larger"),
        (
            {
                "query": dense(1),
                "using": "dense",
                "query_filter": models.Filter(must=[field("a[[", match=models.MatchValue(value=1))]),
            },
            400,
            "a\\[\\[",
        ),
    ],
)
def test_wrong_queries_are_explained(pair: Pair, arguments: dict[str, Any], status: int, message: str) -> None:
    with pytest.raises(UnexpectedResponse, match=message) as caught:
        pair.server.query_points(pair.name, **arguments)
    assert caught.value.status_code == status


def test_a_bare_condition_is_no_filter(pair: Pair, vector_url: str) -> None:
    """A bare condition would filter nothing: a deletion with it would empty the collection."""
    answer = httpx.post(f"{vector_url}/collections/{pair.name}/points/delete", json={"filter": {"has_id": [1]}})
    assert (answer.status_code, pair.server.count(pair.name).count) == (400, POINTS)
    assert "unknown field `has_id`" in answer.json()["status"]["error"]


async def _ask(url: str, name: str) -> tuple[list[Any], int]:
    client = AsyncQdrantClient(url=url)
    found = await client.query_points(name, query=dense(2), using="dense", limit=3)
    counted = await client.count(name)
    await client.close()
    return [p.id for p in found.points], counted.count


def test_the_async_client(pair: Pair, vector_url: str) -> None:
    import asyncio

    ids, counted = asyncio.run(_ask(vector_url, pair.name))
    assert ids == [p.id for p in pair.server.query_points(pair.name, query=dense(2), using="dense", limit=3).points]
    assert counted == POINTS
