"""The columns of each stage's table, described for the catalog."""

from __future__ import annotations

import dagster as dg
import polars as pl

from assets.chunked import TABLE as CHUNKED
from assets.stages.payload import CHUNK_FIELDS
from resources.core.tables import table

COLUMNS: dict[str, dict[str, str]] = {
    "raw": {
        "seq": "Number of the change; a document's state is the row with its highest number.",
        "op": "`upsert` or `delete`.",
        "doc_id": "ID of the document here, the same in every store.",
        "source_id": "ID of the document at its source.",
        "partition": "Root, drive, channel, upload day or pushed source.",
        "version": "What the source says of the version; an equal one is not fetched again.",
        "content_hash": "SHA-256 of the bytes in the blob store; null after a deletion.",
        "mime_type": "Type of the content.",
        "profile": "Chunking profile.",
        "title": "Title at the source.",
        "description": "Description at the source.",
        "owner": "Email of the owner.",
        "permissions": "Principals that may read the document.",
        "meta": "Other properties, as JSON.",
        "created_at": "When the document was created at the source.",
        "modified_at": "When the document was last changed at the source.",
        "at": "When the row was written.",
    },
    "parsed": {
        "content_key": "What parsing depends on: content and type, and the words about an image.",
        "parser_version": "Version of the parser.",
        "status": "`ok`, `skipped` or `failed`.",
        "reason": "Why there is no text.",
        "document": "Text with blocks, headings, pages and offsets, as MessagePack.",
        "seconds": "CPU time of the parser.",
        "at": "When the row was written.",
    },
    "chunked": {
        "content_key": "Content that the passage is from.",
        "version": "Version of parser and chunking profile.",
        "chunk_index": "Place of the passage in its text, from 0; -1 if the text has none.",
        "text": "The passage.",
        "text_hash": "Hash of the passage, by which its vector is found.",
        "start_char": "Offset of its first character in the text.",
        "end_char": "Offset after its last character.",
        "tokens": "Length in tokens of the bundled model.",
        "section_path": "Headings above it, outermost first.",
        "anchor": "Where a link to the passage leads within the document.",
        "page_start": "First page, from 1.",
        "page_end": "Last page.",
        "is_table": "True if it is a part of a table.",
        "sheet": "Sheet of a workbook.",
        "row_start": "First row of a sheet or table.",
        "row_end": "Last row of a sheet or table.",
        "language": "Language as an ISO 639-1 code.",
        "places": "Where pages and sections begin within it, as JSON; null if there is only one.",
        "at": "When the row was written.",
    },
    "embedded": {
        "model": "Name of the embedding model.",
        "text_hash": "Hash of the text; of uploads and pushed documents, it includes the owner.",
        "vector": "L2-normalised vector.",
        "tokens": "Length of the text in tokens.",
        "at": "When the row was written.",
    },
    "indexed": {
        "doc_id": "ID of the document.",
        "title": "Title shown in results.",
        "source_type": "Name of the source.",
        "source_id": "ID of the document at its source.",
        "partition": "Root, drive, channel, upload day or pushed source.",
        "collection_ids": "IDs by which a search can be limited: folders, channel, root or day.",
        "path": "Path at the source.",
        "mime_type": "Type of the content.",
        "url": "Address of the document.",
        "owner": "Email of the owner.",
        "author": "Name of the author.",
        "tags": "Tags of the document.",
        "permissions": "Principals that may read the document; every search is limited by them.",
        "reader_ids": "Numbers of these principals, for searches of people who have hundreds.",
        "created_at": "When the document was created at the source.",
        "modified_at": "When the document was last changed at the source.",
        "chunk_text": "The passage.",
    },
}
"""Descriptions by stage; columns of a passage in the index are those of `chunked`."""


_LISTS = {"collection_ids": "List(String)", "permissions": "List(String)", "reader_ids": "List(Int64)"}


def schema_of(stage: str, name: str) -> dg.TableSchema:
    """Return the columns of a stage's table. `name` is its name in the lake; the index has none there."""
    if stage == "indexed":
        passages = table(CHUNKED).schema
        kinds = {column: _LISTS.get(column, "String") for column in COLUMNS[stage]}
        kinds |= {column: _kind(passages[column]) for column in CHUNK_FIELDS}
        described = COLUMNS[CHUNKED] | COLUMNS[stage]
    else:
        kinds = {column: _kind(kind) for column, kind in table(name).schema.items()}
        described = COLUMNS[stage]
    return dg.TableSchema(
        [dg.TableColumn(column, type=kind, description=described[column]) for column, kind in kinds.items()]
    )


def _kind(kind: pl.DataType) -> str:
    return "timestamp (UTC)" if isinstance(kind, pl.Datetime) else str(kind)
