"""The `chunked` stage: chunk parsed texts that have no chunks of the current version, in batches."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import polars as pl

from assets.parsed import TABLE as PARSED
from assets.stages.chunk import chunk
from assets.stages.identify import scoped_hash
from assets.stages.parse import PARSER_VERSION
from assets.stages.profiles import Profile
from resources.core.domain import Chunk, ParsedDocument
from resources.core.tables import table
from resources.embedding.wordpieces import WordPieces
from resources.stores.clients import Stores
from resources.syncs.counts import StageResult
from resources.syncs.syncing import SyncJob
from sql.rows import Pending

TABLE = "chunked"
BATCH_DOCUMENTS = 500
T = TypeVar("T")

_decode = msgspec.msgpack.Decoder(ParsedDocument).decode


def chunk_version(profile: Profile) -> str:
    return f"{PARSER_VERSION}|{profile.version}"


def chunk_missing(
    job: SyncJob, pending: Sequence[Pending], profiles: Mapping[str, Profile], counter: WordPieces
) -> StageResult:
    """Chunk texts that have no chunks in the lake. `profiles` maps each profile name to its resolved form."""
    stores = job.stores
    by_version = {chunk_version(profile): profile for profile in profiles.values()}
    wanted = {
        (document.content_key, chunk_version(profiles[document.profile])): document.partition for document in pending
    }
    todo = sorted(wanted.keys() - present(stores, {key for key, _ in wanted}))
    result = StageResult({"documents": 0, "chunked": 0, "reused": 0, "chunks": 0, "tokens": 0})
    waiting = set(todo)
    for text, partition in wanted.items():
        result.count(partition, documents=1, reused=int(text not in waiting))
    for part in batches(todo, BATCH_DOCUMENTS):
        documents = parsed_documents(stores, {key for key, _ in part})
        rows: list[dict[str, Any]] = []
        for key, version in part:
            document = documents.get(key)
            if document is None:
                continue  # skipped or failed in parsing: the registry has the reason
            chunks = chunk(document, counter, by_version[version])
            rows += _rows(key, version, chunks)
            tokens = sum(piece.tokens for piece in chunks)
            result.count(wanted[key, version], chunked=1, chunks=len(chunks), tokens=tokens)
        if rows:
            stores.keyed.append(TABLE, pl.DataFrame(rows, schema=table(TABLE).schema))
        job.progress("chunked")
    return result


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield a sequence in parts of at most `size`, in order."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def present(stores: Stores, keys: set[str]) -> set[tuple[str, str]]:
    """Return the versions of chunks that the lake has of these contents: (content key, version)."""
    return set(stores.keyed.rows(TABLE, keys).select("content_key", "version").unique().collect().iter_rows())


def parsed_documents(stores: Stores, keys: set[str]) -> dict[str, ParsedDocument]:
    frame = (
        stores.keyed.rows(PARSED, keys)
        .filter((pl.col("parser_version") == PARSER_VERSION) & (pl.col("status") == "ok"))
        .select("content_key", "document")
        .collect()
    )
    return {key: _decode(data) for key, data in frame.iter_rows()}


def _rows(key: str, version: str, chunks: Sequence[Chunk]) -> Iterator[dict[str, Any]]:
    head = {"content_key": key, "version": version, "at": datetime.now(UTC)}
    if not chunks:
        empty = Chunk(chunk_index=-1, text="", text_hash="", start_char=0, end_char=0, tokens=0)
        yield head | msgspec.structs.asdict(empty) | {"places": None}
    for piece in chunks:
        kept = msgspec.structs.replace(piece, text_hash=scoped_hash(key, piece.text_hash))
        yield head | msgspec.structs.asdict(kept) | {"places": _places(piece)}


def _places(piece: Chunk) -> str | None:
    return msgspec.json.encode(piece.places).decode() if piece.places else None
