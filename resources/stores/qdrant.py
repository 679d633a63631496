"""The vector index through `qdrant-client`: names, schema, and the writes of the indexed stage.

All product code reaches Qdrant through this module's clients, so that switching to a real cluster is a change of URL. User-facing
reads live in `serving/search/retrieval` and take the caller's access.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

import httpx
import msgspec
from qdrant_client import models
from qdrant_client.async_qdrant_remote import AsyncQdrantRemote
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
from qdrant_client.qdrant_remote import QdrantRemote

from resources import http_clients, keys
from resources.core.errors import AbortSyncError, ServiceUnavailableError
from resources.core.guard import LOOPBACK
from resources.core.permissions import READER_IDS
from resources.settings import Settings
from resources.stores.namespace import namespace

if TYPE_CHECKING:
    from resources.core.bm25 import SparseVector
    from resources.stores.repeating import Repeating

ALIAS = "documents"
"""The alias that every read uses; the collection behind it is named for its model and dimensions."""
DENSE = "dense"
KEYWORD = "bm25"
TIMEOUT_SECONDS = 60
PAGE_POINTS = 1000

KEYWORD_FIELDS = (
    "permissions",
    "doc_id",
    "source_type",
    "source_id",
    "partition",
    "collection_ids",
    "mime_type",
    "author",
    "tags.tenant",
    "tags.dataset",
    "tags.lifecycle",
    "tags.channel",
    "tags.participants",
)
DATETIME_FIELDS = ("created_at", "modified_at")


def _options(settings: Settings, seconds: int = TIMEOUT_SECONDS) -> dict[str, Any]:
    key = keys.qdrant_api_key(settings)
    # Passed as `api_key`, a key over plain HTTP makes the client warn; on loopback it never leaves this machine.
    local = urlsplit(settings.qdrant_address).hostname in LOOPBACK
    return {
        "url": settings.qdrant_address,
        **({"metadata": {"api-key": key}} if key and local else {"api_key": key}),
        "timeout": seconds,
        "check_compatibility": False,
        **http_clients.options(settings.qdrant_address),
    }


def client(settings: Settings, seconds: int = TIMEOUT_SECONDS, *, repeating: Repeating | None = None) -> QdrantRemote:
    """Return a blocking client whose calls take at most `seconds`; nothing is sent yet. With `repeating`, they are repeated.

    It lacks only what `QdrantClient` adds for embedding on the client: copying its schemas takes 30 ms, and every point is inspected.
    """
    made = QdrantRemote(**_options(settings, seconds))
    if settings.index_prefix:
        made.openapi_client.client.add_middleware(namespace(settings).middleware)
    if repeating is not None:
        made.openapi_client.client.add_middleware(repeating.middleware)
    return made


def async_client(settings: Settings) -> AsyncQdrantRemote:
    """Return an asynchronous client; nothing is sent yet."""
    made = AsyncQdrantRemote(**_options(settings))
    if settings.index_prefix:
        made.openapi_client.client.add_middleware(namespace(settings).async_middleware)
    return made


@contextmanager
def qdrant_errors(what: str) -> Generator[None]:
    """Map the client's errors: an unreachable or failing server may be retried, a rejected request aborts the sync."""
    try:
        yield
    except (ResponseHandlingException, httpx.TransportError) as error:
        raise ServiceUnavailableError(f"Qdrant does not answer ({what}): {error}") from error
    except UnexpectedResponse as error:
        if error.status_code is not None and error.status_code < 500 and error.status_code != 429:
            raise AbortSyncError(f"Qdrant rejected the request to {what}: {_server_message(error)}") from error
        raise ServiceUnavailableError(f"Qdrant failed to {what}: {error}") from error
    except ApiException as error:
        raise ServiceUnavailableError(f"Qdrant failed to {what}: {error}") from error


def _server_message(error: UnexpectedResponse) -> str:
    """Return the server's error message, without the raw response around it if it is in Qdrant's format."""
    try:
        return str(error.structured()["status"]["error"])
    except (ValueError, LookupError, TypeError):
        return str(error)


def collection_name(model: str, dimensions: int) -> str:
    """Return the versioned collection's name, such as `documents_all-minilm-l6-v2_384`."""
    slug = re.sub(r"[^a-z0-9.-]+", "-", model.lower().rsplit("/", 1)[-1]).strip("-")
    return f"{ALIAS}_{slug}_{dimensions}"


