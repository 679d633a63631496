"""Links to the exact place: a document's address and a chunk's place enter, a URL that opens there leaves."""

from __future__ import annotations

from urllib.parse import urldefrag

from resources.sources import find

PDF = "application/pdf"


def is_web(url: str | None) -> bool:
    """Whether a URL may be shown as a link: anything but http(s), such as `javascript:`, never is."""
    return bool(url) and str(url).lower().startswith(("http://", "https://"))


def link(
    *,
    base_url: str,
    doc_id: str,
    chunk_index: int | None,
    url: str | None,
    source_type: str,
    mime_type: str,
    page: int | None = None,
    anchor: str | None = None,
) -> str:
    """Return the link: the source's own page where it has one (PDF page, heading, message), else our viewer at the chunk."""
    if url is None or not is_web(url):
        place = f"?chunk={chunk_index}#place" if chunk_index is not None else ""
        return f"{base_url}/documents/{doc_id}{place}"
    if mime_type == PDF and page is not None:
        return f"{urldefrag(url).url}#page={page}"
    spec = find(source_type) if anchor else None
    return url if anchor is None or spec is None or spec.place is None else spec.place(url, anchor)
