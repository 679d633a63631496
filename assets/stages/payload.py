"""Build the payload of a point in the vector index from a registry row and a chunk row."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from resources.core.permissions import READER_IDS, reader_id

CHUNK_FIELDS = (
    "chunk_index",
    "text_hash",
    "section_path",
    "anchor",
    "page_start",
    "page_end",
    "start_char",
    "end_char",
    "is_table",
    "sheet",
    "row_start",
    "row_end",
    "language",
    "places",
)


def document_payload(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part that all chunks of a document share; only this part changes with a rename, a move or a new permission."""
    return {
        "doc_id": str(row["doc_id"]),
        "title": row["title"],
        "source_type": row["source"],
        "source_id": row["source_id"],
        "partition": row["partition"],
        "collection_ids": list(row["collection_ids"]),
        "path": row["path"],
        "mime_type": row["mime_type"],
        "url": row["url"],
        "owner": row["owner"],
        "author": row["author"],
        "tags": row["tags"],
        "permissions": list(row["permissions"]),
        READER_IDS: sorted(map(reader_id, row["permissions"])),
        "created_at": rfc3339(row["created_at"]),
        "modified_at": rfc3339(row["modified_at"]),
    }


def chunk_payload(chunk: Mapping[str, Any]) -> dict[str, Any]:
    places = msgspec.json.decode(chunk["places"]) if chunk["places"] else None
    return {"chunk_text": chunk["text"], **{name: chunk[name] for name in CHUNK_FIELDS}, "places": places}


def rfc3339(value: datetime | None) -> str | None:
    """Return a time in the format of Qdrant's datetime index, in UTC."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value is not None else None
