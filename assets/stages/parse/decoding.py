"""Decode the bytes of a text format; binary data is refused."""

import codecs
import re
import unicodedata

from assets.stages.parse.alphabets import cyrillic, latin, other
from resources.core.errors import SkipDocumentError

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose byte order mark begins the same way
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_WIDEST = {"utf-32-le": 3, "utf-32-be": 0}
"""Where each four bytes of a character have a zero."""
_SAMPLE = 65_536
"""Bytes used to guess the encoding: guessing takes seconds per megabyte."""
FEW = 4
"""Control characters that any file may hold."""
_NO_TEXT = "The file holds binary data, not text. Save it as UTF-8 text or in a supported format."
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\ufffd]")
_SEVEN_BITS = {
    b"\x1b$B": "iso2022_jp_ext",
    b"\x1b$@": "iso2022_jp_ext",
    b"\x1b(J": "iso2022_jp_ext",
    b"\x1b$)C": "iso2022_kr",
}
"""Escape sequences of encodings whose bytes are ASCII."""
_ESCAPES = re.compile(
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    "|\\][^\x07\x1b]{0,2000}(?:\x07|\x1b\\\\)"  # window titles and links
    "|[ -/]+[0-~]|[0-Z\\\\^-~])"
)
"""Control sequences of terminals. Source: ECMA-48, section 5"""
_STRUCK = re.compile("[^\n\x08]\x08")
"""A character that the next one is printed over, as manual pages do for bold."""
_OTHER_SCRIPTS = [
    "cp1251", "koi8_r", "cp866", "iso8859_5", "cp1253", "iso8859_7", "cp1255", "iso8859_8", "cp1256",
    "iso8859_6", "cp874", "cp932", "euc_jp", "gb18030", "big5", "cp949", "cp500", "cp037",
]  # fmt: skip
"""Encodings in real use for other than Latin letters, and two of mainframes."""
_NAMES = {"iso-8859-1": "cp1252", "latin1": "cp1252", "us-ascii": "cp1252", "gb2312": "gb18030", "gbk": "gb18030",
          "shift_jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949", "iso-8859-9": "cp1254", "x-user-defined": "cp1252",
          "x-mac-cyrillic": "mac_cyrillic"}  # fmt: skip
"""Names as they are meant. Source: https://encoding.spec.whatwg.org/#names-and-labels"""
_STRAY = "concordance.stray"
"""Name of the handler of bytes that are not UTF-8."""
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined", "utf-7"})


def decode(data: bytes, declared: str | None = None) -> tuple[str, list[str]]:
    """Return the text and warnings. Raises `SkipDocumentError` for empty files and for binary data.

    `declared` is the encoding that the file names; it counts if the bytes agree with it and are no UTF-8.
    """
    if not data.strip():
        raise SkipDocumentError("The file is empty.")
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            try:
                return _checked(data[len(mark) :].decode(encoding), [])
            except UnicodeDecodeError:
                break
    if (wide := _wide(data)) is not None:
        return wide
    for escape, encoding in _SEVEN_BITS.items():
        if escape in data[:_SAMPLE]:
            try:
                return _checked(data.decode(encoding), [])
            except UnicodeDecodeError:
                break
    try:
        return _checked(data.decode("utf-8"), [])
    except UnicodeDecodeError:
        return _declared(data, declared) or _guessed(data)


def without_escapes(text: str) -> str:
    """Return text without the control sequences of terminals (colours in logs)."""
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _STRUCK.sub("", text) if "\x08" in text else text


def _checked(text: str, warnings: list[str]) -> tuple[str, list[str]]:
    """Refuse binary data that happens to decode: more than one control character in twenty at its beginning."""
    sample = text[:_SAMPLE]
    controls = len(_CONTROLS.findall(sample))
    if controls > FEW and controls * 20 > len(sample):
        raise SkipDocumentError(_NO_TEXT)
    if not text.strip("\x00\ufeff\u200b \t\r\n\f\v"):
        raise SkipDocumentError("The file is empty.")
    return text, warnings


def _declared(data: bytes, declared: str | None) -> tuple[str, list[str]] | None:
    """Return the text in the encoding that the file names, if that is possible."""
    name = (declared or "").strip(" \t\"';").lower()
    try:
        found = codecs.lookup(_NAMES.get(name, name)).name if name else "utf-8"
        if found in _NO_CHARSETS or found.startswith("utf"):
            return None
        text = data.decode(found, errors="replace")
    except (LookupError, ValueError):  # an unknown name, or one with a NUL
        return None
    return _checked(text, []) if text.count("\ufffd") * 100 <= len(text) else None


def _guessed(data: bytes) -> tuple[str, list[str]]:
    sample = data[:_SAMPLE]
    if sample.count(0) * 20 > len(sample):
        raise SkipDocumentError(_NO_TEXT)
    if _is_mostly_utf8(data):
        # A Latin-1 name, or a file that was cut off, is no reason to read all other letters in another encoding.
        text = data.decode("utf-8", errors=_STRAY)
        return _checked(text, ["Some bytes are not valid UTF-8 and were read as Windows-1252."])
    encoding = cyrillic(sample) or latin(sample) or other(sample)
    if encoding is None:
        from charset_normalizer import from_bytes

        best = from_bytes(sample, cp_isolation=_OTHER_SCRIPTS).best()
        encoding = best.encoding if best is not None else "cp1252"
    return _checked(data.decode(encoding, errors="replace"), [f"The file is not UTF-8; it was read as {encoding}."])


def _is_mostly_utf8(data: bytes) -> bool:
    """Return True if more characters beyond ASCII are valid than bytes are not."""
    valid = data.decode("utf-8", errors="ignore")
    return len(valid) - len(valid.encode("ascii", errors="ignore")) > len(data) - len(valid.encode())


def _stray(error: UnicodeError) -> tuple[str, int]:
    """Return invalid bytes as cp1252 has them. What the end of the file cuts off is left out."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    cut_off = error.reason == "unexpected end of data"
    return "" if cut_off else error.object[error.start : error.end].decode("cp1252", errors="ignore"), error.end


codecs.register_error(_STRAY, _stray)


def _wide(data: bytes) -> tuple[str, list[str]] | None:
    """Decode UTF-16 and UTF-32 without a byte order mark: in UTF-16, spaces and line ends have zero bytes, all of them on one side."""
    sample = data[:_SAMPLE]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    names = [name for name, place in _WIDEST.items() if len(data) % 4 == 0 and not any(sample[place::4])]
    if min(even, odd) * 10 <= max(even, odd) and even != odd and len(data) % 2 == 0:
        names.append("utf-16-le" if odd > even else "utf-16-be")
    for encoding in names:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        start = text[:2000]
        strange = sum(
            unicodedata.category(character) in {"Cn", "Co", "Cc"} and character not in "\t\r\n\f" for character in start
        )
        if strange * 50 <= len(start) and any(character in " \n" for character in start):
            return _checked(text, [f"The file carries no byte order mark; it was read as {encoding}."])
    return None
