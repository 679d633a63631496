"""Parse an Outlook message with its attachments and the messages within it.

oxmsg reads the compound file. Its own access to properties is not used: it raises for a property whose stream is missing, for code pages
that it does not list and for messages without a recipient's name, which are all in use.
"""

import io
import struct
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.parser import HeaderParser
from importlib import import_module
from typing import Any

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.mail import Attachment, Mail, decoded, decoded_html, fuller, html_body, parsed, plain_body
from assets.stages.parse.result import Parsed
from assets.stages.parse.rtf import decompressed, rtf
from resources.core.errors import SkipDocumentError

_TOP, _WITHIN, _OTHER = 32, 24, 8
"""Bytes before the properties of a message, of one within another, and of anything else. Source: MS-OXMSG 2.4.1"""
_ENTRY = struct.Struct("<HH4x8s")
_EPOCH = datetime(1601, 1, 1, tzinfo=UTC)
_RECIPIENTS = {1: "To", 2: "Cc"}
"""Recipients that a reader of the message sees. 3 is Bcc, which only its sender does. Source: MS-OXOMSG 2.2.3.1 (PidTagRecipientType)"""
_CODE_PAGES = {
    932: "cp932", 936: "gb18030", 949: "cp949", 950: "cp950", 1200: "utf-16-le", 1201: "utf-16-be", 10000: "mac-roman", 20127: "ascii",
    20866: "koi8-r", 20932: "euc-jp", 21866: "koi8-u", 50220: "iso-2022-jp", 50221: "iso-2022-jp", 50222: "iso-2022-jp",
    50225: "iso-2022-kr", 51932: "euc-jp", 51936: "gb18030", 51949: "euc-kr", 52936: "hz", 54936: "gb18030", 65000: "utf-7", 65001: "utf-8",
} | {28590 + part: f"iso-8859-{part}" for part in range(1, 17)}  # fmt: skip
"""Source: https://learn.microsoft.com/en-us/windows/win32/intl/code-page-identifiers"""

SUBJECT, BODY, HTML, RTF, SENT, DELIVERED = 0x0037, 0x1000, 0x1013, 0x1009, 0x0039, 0x0E06
_HEADERS, _DISPLAY_TO, _DISPLAY_CC, _TYPE = 0x007D, 0x0E04, 0x0E03, 0x0C15
_SENDERS = ((0x0C1A, 0x5D01), (0x0C1A, 0x0C1F), (0x0042, 0x5D02), (0x0042, 0x0065))
"""Name and address of the sender, and of the person represented."""
NAMES = (0x3707, 0x3704, 0x3001)
_DATA, _MIME, CONTENT_ID = 0x3701, 0x370E, 0x3712


