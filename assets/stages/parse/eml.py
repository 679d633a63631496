"""Parse an email (RFC 5322 with MIME). Attachments are named, not read."""

from email import message_from_bytes, policy

from assets.stages.parse.mail import message
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError

_HEAD = ("From", "To", "Cc", "Date")


def parse(data: bytes) -> Parsed:
    """Return the blocks of an email. Raises `SkipDocumentError` if the file has no head of an email."""
    mail = message_from_bytes(data, policy=policy.default)
    if "From" not in mail and "Subject" not in mail:
        raise SkipDocumentError("The file is not an email: it has neither a sender nor a subject.")
    texts: dict[str, str | None] = {}
    for kind in ("plain", "html"):
        part = mail.get_body(preferencelist=(kind,))
        texts[kind] = str(part.get_content()) if part is not None else None
    attachments = [name for part in mail.iter_attachments() if (name := part.get_filename())]
    head = {name: str(mail[name]) if name in mail else None for name in _HEAD}
    return message(str(mail["Subject"] or ""), head, texts["plain"], texts["html"], attachments)
