"""Rebuild a range of a document's text from its chunks. Pure.

Chunks overlap, and omit white space between them. Their offsets (`start_char`, `end_char`) are those that citations use.
"""

from collections.abc import Sequence

from sql.serving_rows import ChunkText


def rebuild(chunks: Sequence[ChunkText], start: int, end: int) -> tuple[str, int]:
    """Return the text from `start` to `end` as far as chunks cover it, and the offset of its first character.

    White space between two chunks is replaced by as many line breaks.
    """
    covered = [chunk for chunk in chunks if chunk.start_char < end and chunk.end_char > start]
    if not covered:
        return "", start
    begin = max(start, min(chunk.start_char for chunk in covered))
    pieces: list[str] = []
    at = begin
    for chunk in sorted(covered, key=lambda chunk: (chunk.start_char, chunk.end_char)):
        if chunk.start_char > at:
            pieces.append("\n" * (chunk.start_char - at))
            at = chunk.start_char
        piece = chunk.chunk_text[at - chunk.start_char : end - chunk.start_char]
        pieces.append(piece)
        at += len(piece)
    return "".join(pieces), begin
