"""Find where sentences start: the preferred places to split prose into chunks."""

import sentencex

PIECE = 5_000
"""Characters processed at a time: the splitter takes time quadratic in the length of text without spaces."""


def starts(text: str, language: str | None = None) -> list[int]:
    """Return the offsets where a sentence starts, in ascending order; the first is always 0. Empty text has none.

    `language` is an ISO 639-1 code; it decides which abbreviations (`z.B.`, `e.g.`) do not end a sentence.
    """
    if not text:
        return []
    found = [0]
    offset = 0
    while offset < len(text):
        end = min(len(text), offset + PIECE)
        piece = text[offset:end]
        boundaries = sentencex.get_sentence_boundaries(language or "en", piece)
        for sentence in boundaries:
            start = offset + sentence["start_index"]
            if start > found[-1] and start > offset and not sentence["text"].isspace():
                found.append(start)
        # The last sentence of a piece may continue: the next piece begins with it, or at the last white space of this one.
        if found[-1] > offset and end < len(text):
            offset = found[-1]
        else:
            gap = text.rfind(" ", offset + PIECE // 2, end) if end < len(text) else -1
            offset = gap + 1 if gap > 0 else end
    return found
