"""Decode the bytes of a text format; binary data is refused."""

import codecs
import re

from resources.core.errors import SkipDocumentError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose byte order mark begins the same way
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 65_536
"""Bytes used to guess the encoding: guessing takes seconds per megabyte."""
FEW = 4
"""Control characters that any file may hold."""
_NO_TEXT = "The file holds binary data, not text. Save it as UTF-8 text or in a supported format."
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")


def decode(data: bytes) -> tuple[str, list[str]]:
    """Return the text and warnings. Raises `SkipDocumentError` for empty files and for binary data."""
    if not data.strip():
        raise SkipDocumentError("The file is empty.")
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return _checked(data[len(mark) :].decode(encoding), [])
            except UnicodeDecodeError:
                break
    try:
        return _checked(data.decode("utf-8"), [])
    except UnicodeDecodeError:
        return _guessed(data)


def _checked(text: str, warnings: list[str]) -> tuple[str, list[str]]:
    """Refuse binary data that happens to decode: more than one control character in twenty at its beginning."""
    sample = text[:_SAMPLE]
    controls = len(_CONTROLS.findall(sample))
    if controls > FEW and controls * 20 > len(sample):
        raise SkipDocumentError(_NO_TEXT)
    if not text.strip("\x00\ufeff\u200b \t\r\n\f\v"):
        raise SkipDocumentError("The file is empty.")
    return text, warnings


def _guessed(data: bytes) -> tuple[str, list[str]]:
    if data[:_SAMPLE].count(0) * 20 > len(data[:_SAMPLE]):
        return _unmarked_utf16(data)

    from charset_normalizer import from_bytes

    best = from_bytes(data[:_SAMPLE]).best()
    if best is None:
        # A file that is UTF-8 except for a few bytes (truncated, a Latin-1 name) is still worth indexing.
        text = data.decode("utf-8", errors="replace")
        return _checked(
            text.replace("\ufffd", "") if text.count("\ufffd") * 100 < len(text) else text,
            ["Some bytes are not valid UTF-8 and were left out."],
        )
    text = data.decode(best.encoding, errors="replace")
    return _checked(text, [f"The file is not UTF-8; it was read as {best.encoding}."])


def _unmarked_utf16(data: bytes) -> tuple[str, list[str]]:
    """Decode UTF-16 without a byte order mark: its text has zero bytes on one side only."""
    even, odd = data[:_SAMPLE:2].count(0), data[1:_SAMPLE:2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    if min(even, odd) * 10 > max(even, odd):
        raise SkipDocumentError(_NO_TEXT)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        raise SkipDocumentError(_NO_TEXT) from None
    return _checked(text, [f"The file carries no byte order mark; it was read as {encoding}."])
