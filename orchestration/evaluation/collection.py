"""Index a test collection in BEIR layout with the production stages.

The folder holds `corpus.jsonl` (_id, title, text), `queries.jsonl` (_id, text) and judgements in `qrels.tsv` or
`qrels/test.tsv`. Documents are normalised, chunked, embedded and written as points as in a sync, but without the registry,
because test documents have no owner. Vectors are kept by text, so that a second evaluation embeds nothing.
"""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from qdrant_client.qdrant_remote import QdrantRemote

from assets.chunked import batches
from assets.index.points import WRITE_POINTS
from assets.stages.chunk import chunk
from assets.stages.language import identify_language
from assets.stages.normalize import BlockDraft, assemble
from assets.stages.parse.text import parse
from assets.stages.payload import chunk_payload, document_payload
from assets.stages.profiles import Profile
from resources.core import bm25, sketch
from resources.core.domain import ParsedDocument, SourceName, chunk_id, document_id
from resources.core.errors import InvalidRequestError
from resources.core.naming import keyword_text, name_words
from resources.core.ports import Embedder, Tokenizer
from resources.core.tables import embedded_table
from resources.stores import qdrant
from resources.stores.lake import Lake

JUDGEMENTS = ("qrels.tsv", "qrels/test.tsv")
EMBED_CHUNKS = 1000
"""Texts between two writes to the lake: the most that an interrupted evaluation embeds again."""
PERMISSIONS = ["public"]

Progress = Callable[[str], None]


class Row(NamedTuple):
    id: str
    text: str = ""
    title: str = ""


class _Line(msgspec.Struct, frozen=True):
    """A row of the files; some collections write ids as numbers, and null for missing values."""

    id: str | int = msgspec.field(name="_id")
    text: str | None = None
    title: str | None = None


class JudgedCollection(NamedTuple):
    """Documents, judged queries, and judgements (query id → document id → grade)."""

    name: str
    documents: list[Row]
    queries: list[Row]
    judgements: dict[str, dict[str, int]]


class EvaluationTarget(NamedTuple):
    qdrant: QdrantRemote
    lake: Lake
    embedder: Embedder
    tokenizer: Tokenizer
    profile: Profile


class Indexed(NamedTuple):
    """An indexed test collection: chunk id → payload, document id → the collection's own id."""

    payloads: dict[str, dict[str, Any]]
    ids: dict[str, str]

    @property
    def languages(self) -> frozenset[str]:
        """Languages of the passages (ISO 639-1), as the service reads them from the registry."""
        return frozenset(payload["language"] for payload in self.payloads.values() if payload["language"])


def read_collection(folder: Path) -> JudgedCollection:
    """Read a folder, omitting queries without a relevant document. Raises `InvalidRequestError` naming file and line."""
    found = next((folder / name for name in JUDGEMENTS if (folder / name).is_file()), None)
    missing = [name for name in ("corpus.jsonl", "queries.jsonl") if not (folder / name).is_file()]
    missing += ["qrels.tsv"] if found is None else []
    if found is None or missing:
        raise InvalidRequestError(
            f"{folder}: lacks {', '.join(missing)}. A test collection is a folder in BEIR layout: corpus.jsonl (_id, title, text), "
            "queries.jsonl (_id, text), qrels.tsv (query, document, grade)."
        )
    documents = _rows(folder / "corpus.jsonl")
    judgements = _judgements(found)
    queries = [query for query in _rows(folder / "queries.jsonl") if query.id in judgements and query.text.strip()]
    if not documents or not queries:
        raise InvalidRequestError(
            f"{folder}: holds no {'documents' if not documents else 'query with a relevant document'}."
        )
    kept = {query.id: judgements[query.id] for query in queries}
    return JudgedCollection(folder.resolve().name, documents, queries, kept)


def _rows(path: Path) -> list[Row]:
    decode = msgspec.json.Decoder(_Line).decode
    rows: dict[str, Row] = {}
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                read = decode(line)
            except msgspec.DecodeError as error:
                raise InvalidRequestError(f"{path}, line {number}: {error}.") from error
            row = Row(str(read.id), read.text or "", read.title or "")
            if row.id in rows:
                raise InvalidRequestError(f"{path}, line {number}: duplicate _id {row.id!r}.")
            rows[row.id] = row
    return list(rows.values())


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    """Return the judgements of queries that have a relevant document. A first line without a number is a header."""
    found: dict[str, dict[str, int]] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for number, row in enumerate(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE), start=1):
            if not any(row):
                continue
            try:
                query, document, grade = row
                found.setdefault(query, {})[document] = int(grade)
            except ValueError:
                if number > 1:
                    raise InvalidRequestError(
                        f"{path}, line {number}: expected query id, document id and an integer grade, separated by tabs."
                    ) from None
                found.clear()
    return {query: grades for query, grades in found.items() if any(grade > 0 for grade in grades.values())}


