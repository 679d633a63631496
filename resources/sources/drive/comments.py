"""The open comments on a document, as Markdown at its end. Those that are resolved or deleted are left out, as Google Docs hides them.

Source: https://developers.google.com/workspace/drive/api/reference/rest/v3/comments/list
"""

from collections.abc import Iterator

from resources.core.json import object_of
from resources.sources.drive.client import JSON, DriveClient
from resources.sources.drive.faults import ForbiddenError

HEADING = "Comments"
_REPLY = "author(displayName),content,deleted"
_FIELDS = f"nextPageToken,comments({_REPLY},resolved,quotedFileContent(value),replies({_REPLY}))"
_PAGE = 100


def comments(client: DriveClient, file_id: str) -> str:
    """Return the comments, with what each is about and its replies; empty if there are none, or none that the account may read."""
    try:
        listed = list(client.pages("comments.list", "comments", fileId=file_id, pageSize=_PAGE, fields=_FIELDS))
    except ForbiddenError:
        return ""
    lines = [line for one in listed for line in _thread(one)]
    return "\n".join((f"\n\n## {HEADING}\n", *lines, "")) if lines else ""


def _thread(comment: JSON) -> Iterator[str]:
    if comment.get("deleted") or comment.get("resolved"):
        return
    about = _line(object_of(comment.get("quotedFileContent")).get("value"))
    yield f"- {_said(comment, f' on “{about}”' if about else '')}"
    for reply in comment.get("replies") or ():
        if not reply.get("deleted") and _line(reply.get("content")):
            yield f"  - {_said(reply)}"


def _said(comment: JSON, about: str = "") -> str:
    author = _line(object_of(comment.get("author")).get("displayName")) or "Somebody"
    return f"{author}{about}: {_line(comment.get('content'))}"


def _line(text: object) -> str:
    return " ".join(str(text or "").split())
