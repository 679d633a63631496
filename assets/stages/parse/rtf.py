"""Parse RTF into paragraphs and tables."""

import struct

from assets.stages.normalize import BlockDraft, clean
from assets.stages.parse.result import Parsed
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


def parse(data: bytes) -> Parsed:
    """Return the paragraphs of an RTF file, one for each of its lines."""
    return Parsed(drafts=rtf(data))


def rtf(data: bytes) -> list[BlockDraft]:
    """Return the blocks of RTF."""
    from striprtf.striprtf import rtf_to_text

    # RTF is ASCII; other characters are escaped in the code page that the file names
    text = rtf_to_text(data.decode("latin-1"), errors="replace")
    return paragraphs(clean(text).replace("\n", "\n\n"))


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