def index_collection(collection: JudgedCollection, target: EvaluationTarget, progress: Progress) -> Indexed:
    """Index a test collection behind the alias of a dedicated vector server."""
    rows = list(_chunks(collection, target))
    vectors = _Vectors([row for _, row in rows], target, progress)
    dimensions = target.embedder.dimensions
    name = f"{qdrant.ALIAS}_evaluation_{dimensions}"
    qdrant.create_collection(target.qdrant, name, dimensions)
    languages = [row["language"] for _, row in rows]
    average = bm25.mean_length([_keyword_text(shared, row) for shared, row in rows], languages)
    payloads: dict[str, dict[str, Any]] = {}
    for part in batches(rows, WRITE_POINTS):
        dense = vectors.rows([row["text_hash"] for _, row in part])
        written = {
            chunk_id(shared["doc_id"], target.profile.version, row["chunk_index"]): {
                **shared,
                **chunk_payload(row),
                "sketch": small,
            }
            for (shared, row), small in zip(part, sketch.encode(dense), strict=True)
        }
        texts = [_keyword_text(shared, row) for shared, row in part]
        sparse = bm25.encode_documents(texts, average, [row["language"] for _, row in part])
        qdrant.upsert(target.qdrant, name, list(written), dense.tolist(), sparse, list(written.values()))
        payloads |= written
    qdrant.switch_alias(target.qdrant, name)
    ids = {document_id(SourceName.FILES, _source_id(collection, row)): row.id for row in collection.documents}
    return Indexed(payloads, ids)


def _keyword_text(shared: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return the text of a chunk for keyword search; test documents have no name but their title."""
    return keyword_text(name_words([shared["title"]], row["chunk_index"], row["text"]), row["text"])


def _chunks(collection: JudgedCollection, target: EvaluationTarget) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield each chunk as (payload shared by its document's points, chunk row)."""
    for row in collection.documents:
        shared = _shared(collection, row)
        for piece in chunk(parse_row(row), target.tokenizer, target.profile):
            places = msgspec.json.encode(piece.places).decode() if piece.places else None
            yield shared, msgspec.structs.asdict(piece) | {"places": places}


def parse_row(row: Row) -> ParsedDocument:
    """Return a document as plain text with its title as a heading."""
    heading = [BlockDraft(kind="heading", text=row.title, level=1)] if row.title.strip() else []
    body = parse(row.text.encode()).drafts if row.text.strip() else list[BlockDraft]()
    text, blocks = assemble([*heading, *body])
    return ParsedDocument(text=text, blocks=blocks, title=row.title or None, language=identify_language(text, blocks))


def _source_id(collection: JudgedCollection, row: Row) -> str:
    return f"{collection.name}/{row.id}"


def _shared(collection: JudgedCollection, row: Row) -> dict[str, Any]:
    source_id = _source_id(collection, row)
    nothing = dict.fromkeys(("url", "owner", "author", "created_at", "modified_at"))
    return document_payload(
        nothing
        | {
            "doc_id": document_id(SourceName.FILES, source_id),
            "title": row.title,
            "source": SourceName.FILES.value,
            "source_id": source_id,
            "partition": collection.name,
            "collection_ids": [collection.name],
            "path": source_id,
            "mime_type": "text/plain",
            "tags": {},
            "permissions": PERMISSIONS,
        }
    )


class _Vectors:
    """Vectors by chunk text, read from the lake or computed the first time."""

    def __init__(self, chunks: Sequence[Mapping[str, Any]], target: EvaluationTarget, progress: Progress) -> None:
        rows = list({row["text_hash"]: row for row in chunks}.values())
        hashes = [row["text_hash"] for row in rows]
        table = embedded_table(target.embedder.model, target.embedder.dimensions)
        found, self._matrix = target.lake.vectors(table, hashes)
        self._rows = {text_hash: number for number, text_hash in enumerate(hashes)}
        todo = [number for number, known in enumerate(found.tolist()) if not known]
        for done, part in enumerate(batches(todo, EMBED_CHUNKS)):
            progress(f"Embedding {len(todo)} texts, {done * EMBED_CHUNKS} done …")
            vectors = target.embedder.embed([rows[number]["text"] for number in part])
            self._matrix[list(part)] = vectors
            tokens = [rows[number]["tokens"] for number in part]
            written = [hashes[number] for number in part]
            target.lake.append_vectors(table, target.embedder.model, written, vectors, tokens, datetime.now(UTC))

    def rows(self, hashes: Sequence[str]) -> NDArray[np.float32]:
        """Return one row per hash, in order."""
        return self._matrix[[self._rows[text_hash] for text_hash in hashes]]
