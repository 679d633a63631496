"""A document's text around a place, rebuilt from its chunks. Pure.

Chunks overlap and leave out white space between them; each says where it stands (`start_char`, `end_char`), so the text comes
out with the offsets that citations use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def rebuild(chunks: Sequence[Mapping[str, Any]], start: int, end: int) -> tuple[str, int]:
    """Return the text of `start` to `end` as far as chunks cover it, and the offset that it begins at.

    What lies between two chunks is white space in the original; it comes back as line breaks of the same length.
    """
    covered = [chunk for chunk in chunks if chunk["start_char"] < end and chunk["end_char"] > start]
    if not covered:
        return "", start
    begin = max(start, min(chunk["start_char"] for chunk in covered))
    pieces: list[str] = []
    at = begin
    for chunk in sorted(covered, key=lambda one: (one["start_char"], one["end_char"])):
        if chunk["start_char"] > at:
            pieces.append("\n" * (chunk["start_char"] - at))
            at = chunk["start_char"]
        piece = chunk["chunk_text"][at - chunk["start_char"] : end - chunk["start_char"]]
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces), begin