KEYWORD_INDEX = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, on_disk=True)
"""Memory-mapped: checking a second condition besides the permissions is three times as fast as with the engine's in-memory copy."""
PERMISSIONS_INDEX = KEYWORD_INDEX.model_copy(update={"is_tenant": True})
"""Indexed as a tenant field, so that passages with the same readers are stored together and read sequentially."""
NUMBER_INDEX = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=True, range=False, on_disk=True)
"""Of numbers that are looked up and never compared."""
QUANTIZATIONS: Mapping[str, models.QuantizationConfig | None] = MappingProxyType(
    {
        "int8": models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8, quantile=0.99, always_ram=True)
        ),
        "binary": models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True)),
        "none": None,
    }
)
"""How vectors are searched, by the setting's values. As bytes, a quarter of the data is read; see `RESCORED`."""
RESCORED = models.SearchParams(
    hnsw_ef=256, quantization=models.QuantizationSearchParams(rescore=True, oversampling=2.0)
)
"""Finds twice as many hits by the bytes and ranks them by the full vectors: the same 50 of 50 as without quantization. Over a graph, which
the embedded server builds from 200,000 points on, 256 candidates are kept: fewer miss too much of what a filter lets through."""


class CollectionLayout(NamedTuple):
    """How a collection is created: see `resources.settings.search.IndexSettings`."""

    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None
    on_disk: bool | None = None
    quantization: str = "int8"
    hnsw_m: int | None = None
    hnsw_ef_construct: int | None = None


BY_DEFAULT = CollectionLayout()


def layout_of(settings: Settings) -> CollectionLayout:
    """Return the layout that the settings ask for."""
    return CollectionLayout(**{name: getattr(settings, f"index_{name}") for name in CollectionLayout._fields})


def create_collection(qdrant: QdrantRemote, name: str, dimensions: int, layout: CollectionLayout = BY_DEFAULT) -> None:
    """Create the collection, its payload indexes and quantization where missing. Idempotent.

    An existing collection keeps its layout, except that it gets the quantization if it has none.
    """
    quantization = QUANTIZATIONS[layout.quantization]
    graph = (layout.hnsw_m, layout.hnsw_ef_construct)
    vectors = models.VectorParams(size=dimensions, distance=models.Distance.COSINE, on_disk=layout.on_disk)
    with qdrant_errors(f"create the collection {name}"):
        if not qdrant.collection_exists(name):
            qdrant.create_collection(
                name,
                vectors_config={DENSE: vectors},
                sparse_vectors_config={KEYWORD: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                quantization_config=quantization,
                shard_number=layout.shards,
                replication_factor=layout.replicas,
                write_consistency_factor=layout.write_consistency,
                hnsw_config=None if graph == (None, None) else models.HnswConfigDiff(m=graph[0], ef_construct=graph[1]),
            )
            qdrant.create_payload_index(name, READER_IDS, NUMBER_INDEX, wait=True)
        made = qdrant.get_collection(name)
        if made.config.quantization_config is None and quantization is not None:
            qdrant.update_collection(name, quantization_config=quantization)
        present = set(made.payload_schema)
        for field in KEYWORD_FIELDS:
            if field not in present:
                schema = PERMISSIONS_INDEX if field == "permissions" else KEYWORD_INDEX
                qdrant.create_payload_index(name, field, schema, wait=True)
        for field in DATETIME_FIELDS:
            if field not in present:
                qdrant.create_payload_index(name, field, models.PayloadSchemaType.DATETIME, wait=True)


def current_collection(qdrant: QdrantRemote) -> str | None:
    """Return the collection behind the alias, or None if there is none yet."""
    with qdrant_errors("read the aliases"):
        for alias in qdrant.get_aliases().aliases:
            if alias.alias_name == ALIAS:
                return alias.collection_name
    return None


def switch_alias(qdrant: QdrantRemote, name: str) -> None:
    """Point the alias at a collection atomically: a search sees the old one or the new one, never neither."""
    operations: list[models.AliasOperations] = []
    if current_collection(qdrant) is not None:
        operations.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=ALIAS)))
    create = models.CreateAlias(collection_name=name, alias_name=ALIAS)
    operations.append(models.CreateAliasOperation(create_alias=create))
    with qdrant_errors(f"point the alias {ALIAS} at {name}"):
        qdrant.update_collection_aliases(change_aliases_operations=operations)


def _of_documents(doc_ids: Sequence[str]) -> models.Filter:
    return models.Filter(must=[models.FieldCondition(key="doc_id", match=models.MatchAny(any=list(doc_ids)))])


def upsert(
    qdrant: QdrantRemote,
    name: str,
    ids: Sequence[str],
    dense: Sequence[Sequence[float]],
    sparse: Sequence[SparseVector],
    payloads: Sequence[Mapping[str, Any]],
) -> None:
    """Write points, given in columns, and wait until they are durable."""
    vectors = {DENSE: dense, KEYWORD: [one._asdict() for one in sparse]}
    body: Any = msgspec.json.encode({"batch": {"ids": ids, "vectors": vectors, "payloads": payloads}})
    with qdrant_errors("write points"):
        # The client's own `upsert` copies and validates every number, which takes three times as long as encoding them.
        qdrant.http.points_api.upsert_points(collection_name=name, wait=True, point_insert_operations=body)


def delete_documents(qdrant: QdrantRemote, name: str, doc_ids: Sequence[str], *, keep: Sequence[str] = ()) -> None:
    """Delete every point of the documents except those with the ids to keep."""
    if doc_ids:
        chosen = _of_documents(doc_ids)
        if keep:
            chosen.must_not = [models.HasIdCondition(has_id=list(keep))]
        with qdrant_errors("delete points of documents"):
            qdrant.delete(name, models.FilterSelector(filter=chosen), wait=True)


