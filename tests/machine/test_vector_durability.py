"""Durability: kill -9 at any moment, compaction under load, restarts, a second process, a wrong key."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from resources.servers.vector.files import size_on_disk
from tests.fixtures.mounts import Mount, fill
from tests.fixtures.vector import VectorProcess
from tests.fixtures.waiting import until

SIZE = 32
NAME = "docs"
DEADLINE_SECONDS = 60.0
INT8 = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99))


def connect(process: VectorProcess) -> QdrantClient:
    # The client compares versions in a thread, which may send its request after the test has stopped the server.
    return QdrantClient(url=process.url, timeout=60, check_compatibility=False)


def create(client: QdrantClient, **options: Any) -> None:
    client.create_collection(
        NAME,
        vectors_config={"dense": models.VectorParams(size=SIZE, distance=models.Distance.COSINE)},
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
        **options,
    )
    client.create_payload_index(NAME, "g", models.PayloadSchemaType.INTEGER)


def upsert(client: QdrantClient, ids: range, mark: int = 0) -> None:
    generator = np.random.default_rng(ids.start)
    vectors = {
        "dense": generator.normal(size=(len(ids), SIZE)).tolist(),
        "bm25": [models.SparseVector(indices=[i % 9], values=[1.0]) for i in ids],
    }
    client.upsert(
        NAME,
        models.Batch(ids=list(ids), vectors=vectors, payloads=[{"g": i % 5, "mark": mark} for i in ids]),
        wait=True,
    )


def stored(client: QdrantClient) -> dict[Any, int]:
    records, _ = client.scroll(NAME, limit=100_000, with_payload=["mark"])
    return {record.id: (record.payload or {})["mark"] for record in records}


def shards(process: VectorProcess) -> list[str]:
    return sorted(entry.name for entry in (process.path / "collections" / NAME).iterdir() if entry.is_dir())


def test_acknowledged_writes_survive_kill(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client)
    acknowledged: list[int] = []

    def write() -> None:
        try:
            for start in range(0, 1_000_000, 70):
                upsert(client, range(start, start + 70), mark=start)
                acknowledged.append(start)
        except (ResponseHandlingException, UnexpectedResponse):
            return

    writer = threading.Thread(target=write)
    writer.start()
    until(lambda: len(acknowledged) >= 20, "20 batches")
    vector_process.kill()
    writer.join()
    vector_process.start()
    client = connect(vector_process)
    found = stored(client)
    for start in acknowledged:
        assert all(found.get(i) == start for i in range(start, start + 70))
    client.delete(
        NAME,
        models.FilterSelector(
            filter=models.Filter(must=[models.FieldCondition(key="g", match=models.MatchValue(value=1))])
        ),
    )
    client.set_payload(NAME, {"mark": -1}, points=[0])
    expected = stored(client)
    vector_process.kill()
    vector_process.start()
    assert stored(connect(vector_process)) == expected
    assert expected[0] == -1
    assert 1 not in expected


def test_compaction_never_stops_reads_and_loses_no_write(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=100))
    for start in range(0, 6000, 1000):
        upsert(client, range(start, start + 1000))
    assert shards(vector_process) == ["shard-1"]
    done = threading.Event()
    failures: list[Exception] = []
    reads, written = [0], [6000]

    def read() -> None:
        reader, query = connect(vector_process), np.random.default_rng(1).normal(size=SIZE).tolist()
        try:
            while not done.is_set():
                assert len(reader.query_points(NAME, query=query, using="dense", limit=10).points) == 10
                reads[0] += 1
        except Exception as error:  # noqa: BLE001 reported by the test itself
            failures.append(error)

    def write() -> None:
        writer = connect(vector_process)
        try:
            while not done.is_set():
                upsert(writer, range(written[0], written[0] + 40), mark=1)
                written[0] += 40
                writer.delete(NAME, [written[0] - 1])
                writer.set_payload(NAME, {"mark": 2}, points=[written[0] - 2])
                writer.create_payload_index(NAME, "mark", models.PayloadSchemaType.INTEGER)
        except Exception as error:  # noqa: BLE001 reported by the test itself
            failures.append(error)

    threads = [threading.Thread(target=work) for work in (read, write)]
    for thread in threads:
        thread.start()
    until(lambda: reads[0] > 0 and written[0] > 6000, "load")
    before = (reads[0], written[0])
    answer = httpx.post(f"{vector_process.url}/collections/{NAME}/compact", timeout=DEADLINE_SECONDS)
    during = (reads[0], written[0])
    done.set()
    for thread in threads:
        thread.join()
    assert answer.status_code == 200, answer.text
    assert not failures
    assert during[0] > before[0]
    assert during[1] > before[1]
    assert shards(vector_process) == ["shard-2"]
    info = client.get_collection(NAME)
    assert (info.indexed_vectors_count or 0) > 6000
    assert set(info.payload_schema) == {"g", "mark"}
    expected = dict.fromkeys(range(6000), 0) | dict.fromkeys(range(6000, written[0]), 1)
    for last in range(6039, written[0], 40):
        del expected[last]
        expected[last - 1] = 2
    assert stored(client) == expected
    vector_process.kill()
    vector_process.start()
    assert stored(connect(vector_process)) == expected


def test_an_erasing_compaction_leaves_nothing_of_deleted_points_in_any_file(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10))
    client.create_payload_index(NAME, "secret", models.PayloadSchemaType.KEYWORD)
    upsert(client, range(3000))
    httpx.post(f"{vector_process.url}/collections/{NAME}/compact", timeout=DEADLINE_SECONDS).raise_for_status()
    client.set_payload(NAME, {"secret": "ochreheron"}, points=[5, 2999])
    client.set_payload(NAME, {"secret": "ochreheron"}, points=[7])
    client.set_payload(NAME, {"secret": "plain"}, points=[7])
    client.delete(NAME, models.PointIdsList(points=[5, 2999]))
    expected = stored(client)

    def held() -> list[str]:
        files = [path for path in vector_process.path.rglob("*") if path.is_file()]
        return [path.name for path in files if b"ochreheron" in path.read_bytes()]

    assert held()
    url = f"{vector_process.url}/collections/{NAME}/compact?erase=true"
    httpx.post(url, timeout=DEADLINE_SECONDS).raise_for_status()
    assert held() == []
    assert stored(client) == expected
    # the engine still accepts writes to points that existed before
    client.set_payload(NAME, {"secret": "other"}, points=[1])
    vector_process.kill()
    vector_process.start()
    client = connect(vector_process)
    assert (client.retrieve(NAME, [1])[0].payload or {})["secret"] == "other"
    assert stored(client) == expected


def test_a_kill_during_compaction_leaves_the_collection_whole(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=100))
    for start in range(0, 4000, 1000):
        upsert(client, range(start, start + 1000))
    expected = stored(client)

    def compact() -> None:
        try:
            httpx.post(f"{vector_process.url}/collections/{NAME}/compact", timeout=DEADLINE_SECONDS)
        except httpx.TransportError:
            return

    # Killed as soon as the copy appears, then at later moments, the last after the swap.
    for delay_in_polls in (0, 5, 50, 500):
        known = set(shards(vector_process))
        worker = threading.Thread(target=compact)
        worker.start()
        until(lambda known=known: bool(set(shards(vector_process)) - known), "the copy")
        for _ in range(delay_in_polls):
            client.collection_exists(NAME)
        vector_process.kill()
        worker.join()
        vector_process.start()
        client = connect(vector_process)
        assert stored(client) == expected
        assert len(shards(vector_process)) == 1


def test_compaction_starts_by_itself_when_worthwhile(make_vector_process: Callable[..., VectorProcess]) -> None:
    process = make_vector_process(options=("--compact-from", "500", "--flush-seconds", "0.05"))
    client = connect(process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10))
    upsert(client, range(400))
    assert shards(process) == ["shard-1"]
    upsert(client, range(400, 900))
    assert process.wait_for("compaction_finished")["points"] == 900
    assert shards(process) == ["shard-2"]
    assert client.count(NAME).count == 900


def test_a_compaction_without_room_leaves_the_disk_to_others_and_is_not_tried_again_at_once(
    make_vector_process: Callable[..., VectorProcess], mount: Mount, tmp_path: Path
) -> None:
    disk = tmp_path / "vector-0"
    mount(disk, megabytes=100)
    process = make_vector_process(options=("--compact-from", "500", "--flush-seconds", "0.05"))
    client = connect(process)
    create(client)
    upsert(client, range(400))
    fill(disk)
    os.truncate(disk / "filler", (disk / "filler").stat().st_size - size_on_disk(disk / "collections"))
    upsert(client, range(400, 500))
    assert "no room" in process.wait_for("compaction_failed")["reason"]
    for start in range(500, 520):
        upsert(client, range(start, start + 1))
    (disk / "filler").unlink()
    answer = httpx.post(f"{process.url}/collections/{NAME}/compact", timeout=60)
    assert answer.status_code == 200, answer.text
    assert [process.event(), process.event()] == ["compaction_started", "compaction_finished"], "none has begun since"
    assert client.count(NAME).count == 520


@pytest.mark.parametrize(
    ("options", "links"),
    [
        ({"quantization_config": INT8}, 0),
        ({}, 16),
        ({"quantization_config": INT8, "hnsw_config": models.HnswConfigDiff(m=8)}, 8),
    ],
    ids=["quantized", "whole", "quantized with a graph asked for"],
)
def test_quantized_vectors_need_no_graph_until_there_are_many(
    vector_process: VectorProcess, options: dict[str, Any], links: int
) -> None:
    client = connect(vector_process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10), **options)
    upsert(client, range(3000))
    query = {"query": np.random.default_rng(7).normal(size=SIZE).tolist(), "using": "dense", "limit": 20}
    before = [point.id for point in client.query_points(NAME, **query).points]
    httpx.post(f"{vector_process.url}/collections/{NAME}/compact", timeout=DEADLINE_SECONDS).raise_for_status()
    [made] = vector_process.path.rglob("vector_index-dense/hnsw_config.json")
    assert json.loads(made.read_text())["m"] == links
    assert bool(list(vector_process.path.rglob("quantized.meta.json"))) == bool(options)
    if not links:
        rescored = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
        found = client.query_points(NAME, **query, search_params=models.SearchParams(quantization=rescored))
        assert [point.id for point in found.points] == before


def test_a_collection_that_outgrows_the_scan_gets_its_graph(make_vector_process: Callable[..., VectorProcess]) -> None:
    process = make_vector_process(options=("--compact-from", "0", "--graph-from", "2500"))
    client = connect(process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10), quantization_config=INT8)
    links: list[int] = []
    for ids in (range(2000), range(2000, 3000)):
        upsert(client, ids)
        httpx.post(f"{process.url}/collections/{NAME}/compact", timeout=DEADLINE_SECONDS).raise_for_status()
        [made] = process.path.rglob("vector_index-dense/hnsw_config.json")
        links.append(json.loads(made.read_text())["m"])
    assert links == [0, 16]


def test_a_patch_is_taken_up_by_the_next_compaction_even_when_one_is_running(
    make_vector_process: Callable[..., VectorProcess],
) -> None:
    process = make_vector_process(options=("--compact-from", "500", "--flush-seconds", "0.05"))
    client = connect(process)
    create(client, optimizers_config=models.OptimizersConfigDiff(indexing_threshold=10))
    upsert(client, range(900))
    process.wait_for("compaction_started")
    client.update_collection(NAME, quantization_config=INT8)
    until(lambda: shards(process) == ["shard-3"], "it was not compacted again")
    assert list(process.path.rglob("quantized.meta.json"))
    indexes = [json.loads(file.read_text())["m"] for file in process.path.rglob("vector_index-dense/hnsw_config.json")]
    assert set(indexes) == {0}
    assert client.count(NAME).count == 900


def test_two_compactions_of_one_collection_are_refused(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client)
    upsert(client, range(2000))
    url = f"{vector_process.url}/collections/{NAME}/compact"
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(httpx.post(url, timeout=DEADLINE_SECONDS).status_code))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 in answers
    assert set(answers) <= {200, 409}
    assert client.count(NAME).count == 2000


def test_a_clean_stop_keeps_everything_and_exits_with_zero(vector_process: VectorProcess) -> None:
    client = connect(vector_process)
    create(client)
    upsert(client, range(100))
    alias = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=NAME, alias_name="documents"))
    client.update_collection_aliases([alias])
    assert vector_process.stop() == 0
    vector_process.start()
    client = connect(vector_process)
    assert client.count("documents").count == 100
    assert client.get_collection(NAME).payload_schema["g"].data_type == models.PayloadSchemaType.INTEGER


def search_threads(process: VectorProcess) -> int:
    """Return how many threads there are, once there is one: a thread takes its name after it has started."""
    until(lambda: _search_threads(process) > 0, "a thread that searches")
    return _search_threads(process)


def _search_threads(process: VectorProcess) -> int:
    names = [(task / "comm").read_text() for task in Path(f"/proc/{process.pid}/task").iterdir()]
    return sum(name.startswith("edge-search") for name in names)


def test_a_collection_searches_in_one_thread(vector_process: VectorProcess) -> None:
    create(connect(vector_process))
    assert search_threads(vector_process) == 1
    vector_process.stop()
    [stored] = vector_process.path.glob("collections/*/*/edge_config.json")
    config = json.loads(stored.read_text())
    config.pop("max_search_threads")  # as in a collection that was made without it
    stored.write_text(json.dumps(config))
    vector_process.start()
    assert search_threads(vector_process) == 1


def test_a_second_process_on_the_folder_is_refused(vector_process: VectorProcess) -> None:
    command = [part if part != str(vector_process.port) else "0" for part in vector_process.command()]
    second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert second.returncode == 1
    assert f"in use by another vector server (process {vector_process.pid})" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_taken_port_is_explained(vector_process: VectorProcess, tmp_path: Path) -> None:
    command = [
        part if part != str(vector_process.path) else str(tmp_path / "other") for part in vector_process.command()
    ]
    second = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False)
    assert second.returncode == 1
    assert "give another --port" in second.stderr
    assert "Traceback" not in second.stderr


def test_the_leftovers_of_a_failed_create_are_removed(vector_process: VectorProcess) -> None:
    stale = vector_process.path / "collections" / NAME / "shard-1" / "segments" / "broken"
    stale.mkdir(parents=True)
    client = connect(vector_process)
    create(client)
    upsert(client, range(10))
    half = vector_process.path / "collections" / "half" / "shard-1"
    half.mkdir(parents=True)
    vector_process.restart()
    assert [c.name for c in connect(vector_process).get_collections().collections] == [NAME]
    assert not half.exists()


@pytest.mark.parametrize("lost", ["shard-1", "shard-1/edge_config.json", "collection.json"])
def test_a_damaged_collection_is_named_with_what_to_do(vector_process: VectorProcess, lost: str) -> None:
    create(connect(vector_process))
    vector_process.stop()
    path = vector_process.path / "collections" / NAME / lost
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.write_bytes(b"")  # as a loss of power leaves it
    started = subprocess.run(
        vector_process.command(), capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert started.returncode == 1
    assert f"collection `{NAME}` in {vector_process.path / 'collections' / NAME} cannot be opened" in started.stderr
    assert "delete the folder" in started.stderr
    assert "Traceback" not in started.stderr


def test_interrupt_works_though_it_was_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    process = VectorProcess(tmp_path / "vector")
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stop(signal.SIGINT) == 0


def test_the_key_is_demanded(make_vector_process: Callable[..., VectorProcess]) -> None:
    process = make_vector_process(api_key="s3cret")
    with pytest.warns(UserWarning, match="insecure connection"):
        allowed = QdrantClient(url=process.url, api_key="s3cret")
    assert allowed.get_collections().collections == []
    assert httpx.get(f"{process.url}/collections", headers={"authorization": "Bearer s3cret"}).status_code == 200
    for headers in ({}, {"api-key": "wrong"}, {"api-key": ""}, {"authorization": "Basic s3cret"}):
        answer = httpx.get(f"{process.url}/collections", headers=headers)
        assert answer.status_code == 401
        assert "API key" in answer.json()["status"]["error"]
    for path in ("/", "/telemetry", "/metrics", "/aliases", "/collections/x/snapshots"):
        assert httpx.get(process.url + path).status_code == 401
    for path in ("/healthz", "/livez", "/readyz"):
        assert httpx.get(process.url + path).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-type": "text/plain", "origin": "https://evil.example"}, 403),
        ({"content-type": "application/json", "origin": "https://evil.example"}, 403),
        ({"content-type": "application/json", "sec-fetch-site": "cross-site"}, 403),
        ({"content-type": "text/plain"}, 415),
        ({}, 415),
        ({"content-type": "application/json", "host": "evil.example:6333"}, 421),
    ],
)
def test_no_web_page_changes_permissions(vector_process: VectorProcess, headers: dict[str, str], status: int) -> None:
    """Requests that a page can make a browser send, to a server that requires no key."""
    client = connect(vector_process)
    create(client)
    client.upsert(NAME, [models.PointStruct(id=1, vector={"dense": [1.0] * SIZE}, payload={"permissions": ["ada"]})])
    body = json.dumps({"payload": {"permissions": ["public"]}, "points": [1]})
    url = f"{vector_process.url}/collections/{NAME}/points/payload"
    answer = httpx.post(f"{url}?wait=true", content=body, headers=headers)
    assert answer.status_code == status
    assert client.retrieve(NAME, [1])[0].payload == {"permissions": ["ada"]}
    assert httpx.post(f"{url}?wait=true", content=body, headers={"content-type": "application/json"}).status_code == 200


def test_a_foreign_host_reads_nothing(vector_process: VectorProcess) -> None:
    for path in ("/collections", "/", "/readyz", "/telemetry"):
        assert httpx.get(vector_process.url + path, headers={"host": "evil.example"}).status_code == 421
