"""Messages of all formats: a head of a few lines, a text, and the attachments, which are read with the parsers of their types.

Whatever an attachment holds is below a heading that names it, so that a passage says which attachment it is from. An attachment
that cannot be read never makes its message unreadable: a warning names it.
"""

import codecs
import re
from collections.abc import Mapping
from importlib import import_module

import msgspec

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse import failures, read
from assets.stages.parse.decoding import decode
from assets.stages.parse.html import html
from assets.stages.parse.result import Parsed
from assets.stages.parse.text import paragraphs
from resources.core.errors import DocumentError, SkipDocumentError
from resources.core.filetypes import HEAD_BYTES, MIME_TYPES, extension, mime_type

MAX_DEPTH = 4
"""Messages within messages that are read."""
MAX_ATTACHMENTS = 50
"""Attachments that are read, of a message and of all messages within it; the others are named."""
MAX_BYTES = 50 * 2**20
"""Bytes of all attachments that are read."""
_LIMITED = (
    f"Some attachments are named but not read: at most {MAX_ATTACHMENTS}, {MAX_BYTES // 2**20} MB in total, and messages in "
    f"{MAX_DEPTH - 1} others are read."
)
_MESSAGES = {"message/rfc822": "eml", "application/vnd.ms-outlook": "msg"}
_NAMED = 200
"""Attachments that are named."""
_FULLER = 3
"""A plain text is a stub ("Open this message in your browser") if the formatted one has this many times its words."""
_CHARSETS = {
    "gb2312": "gb18030", "gbk": "gb18030", "shift_jis": "cp932", "shift-jis": "cp932", "x-sjis": "cp932", "euc-kr": "cp949",
    "ks_c_5601-1987": "cp949", "iso-8859-1": "cp1252", "iso-8859-9": "cp1254", "tis-620": "cp874", "iso-8859-8-i": "iso-8859-8",
    "iso-2022-jp": "iso2022_jp_ext", "unicode-1-1-utf-7": "utf-7", "utf8mb4": "utf-8", "unicode": "utf-16",
}  # fmt: skip
"""Names of charsets as they are meant: programs write characters of the larger one. Source: https://encoding.spec.whatwg.org/#names-and-labels"""
_NO_CHARSETS = frozenset({"idna", "punycode", "unicode-escape", "raw-unicode-escape", "undefined"})
"""Codecs of Python that no message is written in; decoding some of them takes quadratic time."""
_OTHER_BYTES = ("utf-7", "utf-16", "utf-32", "iso2022", "hz")
"""Codecs whose bytes may all be ASCII, or whose ASCII has other bytes: what looks like UTF-8 is not."""
_DOUBLE = frozenset({"gb18030", "cp932", "cp949", "big5", "big5hkscs", "cp950", "euc_jp", "euc_jis_2004"})
"""Codecs in which a pair of bytes is often one of UTF-8, too."""
_THREE_BYTES = "\u0800"
"""The first character that takes three bytes in UTF-8."""
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]{2,40})", re.IGNORECASE)


class Attachment(msgspec.Struct, kw_only=True):
    """A file or a message within a message."""

    name: str
    data: bytes | None = None
    mime_type: str = ""
    """As the message declares it."""
    message: "Mail | None" = None
    inline: bool = False
    """True for a picture that the text shows, such as a logo; it is named only."""


class Mail(msgspec.Struct, kw_only=True):
    """A message as its format's parser finds it. `head` holds `From`; it never names hidden recipients (Bcc)."""

    subject: str
    head: Mapping[str, str | None]
    body: list[BlockDraft]
    attachments: list[Attachment] = []
    warnings: list[str] = []


def parsed(message: Mail) -> Parsed:
    """Return the blocks of a message and of everything that is attached to it."""
    writer = _Writer()
    writer.write(message, 0)
    return Parsed(
        drafts=writer.drafts,
        title=one_line(message.subject) or None,
        author=one_line(message.head.get("From") or "") or None,
        warnings=writer.warnings,
    )


