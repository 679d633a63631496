"""Links to the exact place: a document's address and a chunk's place enter, a URL that opens there leaves."""

from __future__ import annotations

import re
from urllib.parse import quote, urldefrag, urlsplit

PDF = "application/pdf"
_MESSAGE = re.compile(r"p\d{10,20}(?:\?thread_ts=\d+\.\d+&cid=[A-Z0-9]+)?")
"""The last part of a Slack permalink. Source: https://docs.slack.dev/reference/methods/chat.getPermalink"""


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
    if anchor and source_type == "files":
        return f"{urldefrag(url).url}#{quote(anchor)}"
    if anchor and source_type == "slack" and _MESSAGE.fullmatch(anchor):
        return _message(url, anchor)
    return url


def _message(url: str, anchor: str) -> str:
    """Return the permalink of another message of the channel that `url`, a permalink too, leads into."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    if not folder.startswith("/archives/") or not _MESSAGE.fullmatch(name):
        return url
    return f"{parts.scheme}://{parts.netloc}{folder}/{anchor}"
