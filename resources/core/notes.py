"""Notes of a parser on one document: what its text leaves out, what was decoded with doubt, what was removed.

A note may quote the document, so it is shown to those alone who may read the text. Everything else gets its kind, which is derived from
the fixed part of the sentence.
"""

from collections.abc import Iterable

import msgspec

from resources.core.kinds import Kinds

MOST_NOTES = 20
MOST_CHARACTERS = 300

_PATTERNS = {
    "hidden": r"hidden .*not indexed|are hidden, so none",
    "not_read": r"not read|cannot be read|the first [\d,]+ are listed|more notes",
    "no_text": r"holds? no text|text that cannot be decoded",
    "decoding": r"it was read as|not valid UTF-8",
    "removed": r"headers, footers and page numbers were left out",
    "formulas": r"without a result",
    "structure": r"indexed as plain text",
}
_KINDS = Kinds(_PATTERNS)
KINDS, kind_of = _KINDS.names, _KINDS.of


class TextNote(msgspec.Struct, frozen=True):
    """Something that the reader of a document cannot tell from its text."""

    kind: str
    """The kind of the note: `hidden` (sheets, slides, layers, text), `not_read` (attachments, parts, pages), `no_text` (pages without
    text), `decoding` (encoding guessed), `removed` (page headers and footers), `formulas`, `structure` (read as plain text) or `other`."""
    text: str
    """The note as a sentence."""


def bounded(texts: Iterable[str]) -> list[str]:
    """Return each text once, in order and on one line; a last one counts those that are too many."""
    found = list(dict.fromkeys(" ".join(text.split())[:MOST_CHARACTERS] for text in texts))
    more = len(found) - MOST_NOTES
    return [*found[:MOST_NOTES], *([f"There are {more:,} more notes."] if more > 0 else [])]


def notes(texts: Iterable[str]) -> list[TextNote]:
    return [TextNote(kind_of(text), text) for text in texts]
