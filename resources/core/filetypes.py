"""File types: which ones are indexed, what they are called, and whether a file's content matches its name.

The check uses a short table of our own: a general detector (puremagic was tried) trusts the name where the content is
ambiguous, and the name is chosen by the attacker. Rejections are `SkipDocumentError`s that list the supported types.
"""

import re
from collections.abc import Iterator, Mapping

from resources.core.errors import SkipDocumentError

DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
PPTX = "application/vnd.openxmlformats-officedocument.presentationml.presentation"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
ODT = "application/vnd.oasis.opendocument.text"
ODS = "application/vnd.oasis.opendocument.spreadsheet"
ODP = "application/vnd.oasis.opendocument.presentation"
XLS = "application/vnd.ms-excel"
XLSB = "application/vnd.ms-excel.sheet.binary.macroenabled.12"
NOTEBOOK = "application/x-ipynb+json"
ZIP = "application/zip"
EPUB = "application/epub+zip"
MSG = "application/vnd.ms-outlook"
RTF = "application/rtf"
SOURCE_CODE = "text/x-source"
"""Programs, scripts and settings; their extensions are in `CODE`."""

CODE: tuple[str, ...] = (
    ".bash", ".c", ".cc", ".cfg", ".clj", ".conf", ".cpp", ".cs", ".css", ".dart", ".ex", ".exs", ".go", ".graphql", ".groovy",
    ".h", ".hpp", ".hs", ".ini", ".java", ".jl", ".js", ".jsx", ".kt", ".lua", ".mjs", ".php", ".pl", ".properties", ".proto",
    ".ps1", ".py", ".pyi", ".r", ".rb", ".rs", ".scala", ".scss", ".sh", ".sql", ".svelte", ".swift", ".tf", ".toml", ".ts",
    ".tsx", ".vue", ".zig",
)  # fmt: skip

SHEETS = frozenset({"text/csv", "text/tab-separated-values", XLSX, ODS, XLS, XLSB})
"""Rows of cells: text of these has the header in a line of its own, above an empty one (`assets.stages.parse.tables`)."""

MIME_TYPES: Mapping[str, str] = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".mdx": "text/markdown",
    ".txt": "text/plain",
    ".text": "text/plain",
    ".log": "text/plain",
    ".rst": "text/plain",
    ".adoc": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".xhtml": "text/html",
    ".csv": "text/csv",
    ".tsv": "text/tab-separated-values",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".ndjson": "application/x-ndjson",
    ".pdf": "application/pdf",
    ".docx": DOCX,
    ".pptx": PPTX,
    ".xlsx": XLSX,
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".docm": DOCX,  # macros are ignored, and templates are documents
    ".dotx": DOCX,
    ".dotm": DOCX,
    ".pptm": PPTX,
    ".ppsx": PPTX,
    ".ppsm": PPTX,
    ".potx": PPTX,
    ".potm": PPTX,
    ".xlsm": XLSX,
    ".xltx": XLSX,
    ".xltm": XLSX,
    ".xlsb": XLSB,
    ".xls": XLS,
    ".odt": ODT,
    ".ott": ODT,
    ".ods": ODS,
    ".ots": ODS,
    ".odp": ODP,
    ".otp": ODP,
    ".ipynb": NOTEBOOK,
    ".ics": "text/calendar",
    ".vcf": "text/vcard",
    ".srt": "text/plain",
    ".vtt": "text/plain",
    ".tex": "text/plain",
    ".org": "text/plain",
    ".zip": ZIP,
    ".rtf": RTF,
    ".epub": EPUB,
    ".eml": "message/rfc822",
    ".msg": MSG,
    ".xml": "application/xml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
} | dict.fromkeys(CODE, SOURCE_CODE)
SUPPORTED_EXTENSIONS: tuple[str, ...] = tuple(MIME_TYPES)
SUPPORTED_MIME_TYPES: frozenset[str] = frozenset(MIME_TYPES.values())

_REMEDIES: Mapping[str, str] = {
    ".doc": "Save it as .docx",
    ".dot": "Save it as .docx",
    ".ppt": "Save it as .pptx",
    ".pps": "Save it as .pptx",
    ".pages": "Export it as .docx or .pdf",
    ".key": "Export it as .pptx or .pdf",
    ".numbers": "Export it as .xlsx",
}
"""What people do about files that no library of a suitable licence reads."""

_UNKNOWN = ("", "application/octet-stream")

HEAD_BYTES = 8192
"""Number of bytes from the start that `mime_type` needs."""

