"""Parse RTF into paragraphs and tables."""

import re
import struct
from collections.abc import Iterator

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.margins import margins
from assets.stages.parse.result import Parsed
from assets.stages.parse.rtf_flow import MARGINS, flowing
from assets.stages.parse.tables import table
from assets.stages.parse.text import paragraphs
from resources.core.errors import SkipDocumentError

_HEADER = struct.Struct("<IIII")
_COMPRESSED, _STORED = 0x75465A4C, 0x414C454D
MAX_UNPACKED = 50 * 2**20
"""Maximum size of compressed RTF; nothing of that size is a letter."""
_START = (
    b"{\\rtf1\\ansi\\mac\\deff0\\deftab720{\\fonttbl;}{\\f0\\fnil \\froman \\fswiss \\fmodern \\fscript \\fdecor MS Sans SerifSymbolArial"
    b"Times New RomanCourier{\\colortbl\\red0\\green0\\blue0\r\n\\par \\pard\\plain\\f0\\fs20\\b\\i\\u\\tab\\tx"
)
"""What the dictionary holds at first. Source: MS-OXRTFCP 2.1.2.1"""
_WINDOW = 4096
_SPACED = re.compile(r"(?m)^(\[\d+\]) +")


def parse(data: bytes) -> Parsed:
    """Return the paragraphs of an RTF file, one for each of its lines."""
    return Parsed(drafts=rtf(data))


def rtf(data: bytes) -> list[BlockDraft]:
    """Return the blocks of RTF. Boxes, notes and comments follow the paragraph or table that they belong to."""
    from striprtf.striprtf import rtf_to_text

    # RTF is ASCII; other characters are escaped in the code page that the file names
    source = flowing(data.decode("latin-1"))
    try:
        text = rtf_to_text(source, errors="replace")
    except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
        raise SkipDocumentError(f"The RTF is damaged: {one_line(str(error))[:160]}.") from None
    # characters beyond the first 65,536 are written as two halves
    text = text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")
    body, *rest = text.split(MARGINS)
    return [*_blocks(body), *margins(draft for part in rest for draft in _blocks(part))]


def _blocks(source: str) -> Iterator[BlockDraft]:
    """Yield paragraphs, one for each line, and tables: their rows are lines whose cells end with a bar."""
    text = _SPACED.sub(r"\1 ", clean(source))
    rows: list[list[str]] = []
    lines: list[str] = []
    for line in [*text.split("\n"), ""]:
        if line.endswith("|"):
            if line.strip("| "):
                yield from paragraphs("\n\n".join(lines))
                lines = []
                rows.append(line[:-1].split("|"))
            continue
        if rows and line.strip():
            yield from _table(rows)
            rows = []
        lines.append(line)
    yield from _table(rows)
    yield from paragraphs("\n\n".join(lines))


def _table(rows: list[list[str]]) -> Iterator[BlockDraft]:
    if rows:
        yield from table(rows[1:], header=rows[0]) if len(rows) > 1 else table(rows)


def decompressed(data: bytes) -> bytes:
    """Return the RTF that Outlook keeps compressed. What follows a damaged place is left out. Source: MS-OXRTFCP 3.1"""
    if len(data) < _HEADER.size:
        return b""
    _, size, kind, _ = _HEADER.unpack_from(data)
    if kind == _STORED:
        return data[_HEADER.size :]
    if kind != _COMPRESSED:
        return b""
    if size > MAX_UNPACKED:
        raise SkipDocumentError(
            f"The message unpacks to {size // 2**20} MB; at most {MAX_UNPACKED // 2**20} MB are read."
        )
    out = bytearray(_START)
    at, end = _HEADER.size, size + len(_START)
    while at < len(data) and len(out) < end:
        control = data[at]
        at += 1
        for bit in range(8):
            if at >= len(data) or len(out) >= end:
                break
            if not control >> bit & 1:
                out.append(data[at])
                at += 1
                continue
            pair = int.from_bytes(data[at : at + 2], "big")
            at += 2
            offset, length = pair >> 4, (pair & 15) + 2
            written = len(out) % _WINDOW
            if offset == written:
                return bytes(out[len(_START) :])
            start = len(out) - ((written - offset) % _WINDOW)
            if start < 0:
                return bytes(out[len(_START) :])
            for step in range(length):
                out.append(out[start + step])
    return bytes(out[len(_START) :])
