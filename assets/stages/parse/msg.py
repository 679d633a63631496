"""Parse an Outlook message. Attachments are named, not read."""

from assets.stages.normalize import one_line
from assets.stages.parse.mail import message
from assets.stages.parse.result import Parsed
from resources.core.errors import SkipDocumentError


def parse(data: bytes) -> Parsed:
    """Return the blocks of a message. Raises `SkipDocumentError` if the file is damaged or another kind of compound file."""
    from oxmsg import Message

    try:
        mail = Message.load(data)
        sent = mail.sent_date
        people = [person.name or person.email_address for person in mail.recipients]
        attachments = [one.file_name for one in mail.attachments if one.file_name]
        head = {"From": mail.sender, "To": ", ".join(people), "Date": sent.isoformat(" ", "minutes") if sent else None}
        return message(mail.subject, head, mail.body, mail.html_body, attachments)
    except (OSError, ValueError, KeyError, LookupError, AttributeError, TypeError) as error:
        raise SkipDocumentError(f"The file is not a readable Outlook message: {one_line(str(error))[:160]}.") from None