_OFFICE: Mapping[str, str] = {DOCX: "word/", PPTX: "ppt/", XLSX: "xl/", XLSB: "xl/"}
_ZIP = b"PK\x03\x04"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""Compound file: an old Office document, a new one with a password, or an Outlook message. Source: MS-CFB 2.2."""
_MAGIC: Mapping[str, bytes] = {
    "image/png": b"\x89PNG\r\n\x1a\n",
    "image/jpeg": b"\xff\xd8\xff",
    ODT: _ZIP,
    ODS: _ZIP,
    ODP: _ZIP,
    ZIP: b"PK",
    XLS: _OLE,
    EPUB: _ZIP,
    MSG: _OLE,
    RTF: b"{\\rtf",
}
_PDF_WITHIN = 1024
"""Readers accept `%PDF-` anywhere in the first 1024 bytes. Source: PDF Reference 1.7, appendix H, note 13."""
_KNOWN: Mapping[bytes, str] = {
    b"MZ": "a Windows program",
    b"\x7fELF": "a Linux program",
    b"\xcf\xfa\xed\xfe": "a macOS program",
    b"%PDF-": "a PDF",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"PK": "an archive or another kind of Office document",
    b"\x1f\x8b": "an archive",
    _OLE: "an old Office document",
    b"<": "a page of HTML or XML",
}
"""Names of content types for mismatch messages; the check itself does not use them."""
_FEW_CONTROLS = 8
"""Of how many characters one may be a control character in UTF-16: the halves of others look like them, and decoding checks again."""
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY")
"""Files such as `id_rsa` have no extension. Source: RFC 7468, section 10."""
_TEXT_BOMS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\x00\x00\xfe\xff")
_KOREAN = b"\x1b$)C"
"""ISO-2022-KR shifts to Korean and back by control characters."""
_NOT_TEXT = bytes(set(range(32)) - set(b"\t\n\x0b\x0c\r\x1b\x1a\x08"))


def extension(name: str) -> str:
    """Return the lower-case extension with its dot, or an empty string."""
    stem, dot, suffix = name.rpartition("/")[2].rpartition(".")
    return f".{suffix.lower()}" if dot and stem else ""


def declared(name: str, reported: str = "") -> str:
    """Return the mime type that a file name implies; without an extension, the type that the source reports, or else text.

    Raises `SkipDocumentError` listing the supported types for other types and for hidden files.
    """
    end = extension(name)
    hidden = not end and name.rpartition("/")[2].startswith(".")
    if not end and not hidden:
        if reported in SUPPORTED_MIME_TYPES:
            return reported
        if reported.startswith("text/") or reported in _UNKNOWN:
            return "text/plain"
    found = MIME_TYPES.get(end)
    if found is None:
        what = "Hidden files" if hidden else f"Files of type {end or reported}"
        remedy = f" {_REMEDIES[end]}." if end in _REMEDIES else ""
        raise SkipDocumentError(f"{what} are not supported.{remedy} {supported()}")
    return found


def supported() -> str:
    """Return a sentence that lists the supported types."""
    types = [end for end in SUPPORTED_EXTENSIONS if end not in CODE]
    return f"Supported: {', '.join(types)}, source code, and text without an extension."


def mime_type(name: str, head: bytes) -> str:
    """Return the mime type of a file by its name, checked against its first bytes (`HEAD_BYTES` are enough).

    Raises `SkipDocumentError` if the type is unsupported, the file is empty or the content does not match.
    """
    found = declared(name)
    if not head:
        raise SkipDocumentError("The file is empty.")
    if found in _OFFICE:
        _check_office(name, head, found)
    elif found == "application/pdf":
        if b"%PDF-" not in head[:_PDF_WITHIN]:
            raise _mismatch(name, head)
    elif found in _MAGIC:
        if not head.startswith(_MAGIC[found]):
            raise _mismatch(name, head)
    elif not _is_text(head):
        raise _mismatch(name, head)
    if not extension(name) and _PRIVATE_KEY.search(head):
        raise SkipDocumentError(f"{name} holds a private key.")
    return found


def _check_office(name: str, head: bytes, found: str) -> None:
    if head.startswith(_OLE):
        raise SkipDocumentError(
            f"{name} has a password or is in the old Office format; save it without a password as {extension(name)}."
        )
    if not head.startswith(_ZIP):
        raise _mismatch(name, head)
    names = list(_entry_names(head))
    families = {family for family in _OFFICE.values() if any(entry.startswith(family) for entry in names)}
    if families and _OFFICE[found] not in families:
        raise _mismatch(name, head)


def _entry_names(head: bytes) -> Iterator[str]:
    """Yield the names of the archive entries whose headers are in the head. Source: APPNOTE.TXT 4.3.7."""
    at = head.find(_ZIP)
    while at >= 0:
        length = int.from_bytes(head[at + 26 : at + 28], "little")
        yield head[at + 30 : at + 30 + length].decode("utf-8", "replace")
        at = head.find(_ZIP, at + 30)


def _is_text(head: bytes) -> bool:
    if head.startswith(_TEXT_BOMS):
        return True
    if 0 in head:
        return _is_wide_text(head)
    if _KOREAN in head:
        return True
    control = len(head) - len(head.translate(None, _NOT_TEXT))
    # a stray form feed or escape does not make a file binary
    return control * 100 <= len(head) and not head.startswith((b"%PDF-", b"\x7fELF"))


def _is_wide_text(head: bytes) -> bool:
    """Return True for UTF-16 or UTF-32 without a byte order mark: bytes on one side are zero, and few of the others control characters."""
    even, odd = head[::2].count(0), head[1::2].count(0)
    characters = head[1::2] if even > odd else head[::2]
    if not any(head[3::4]) or not any(head[::4]):
        characters = head[3::4] if any(head[3::4]) else head[::4]
    elif min(even, odd) * 10 > max(even, odd):
        return False
    return (len(characters) - len(characters.translate(None, _NOT_TEXT))) * _FEW_CONTROLS <= len(characters)


def _mismatch(name: str, head: bytes) -> SkipDocumentError:
    content = _content_name(head)
    problem = "does not match its extension" if extension(name) else "has no extension and is not text"
    return SkipDocumentError(f"{name} {problem}: {content}. {supported()}")


def _content_name(head: bytes) -> str:
    for magic, kind in _KNOWN.items():
        if head.startswith(magic):
            return f"its content is {kind}"
    return "its content is of another or unknown type"
