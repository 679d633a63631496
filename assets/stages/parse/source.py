"""Parse source code and settings (YAML, TOML, INI) into blocks that end where something new begins at the margin."""

import re

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.decoding import decode, without_escapes
from assets.stages.parse.result import Parsed

_NEXT = re.compile(r"\n(?:[ \t]*\n)+(?=[^\s)\]}])")
"""Blank lines before a line at the margin that closes nothing."""


def parse(data: bytes) -> Parsed:
    """Return the functions, classes and sections of a file as blocks of code, unchanged."""
    decoded, warnings = decode(data)
    parts = (part for part in _NEXT.split(clean(without_escapes(decoded))) if part.strip())
    return Parsed(drafts=[BlockDraft(kind="code", text=part) for part in parts], warnings=warnings)
