"""Parse an email (RFC 5322 with MIME) with its attachments and the messages forwarded in it.

The library's own decoding of headers and charsets (`email.policy.default`) raises for what many programs send, so it splits the message
only, and fields and texts are decoded here.
"""

import re
from email import message_from_bytes
from email.errors import HeaderParseError
from email.header import decode_header
from email.message import Message as Part
from typing import Any, cast

from assets.stages.normalize import BlockDraft, one_line
from assets.stages.parse.mail import (
    Attachment,
    Mail,
    decoded,
    decoded_html,
    fuller,
    html_body,
    parsed,
    plain_body,
)
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError

_HEAD = ("From", "To", "Cc", "Date")
_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_BOUNDARY = re.compile(rb"^--(\S[^\r\n]{0,198}?)[ \t]*\r?\n(?=content-)", re.IGNORECASE | re.MULTILINE)
_SEALED = frozenset({"application/pgp-encrypted", "application/pkcs7-mime", "application/x-pkcs7-mime"})
_BODIES = frozenset({"text/plain", "text/html"})
_ALTERNATIVES = _BODIES | {"text/calendar", "text/x-calendar"}
_FLOWED = {"format": "flowed", "delsp": "yes"}
_FLOW = re.compile(r"(?<!\n--) \r?\n(?!>)")
"""Where a line goes on in the next one, without the space. Source: RFC 3676, section 4.2"""
_FOLD = re.compile(r"\r?\n(?=[ \t])")


def parse(data: bytes) -> Parsed:
    """Return the blocks of an email. Raises `SkipDocumentError` if the file has no head of an email."""
    return parsed(message(data))


def message(data: bytes) -> Mail:
    """Return the email as a message. Raises `SkipDocumentError` if the file has no head of an email."""
    mail = message_from_bytes(_single_bytes(data))
    if not any(name in mail for name in ("From", "Subject", "To", "Message-ID", "Received")):
        raise SkipDocumentError("The file is not an email: it has neither a sender nor a subject.")
    return _message(mail)


def _single_bytes(data: bytes) -> bytes:
    """Return an email saved as UTF-16 in UTF-8, without a byte order mark and blank lines before its head."""
    encoding = _MARKS.get(data[:2]) or ("utf-16-le" if data[1:2] == b"\0" else "utf-16-be" if data[:1] == b"\0" else "")
    if encoding:
        data = data.decode(encoding, errors="replace").encode("utf-8", errors="replace")
    return data.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n\t ")


def _message(mail: Part) -> Mail:
    found = Mail(subject=_field(mail, "Subject"), head={name: _field(mail, name) for name in _HEAD}, body=[])
    found.body, found.attachments = _contents(mail, found.warnings, whole=True)
    return found


def _contents(part: Part, warnings: list[str], *, whole: bool = False) -> tuple[list[BlockDraft], list[Attachment]]:
    """Return the text and the attachments of a part. `whole`: the part is the message itself, never an attachment."""
    kind = part.get_content_type()
    if kind == "message/rfc822":
        return [], [_forwarded(part)]
    if kind == "message/delivery-status" and part.is_multipart():
        return _status(part), []
    if kind in _SEALED:
        warnings.append("The message is encrypted or sealed; its text is not read.")
    if part.get_content_maintype() == "multipart":
        children = _children(part)
        if children:
            return _together(kind, children, warnings)
        kind = "text/plain"
    name = _name(part)
    attached = part.get_content_disposition() == "attachment" or (name and part.get_content_disposition() != "inline")
    if kind in _BODIES and (whole or not (attached or name)):
        return _body(part, kind, warnings), []
    data = part.get_payload(decode=True)
    inline = kind.startswith("image/") and ("Content-ID" in part or part.get_content_disposition() == "inline")
    if kind in _SEALED or not isinstance(data, bytes):
        return [], [Attachment(name=name)] if name else []
    return _file(name, kind, data, inline=inline)


def _file(name: str, kind: str, data: bytes, *, inline: bool) -> tuple[list[BlockDraft], list[Attachment]]:
    if kind in ("application/ms-tnef", "application/vnd.ms-tnef") or name.lower() == "winmail.dat":
        from assets.stages.parse import tnef

        try:
            outlook = tnef.message(data)
        except SkipDocumentError:
            return [], [Attachment(name=name or "winmail.dat")]
        return outlook.body, outlook.attachments
    if kind == "application/pgp-signature" or kind.endswith("pkcs7-signature"):
        return [], [Attachment(name=name)] if name else []
    return [], [Attachment(name=name, data=data, mime_type=kind, inline=inline)]