def decoded(data: bytes, charset: str | None, warnings: list[str] | None = None) -> str:
    """Decode text that may name its charset. One that is unknown or wrong is replaced by a guess, which is added to `warnings`."""
    name = (charset or "").strip(" \t\"';").lower()
    name = _CHARSETS.get(name, name)
    try:
        codec = codecs.lookup(name).name
        if codec.startswith(_OTHER_BYTES):
            text = data.decode(codec, errors="replace")
            if text.count("\ufffd") * 100 <= len(text):
                return text
        elif codec not in _NO_CHARSETS:
            if (text := _utf8(data)) is not None and (max(text, default="") >= _THREE_BYTES or codec not in _DOUBLE):
                return text
            return data.decode(codec)
    except (LookupError, ValueError):  # an unknown name, or one with a NUL, or other bytes than those of the charset
        pass
    try:
        text, doubts = decode(data, charset)
    except SkipDocumentError:  # empty or binary
        return ""
    if warnings is not None:
        warnings += doubts
    return text


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def decoded_html(data: bytes, charset: str | None, warnings: list[str] | None = None) -> str:
    """Decode a page, which may name its charset itself."""
    named = _META_CHARSET.search(data[:4096])
    return decoded(data, charset or (named.group(1).decode("ascii") if named else None), warnings)


def plain_body(text: str) -> list[BlockDraft]:
    return paragraphs(clean(text))


def html_body(page: str) -> list[BlockDraft]:
    return list(html(page, []).drafts)


def fuller(plain: list[BlockDraft], formatted: list[BlockDraft]) -> list[BlockDraft]:
    """Return the plain text of a message, or the formatted one if the plain one is a stub."""
    return plain if _words(plain) * _FULLER > _words(formatted) else formatted


def _words(drafts: list[BlockDraft]) -> int:
    return sum(len(draft.text.split()) for draft in drafts)


def lowered(drafts: list[BlockDraft], by: int) -> list[BlockDraft]:
    """Return drafts below another heading: their headings are `by` levels lower, their pages and anchors are none of the message's."""
    return [
        msgspec.structs.replace(
            draft, page=None, anchor=None, level=(draft.level or 1) + by if draft.kind == "heading" else draft.level
        )
        for draft in drafts
    ]


class _Writer:
    def __init__(self) -> None:
        self.drafts: list[BlockDraft] = []
        self.warnings: list[str] = []
        self._files = MAX_ATTACHMENTS
        self._bytes = MAX_BYTES

    def write(self, message: Mail, depth: int) -> None:
        level = 2 * depth + 1
        if message.subject.strip():
            self.drafts.append(BlockDraft(kind="heading", text=message.subject, level=level))
        lines = [f"{name}: {one_line(value)}" for name, value in message.head.items() if value]
        if lines:
            self.drafts.append(BlockDraft(kind="paragraph", text="\n".join(lines)))
        self.drafts += lowered(message.body, level)
        self.warnings += message.warnings
        names = [one_line(one.name) for one in message.attachments if one.name.strip()]
        if names:
            self.drafts.append(BlockDraft(kind="heading", text="Attachments", level=level + 1))
            self.drafts.append(BlockDraft(kind="list", text="\n".join(f"- {name}" for name in names[:_NAMED])))
        for one in message.attachments:
            if not one.inline:
                self._attachment(one, depth)

    def _attachment(self, one: Attachment, depth: int) -> None:
        name = one_line(one.name) or (one.message.subject if one.message else "") or "without a name"
        heading = BlockDraft(kind="heading", text=f"In attachment {name}", level=2 * depth + 2)
        if depth + 1 >= MAX_DEPTH or self._files == 0 or len(one.data or b"") > self._bytes:
            if _LIMITED not in self.warnings:
                self.warnings.append(_LIMITED)
            return
        self._files -= 1
        self._bytes -= len(one.data or b"")
        if one.message is not None:
            self.drafts.append(heading)
            self.write(one.message, depth + 1)
        elif one.data is not None:
            self._file(name, one, heading, depth)

    def _file(self, name: str, one: Attachment, heading: BlockDraft, depth: int) -> None:
        data = one.data or b""
        try:
            kind = mime_type(_typed_name(name, one.mime_type), data[:HEAD_BYTES])
            if kind in _MESSAGES:  # its attachments count towards the same limits
                with failures(kind):
                    within: Mail = import_module(f"assets.stages.parse.{_MESSAGES[kind]}").message(data)
                self.drafts.append(heading)
                self.write(within, depth + 1)
                return
            found = read(data, kind, title=name)
        except DocumentError as error:
            reason, _, _ = str(error).partition(". Supported: ")
            self.warnings.append(f"The attachment {name} is not read: {reason.rstrip('.')}.")
            return
        drafts = list(found.drafts)
        if any(draft.text for draft in drafts):
            self.drafts += [heading, *lowered(drafts, 2 * depth + 2)]
        self.warnings += [f"In the attachment {name}: {warning}" for warning in found.warnings]


def _typed_name(name: str, declared: str) -> str:
    """Return the name with the extension of the declared type if it has none that is known."""
    if extension(name) in MIME_TYPES:
        return name
    found = next((end for end, kind in MIME_TYPES.items() if kind == declared.lower()), None)
    return name + (found or "")
