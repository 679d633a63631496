"""Parse source code and settings (YAML, TOML, INI) into blocks that end where something new begins at the margin."""

import re
from collections.abc import Iterator

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.decoding import decode, without_escapes
from assets.stages.parse.result import Parsed

_BLANK = re.compile(r"\n(?:[ \t]*+\n)++")


def parse(data: bytes) -> Parsed:
    """Return the functions, classes and sections of a file as blocks of code, unchanged."""
    decoded, warnings = decode(data)
    parts = (part for part in _parts(clean(without_escapes(decoded))) if part.strip())
    return Parsed(drafts=[BlockDraft(kind="code", text=part) for part in parts], warnings=warnings)


def _parts(text: str) -> Iterator[str]:
    """Split at blank lines before a line at the margin that closes nothing."""
    begins = 0
    for blank in _BLANK.finditer(text):
        after = text[blank.end() : blank.end() + 1]
        if after and not after.isspace() and after not in ")]}":
            yield text[begins : blank.start()]
            begins = blank.end()
    yield text[begins:]