def set_keywords(qdrant: QdrantRemote, name: str, vectors: Mapping[str, SparseVector]) -> None:
    """Replace the keyword vectors of the existing points among these; their dense vectors and payloads are kept."""
    there = existing(qdrant, name, list(vectors))
    points = [
        models.PointVectors(id=point, vector={KEYWORD: models.SparseVector(indices=one.indices, values=one.values)})
        for point, one in vectors.items()
        if point in there
    ]
    if points:
        with qdrant_errors("update keyword vectors"):
            qdrant.update_vectors(name, points=points, wait=True)


def dense_vectors(qdrant: QdrantRemote, name: str, points: Sequence[str]) -> dict[str, list[float]]:
    with qdrant_errors("read vectors"):
        found = qdrant.retrieve(name, list(points), with_payload=False, with_vectors=[DENSE])
    vectors: dict[str, list[float]] = {}
    for point in found:
        if isinstance(point.vector, dict) and DENSE in point.vector:
            vectors[str(point.id)] = cast("list[float]", point.vector[DENSE])
    return vectors


def set_payload(qdrant: QdrantRemote, name: str, payloads: dict[str, dict[str, Any]]) -> None:
    """Replace the given payload fields on every point of each document (doc_id → fields); vectors are kept."""
    operations: list[models.UpdateOperation] = [
        models.SetPayloadOperation(set_payload=models.SetPayload(payload=fields, filter=_of_documents([doc_id])))
        for doc_id, fields in payloads.items()
    ]
    if operations:
        with qdrant_errors("update payloads"):
            qdrant.batch_update_points(name, operations, wait=True)


def count_points(qdrant: QdrantRemote, name: str, doc_ids: Sequence[str] | None = None) -> int:
    """Return the exact number of points, of some documents or of all."""
    with qdrant_errors("count points"):
        return qdrant.count(
            name, count_filter=_of_documents(doc_ids) if doc_ids is not None else None, exact=True
        ).count


def count_source(qdrant: QdrantRemote, name: str, source: str) -> int:
    """Return the exact number of points of a source; 0 when the collection does not exist."""
    of_source = models.Filter(must=[models.FieldCondition(key="source_type", match=models.MatchValue(value=source))])
    with qdrant_errors("count points"):
        if not qdrant.collection_exists(name):
            return 0
        return qdrant.count(name, count_filter=of_source, exact=True).count


def collections(qdrant: QdrantRemote) -> list[str]:
    """Return all of our collections, behind the alias or not, sorted."""
    with qdrant_errors("list the collections"):
        names = [collection.name for collection in qdrant.get_collections().collections]
    return sorted(name for name in names if name.startswith(f"{ALIAS}_"))


def of_source(source: str, others: Sequence[str] = ()) -> models.Filter:
    """Return a filter for a source's points; with `others`, for those that belong to none of the others."""
    if others:
        return models.Filter(
            must_not=[models.FieldCondition(key="source_type", match=models.MatchAny(any=list(others)))]
        )
    return models.Filter(must=[models.FieldCondition(key="source_type", match=models.MatchValue(value=source))])


def pages(
    qdrant: QdrantRemote, name: str, chosen: models.Filter, fields: Sequence[str]
) -> Iterator[list[models.Record]]:
    """Yield the selected points of a collection, one page at a time, with these payload fields and no vectors.

    Points of pages already yielded may be deleted meanwhile.
    """
    offset: Any = None
    while True:
        with qdrant_errors(f"read {name}"):
            records, offset = qdrant.scroll(
                name, scroll_filter=chosen, limit=PAGE_POINTS, offset=offset, with_payload=list(fields)
            )
        if records:
            yield records
        if offset is None:
            return


def grants(qdrant: QdrantRemote, name: str, doc_ids: Sequence[str]) -> dict[str, set[tuple[str, ...]]]:
    """Return the permissions on the points of these documents, sorted: one entry per document if all of its points agree."""
    found: dict[str, set[tuple[str, ...]]] = {}
    for records in pages(qdrant, name, _of_documents(doc_ids), ("doc_id", "permissions")):
        for record in records:
            payload = record.payload or {}
            held = tuple(sorted(payload.get("permissions") or ()))
            found.setdefault(str(payload["doc_id"]), set()).add(held)
    return found


def existing(qdrant: QdrantRemote, name: str, ids: Sequence[str]) -> set[str]:
    if not ids:
        return set()
    with qdrant_errors("look for points"):
        return {str(record.id) for record in qdrant.retrieve(name, list(ids), with_payload=False)}


def delete_points(qdrant: QdrantRemote, name: str, ids: Sequence[Any]) -> None:
    with qdrant_errors("delete points"):
        qdrant.delete(name, models.PointIdsList(points=list(ids)), wait=True)
