"""Links that open a document at the cited location."""

from resources.sources import find
from serving.search.citations.quote import Extent

PDF = "application/pdf"


def is_web(url: str | None) -> bool:
    """Return True if a URL may be shown as a link: it begins with http(s), unlike `javascript:`, and would break no line of a citation."""
    return bool(url) and str(url).isprintable() and str(url).lower().startswith(("http://", "https://"))


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

    Our page marks `quote`, a range of the chunk. The URL may have any form: a stored one is not checked.
    """
    if url is None or not is_web(url):
        place = f"?chunk={chunk_index}" if chunk_index is not None else ""
        marked = f"&from={quote.start}&to={quote.end}" if place and quote else ""
        return f"{base_url}/documents/{doc_id}{place}{marked}{'#place' if place else ''}"
    if mime_type == PDF and page is not None:
        return f"{url.partition('#')[0]}#page={page}"
    spec = find(source_type) if anchor else None
    if anchor is None or spec is None or spec.place is None:
        return url
    try:
        return spec.place(url, anchor)
    except ValueError:  # urllib's, for brackets that enclose no IPv6 address
        return url