class _Properties:
    """The properties of a message, a recipient or an attachment."""

    def __init__(self, storage: Any, offset: int) -> None:
        self._streams = {stream.name.upper(): stream.bytes_ for stream in storage.streams}
        listed = self._streams.get("__PROPERTIES_VERSION1.0", b"")[offset:]
        whole = len(listed) - len(listed) % _ENTRY.size
        self.warnings: list[str] = []
        self._fixed = {number: value for _, number, value in _ENTRY.iter_unpack(listed[:whole])}

    def number(self, name: int) -> int | None:
        value = self._fixed.get(name)
        return int.from_bytes(value[:4], "little") if value is not None else None

    def moment(self, name: int) -> str | None:
        ticks = int.from_bytes(self._fixed.get(name, b""), "little")
        try:
            return (_EPOCH + timedelta(microseconds=ticks // 10)).isoformat(" ", "minutes") if ticks else None
        except OverflowError:
            return None

    def binary(self, name: int) -> bytes | None:
        return self._streams.get(f"__SUBSTG1.0_{name:04X}0102")

    def text(self, name: int) -> str:
        wide = self._streams.get(f"__SUBSTG1.0_{name:04X}001F")
        if wide is not None:
            return wide.decode("utf-16-le", errors="replace").rstrip("\0")
        narrow = self._streams.get(f"__SUBSTG1.0_{name:04X}001E")
        if narrow is None:
            return ""
        return decoded(narrow, self._charset(body=name == BODY), self.warnings).rstrip("\0")

    def page(self) -> str:
        """Return the text as HTML, or an empty string."""
        data = self.binary(HTML)
        return decoded_html(data, self._charset(body=True), self.warnings) if data is not None else self.text(HTML)

    def _charset(self, *, body: bool) -> str | None:
        number = (self.number(0x3FDE) if body else None) or self.number(0x3FFD)
        return charset_of(number)


def charset_of(code_page: int | None) -> str | None:
    """Return Python's name of a code page of Windows."""
    return _CODE_PAGES.get(code_page, f"cp{code_page}") if code_page else None


def parse(data: bytes) -> Parsed:
    """Return the blocks of a message. Raises `SkipDocumentError` if the file is damaged or another kind of compound file."""
    return parsed(message(data))


def message(data: bytes) -> Mail:
    """Return the Outlook message as a message. Raises `SkipDocumentError` as `parse` does."""
    ole: Any = import_module("olefile")  # without complete types, as the next one
    storage: Any = import_module("oxmsg.storage")
    try:
        with closing(ole.OleFileIO(io.BytesIO(data))) as file:
            root: Any = storage.Storage.from_ole(file)
    except (
        OSError,
        ValueError,
        KeyError,
        LookupError,
        AttributeError,
        TypeError,
        OverflowError,
        struct.error,
    ) as error:
        raise SkipDocumentError(f"The file is not a readable Outlook message: {one_line(str(error))[:160]}.") from None
    if not any(stream.name == "__properties_version1.0" for stream in root.streams):
        raise SkipDocumentError("The file is not a readable Outlook message: it has no properties of one.")
    return _message(root, _TOP)


def _message(storage: Any, offset: int) -> Mail:
    properties = _Properties(storage, offset)
    head = {"From": _sender(properties), **_recipients(storage, properties)}
    head["Date"] = properties.moment(SENT) or properties.moment(DELIVERED)
    return Mail(
        subject=properties.text(SUBJECT),
        head=head,
        body=outlook_body(properties.text(BODY), properties.page(), properties.binary(RTF)),
        attachments=[_attachment(one) for one in storage.storages if one.name.startswith("__attach_version1.0_#")],
        warnings=properties.warnings,
    )


def outlook_body(text: str, page: str, packed: bytes | None) -> list[BlockDraft]:
    """Return the text of a message that Outlook may keep as plain text, as HTML and as compressed RTF."""
    plain = plain_body(text) if text.strip() else []
    formatted = html_body(page) if page.strip() else []
    if plain or formatted:
        return fuller(plain, formatted)
    return rtf(decompressed(packed)) if packed else []


def _sender(properties: _Properties) -> str:
    headers = properties.text(_HEADERS)
    if headers and (written := HeaderParser().parsestr(headers)["From"]):
        return one_line(str(written))
    found = [(properties.text(name), properties.text(address)) for name, address in _SENDERS]
    for name, address in found:
        if "@" in address:  # others are the directory's own addresses
            return f"{name} <{address}>" if name and name != address else address
    return next((name for name, _ in found if name), "")


def _recipients(storage: Any, properties: _Properties) -> dict[str, str | None]:
    people: dict[str, list[str]] = {"To": [], "Cc": []}
    typed = False
    for one in storage.storages:
        if not one.name.startswith("__recip_version1.0_#"):
            continue
        recipient = _Properties(one, _OTHER)
        kind = recipient.number(_TYPE)
        typed = typed or kind is not None
        # the upper bits say whether it was sent to them; without a type it is not known who may see the name
        heading = _RECIPIENTS.get((kind or 0) & 0xF)
        if heading is not None:
            people[heading].append(recipient.text(0x3001) or recipient.text(0x39FE) or recipient.text(0x3003))
    if not typed:
        return {"To": properties.text(_DISPLAY_TO) or None, "Cc": properties.text(_DISPLAY_CC) or None}
    return {heading: ", ".join(names) or None for heading, names in people.items()}


def _attachment(storage: Any) -> Attachment:
    properties = _Properties(storage, _OTHER)
    name = next((text for number in NAMES if (text := properties.text(number))), "")
    kind = properties.text(_MIME)
    for within in storage.storages:
        if within.name.upper() == f"__SUBSTG1.0_{_DATA:04X}000D" and any(
            stream.name == "__properties_version1.0" for stream in within.streams
        ):
            found = _message(within, _WITHIN)
            return Attachment(name=name or one_line(found.subject), message=found)
    data = properties.binary(_DATA)
    if kind.startswith("multipart/signed") and data is not None:
        return Attachment(name=name, data=b"Subject:\n" + data, mime_type="message/rfc822")
    inline = bool(properties.text(CONTENT_ID)) and kind.startswith("image/")
    return Attachment(name=name, data=data, mime_type=kind, inline=inline)
