"""Identify the language of a text as an ISO 639-1 code; None if the text is too short or the guess too uncertain."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from resources.core.domain import Block

SAMPLE = 240
"""Characters examined: the identifier loops over bytes in Python (about 0.6 microseconds each) and is certain long before."""
CONFIDENCE = 0.5
"""Minimum probability: below it the guess is mostly wrong (tables, code, a word or two)."""
_DIGITS = re.compile(r"\d+")
_PROSE = frozenset({"paragraph", "list", "heading"})


@cache
def load() -> Any:
    """Return the identifier, loaded once per process because that takes more than half a second."""
    from py3langid import langid

    library: Any = langid  # its types are incomplete
    return library.LanguageIdentifier.from_model_file(library.MODEL_FILE, norm_probs=True)


def identify_language(text: str, blocks: Sequence[Block]) -> str | None:
    """Return the language of the document's prose, identified from its first `SAMPLE` characters."""
    sample = ""
    for kinds in (frozenset({"paragraph", "list"}), _PROSE, frozenset({"table"})):
        pieces: list[str] = []
        length = 0
        for block in blocks:
            if length >= SAMPLE:
                break
            if block.kind in kinds:
                pieces.append(text[block.start : min(block.end, block.start + SAMPLE - length)])
                length += len(pieces[-1])
        sample = " ".join(pieces)
        if length >= SAMPLE // 8:
            break
    letters = _DIGITS.sub(" ", sample).strip()
    if len(letters) < 12:
        return None
    name, confidence = load().classify(letters)
    return str(name) if confidence >= CONFIDENCE and name != "zxx" else None
