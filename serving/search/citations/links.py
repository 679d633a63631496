"""Links that open a document at the cited location."""

from urllib.parse import urldefrag

from resources.sources import find
from serving.search.citations.quote import Extent

PDF = "application/pdf"


def is_web(url: str | None) -> bool:
    """Return True if a URL may be shown as a link, which only http(s) may, unlike `javascript:`."""
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
    quote: Extent | None = None,
) -> str:
    """Return the link to the source's own page (PDF page, heading, message) or, if it has none, to our document page at the chunk.

    Our page marks `quote`, a range of the chunk.
    """
    if url is None or not is_web(url):
        place = f"?chunk={chunk_index}" if chunk_index is not None else ""
        marked = f"&from={quote.start}&to={quote.end}" if place and quote else ""
        return f"{base_url}/documents/{doc_id}{place}{marked}{'#place' if place else ''}"
    if mime_type == PDF and page is not None:
        return f"{urldefrag(url).url}#page={page}"
    spec = find(source_type) if anchor else None
    return url if anchor is None or spec is None or spec.place is None else spec.place(url, anchor)
