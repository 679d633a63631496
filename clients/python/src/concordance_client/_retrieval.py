"""What retrievers of other frameworks share."""

from typing import Any

from concordance_client._generated.models import Result
from concordance_client._generated.params import SearchOptions

FIELDS = {
    "doc_id",
    "chunk_index",
    "title",
    "source_type",
    "path",
    "mime_type",
    "owner",
    "tags",
    "section_path",
    "page_start",
    "page_end",
    "modified_at",
    "relevance_score",
}


def metadata(result: Result) -> dict[str, Any]:
    """Return the metadata of a passage as JSON values. `source` is the link that opens it, `citation` its text to display."""
    return result.model_dump(mode="json", include=FIELDS) | {
        "source": result.citation.link,
        "citation": result.citation.text,
    }


def passages(options: SearchOptions, k: int) -> SearchOptions:
    """Return the options of a search for `k` passages; several may be from one document unless the options say otherwise."""
    return {"group_by_document": False, **options, "top_k": k}
