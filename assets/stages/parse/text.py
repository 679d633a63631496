"""Parse plain text into paragraphs."""

import re

from assets.stages.normalize import BlockDraft, clean, dehyphenate
from assets.stages.parse.decoding import decode, without_escapes
from assets.stages.parse.result import Parsed

_PARAGRAPHS = re.compile(r"\n[ \t]*\n\s*")
_ITEM = re.compile(r"[ \t]*(?:[-*+•‣◦▪–]|\d{1,3}[.)])[ \t]+\S")
_SOFT_HYPHEN = re.compile(r"\xad\r?\n[ \t]*")
_BULLET = re.compile(r"^([ \t]*)[•‣◦▪●–*][ \t]+", re.MULTILINE)
"""Bullets that a hyphen stands for. A plus sign is none: it may be the opposite of a minus sign."""


def paragraphs(text: str, page: int | None = None) -> list[BlockDraft]:
    """Split cleaned text at blank lines; paragraphs that begin with a bullet or a number become lists with Markdown bullets."""
    drafts: list[BlockDraft] = []
    for part in _PARAGRAPHS.split(text):
        if not part or part.isspace():
            continue
        lines = part.strip("\n").split("\n")
        items = sum(1 for line in lines if _ITEM.match(line))
        if _ITEM.match(lines[0]) and (items > 1 or len(lines) == 1):
            drafts.append(BlockDraft(kind="list", text=_BULLET.sub(r"\1- ", part.strip("\n")), page=page))
        else:
            drafts.append(BlockDraft(kind="paragraph", text=part, page=page))
    return drafts


def parse(data: bytes) -> Parsed:
    """Return the paragraphs of a text file, with hyphenated words joined."""
    decoded, warnings = decode(data)
    return Parsed(
        drafts=paragraphs(dehyphenate(clean(_SOFT_HYPHEN.sub("", without_escapes(decoded))))), warnings=warnings
    )
