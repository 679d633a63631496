"""Read `winmail.dat`, in which Outlook sends a message to other programs (TNEF). Source: MS-OXTNEF, MS-OXRTFCP."""

import struct
from collections.abc import Iterator

from assets.stages.parse.mail import Attachment, Mail, decoded, decoded_html
from assets.stages.parse.msg import BODY, CONTENT_ID, HTML, NAMES, RTF, SUBJECT, charset_of, outlook_body
from resources.core.errors import SkipDocumentError

_SIGNATURE = b"\x78\x9f\x3e\x22"
_ATTRIBUTE = struct.Struct("<BII")
_SUBJECT, _BODY, _PROPERTIES, _CODE_PAGE = 0x00018004, 0x0002800C, 0x00069003, 0x00069007
_NEXT_ATTACHMENT, _TITLE, _DATA, _ATTACHMENT_PROPERTIES = 0x00069002, 0x00018010, 0x0006800F, 0x00069005
_OBJECT = 0x3701
_SIZES = {2: 4, 3: 4, 4: 4, 5: 8, 6: 8, 7: 8, 10: 4, 11: 4, 20: 8, 64: 8, 72: 16}
_VARIABLE = frozenset({0x0D, 0x1E, 0x1F, 0x102})
_GUID = 16


def message(data: bytes) -> Mail:
    """Return the message. Raises `SkipDocumentError` if this is not one."""
    if not data.startswith(_SIGNATURE):
        raise SkipDocumentError("The file is not a message that Outlook packed.")
    found: dict[int, tuple[int, bytes]] = {}
    attachments: list[Attachment] = []
    charset, subject, body = "cp1252", "", ""
    for number, value in _attributes(data):
        if number == _CODE_PAGE:
            charset = charset_of(int.from_bytes(value[:4], "little")) or charset
        elif number == _SUBJECT:
            subject = _text(value, charset)
        elif number == _BODY:
            body = _text(value, charset)
        elif number == _PROPERTIES:
            found = _properties(value)
        elif number == _NEXT_ATTACHMENT:
            attachments.append(Attachment(name=""))
        elif attachments and number == _TITLE:
            attachments[-1].name = attachments[-1].name or _text(value, charset)
        elif attachments and number == _DATA:
            attachments[-1].data = value
        elif attachments and number == _ATTACHMENT_PROPERTIES:
            _describe(attachments[-1], _properties(value), charset)
    kind, page = found.get(HTML, (0, b""))
    formatted = decoded_html(page, None) if kind == 0x102 else _value(found, HTML, charset)
    return Mail(
        subject=_value(found, SUBJECT, charset) or subject,
        head={},
        body=outlook_body(_value(found, BODY, charset) or body, formatted, found.get(RTF, (0, b""))[1]),
        attachments=[one for one in attachments if one.name or one.data or one.message],
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 6
    while at + _ATTRIBUTE.size <= len(data):
        _, number, length = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        yield number, data[at : at + length]
        at += length + 2


def _properties(data: bytes) -> dict[int, tuple[int, bytes]]:
    """Return the type and the value of each property. What follows a damaged one is left out."""
    found: dict[int, tuple[int, bytes]] = {}
    try:
        (count,) = struct.unpack_from("<I", data)
        at = 4
        for _ in range(min(count, len(data))):
            kind, number = struct.unpack_from("<HH", data, at)
            at += 4
            if number >= 0x8000:  # a named one
                named, length = struct.unpack_from("<II", data, at + _GUID)
                at += _GUID + 8 + (_padded(length) if named else 0)
            values = 1
            if kind & 0x1000 or kind in _VARIABLE:
                (values,) = struct.unpack_from("<I", data, at)
                at += 4
            kind &= 0x0FFF
            for _ in range(min(values, len(data))):
                size = _SIZES.get(kind)
                if kind in _VARIABLE:
                    (size,) = struct.unpack_from("<I", data, at)
                    at += 4
                if size is None:
                    return found
                found.setdefault(number, (kind, data[at : at + size]))
                at += _padded(size)
    except struct.error:
        return found
    return found


def _padded(length: int) -> int:
    return length + -length % 4


def _describe(one: Attachment, properties: dict[int, tuple[int, bytes]], charset: str) -> None:
    one.name = next((name for number in NAMES if (name := _value(properties, number, charset))), one.name)
    one.inline = bool(_value(properties, CONTENT_ID, charset)) and one.name.lower().endswith((".png", ".jpg", ".jpeg"))
    kind, data = properties.get(_OBJECT, (0, b""))
    if kind == 0x0D and data[_GUID:].startswith(_SIGNATURE):
        one.message = message(data[_GUID:])
    elif kind == 0x102:
        one.data = data


def _value(properties: dict[int, tuple[int, bytes]], number: int, charset: str) -> str:
    kind, value = properties.get(number, (0, b""))
    if kind == 0x1F:
        return value.decode("utf-16-le", errors="replace").rstrip("\0")
    return _text(value, charset) if kind == 0x1E else ""


def _text(value: bytes, charset: str) -> str:
    return decoded(value.rstrip(b"\0"), charset)