def _together(kind: str, children: list[Part], warnings: list[str]) -> tuple[list[BlockDraft], list[Attachment]]:
    found = [_contents(child, warnings) for child in children]
    if kind == "multipart/alternative" and any(drafts for drafts, _ in found):
        kept = [number for number, child in enumerate(children) if not _is_other_markup(child)]
        children, found = [children[number] for number in kept], [found[number] for number in kept]
    attachments = [one for _, several in found for one in several]
    if kind == "multipart/alternative":
        plain = [drafts for child, (drafts, _) in zip(children, found, strict=True) if _is_plain(child) and drafts]
        others = [drafts for child, (drafts, _) in zip(children, found, strict=True) if not _is_plain(child) and drafts]
        if plain and others:
            return fuller(plain[0], others[-1]), attachments
        return (plain[0] if plain else others[-1] if others else []), attachments
    return [draft for drafts, _ in found for draft in drafts], attachments


def _is_other_markup(part: Part) -> bool:
    """Return True for an alternative in a markup that is not read, such as that of AMP, `text/enriched`."""
    return part.get_content_maintype() == "text" and part.get_content_type() not in _ALTERNATIVES and not _name(part)


def _is_plain(part: Part) -> bool:
    return part.get_content_type() == "text/plain"


def _children(part: Part) -> list[Part]:
    """Return the parts of a multipart; one whose boundary is not the one it declares is split at the boundary that it uses."""
    if not part.is_multipart():
        payload = part.get_payload(decode=True)
        found = _BOUNDARY.search(payload) if isinstance(payload, bytes) else None
        if found is None or not isinstance(payload, bytes):
            return []
        head = b'Content-Type: multipart/mixed; boundary="' + found.group(1).replace(b'"', b'\\"') + b'"\n\n'
        again = message_from_bytes(head + payload)
        again.set_type(part.get_content_type())
        part = again
    return cast("list[Part]", part.get_payload()) if part.is_multipart() else []


def _forwarded(part: Part) -> Attachment:
    payload: Any = part.get_payload()
    name = _name(part)
    if part.is_multipart() and payload:
        within = _message(payload[0])
        return Attachment(name=name or one_line(within.subject), message=within)
    data = part.get_payload(decode=True)  # some programs encode it, against RFC 2046, section 5.2.1
    if not isinstance(data, bytes) or not data.strip():
        return Attachment(name=name)
    within = _message(message_from_bytes(_single_bytes(data)))
    return Attachment(name=name or one_line(within.subject), message=within)


def _status(part: Part) -> list[BlockDraft]:
    """Return the fields of a report about a delivery, and text that some programs write among them. Source: RFC 3464, section 2."""
    drafts: list[BlockDraft] = []
    for one in cast("list[Part]", part.get_payload()):
        fields = [f"{name}: {_unfolded(str(value))}" for name, value in one.raw_items()]
        data = one.get_payload(decode=True)
        text = decoded(data, None).strip() if isinstance(data, bytes) else ""
        if fields or text:
            drafts.append(BlockDraft(kind="paragraph", text="\n".join([*fields, text])))
    return drafts


def _body(part: Part, kind: str, warnings: list[str]) -> list[BlockDraft]:
    data = part.get_payload(decode=True)
    if not isinstance(data, bytes) or not data.strip():
        return []
    charset = part.get_param("charset")
    charset = charset[2] if isinstance(charset, tuple) else charset
    named = charset if isinstance(charset, str) else None
    if kind == "text/html":
        return html_body(decoded_html(data, named, warnings))
    text = decoded(data, named, warnings)
    if all(str(part.get_param(name)).lower() == value for name, value in _FLOWED.items()):
        text = _FLOW.sub("", text)
    return plain_body(text)


def _name(part: Part) -> str:
    name = part.get_filename()
    return one_line(_unfolded(name)) if name else ""


def _field(mail: Part, name: str) -> str:
    found = next((value for key, value in mail.raw_items() if key.lower() == name.lower()), None)
    return one_line(_unfolded(str(found))) if found is not None else ""


def _unfolded(value: str) -> str:
    """Return the text of a field: encoded words decoded, as well as bytes that should have been."""
    text = _FOLD.sub("", value)
    if not text.isascii():
        text = decoded(text.encode("utf-8", errors="surrogateescape"), None)
    if "=?" not in text:
        return text
    try:
        pieces: list[tuple[Any, str | None]] = decode_header(text)
    except (HeaderParseError, ValueError):
        return text
    return "".join(_piece(piece, charset) for piece, charset in pieces)


def _piece(piece: Any, charset: str | None) -> str:
    if isinstance(piece, str):
        return piece
    return piece.decode("raw-unicode-escape", errors="replace") if charset is None else decoded(piece, charset)
