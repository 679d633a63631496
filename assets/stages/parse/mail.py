"""Blocks common to messages of all formats: a head of a few lines, a text, and the names of attachments."""

from collections.abc import Mapping, Sequence

from assets.stages.normalize import BlockDraft, clean, one_line
from assets.stages.parse.html import html
from assets.stages.parse.result import Parsed
from assets.stages.parse.text import paragraphs


def message(
    subject: str, head: Mapping[str, str | None], plain: str | None, formatted: str | None, attachments: Sequence[str]
) -> Parsed:
    """Return a message's blocks. `formatted` is its text as HTML, which is read if there is no plain one; `head` holds `From`."""
    lines = [f"{name}: {one_line(value)}" for name, value in head.items() if value]
    drafts = [BlockDraft(kind="heading", text=subject, level=1)] if subject.strip() else []
    drafts += [BlockDraft(kind="paragraph", text="\n".join(lines))] if lines else []
    if plain and plain.strip():
        drafts += paragraphs(clean(plain))
    elif formatted:
        drafts += html(formatted, []).drafts
    if attachments:
        names = "\n".join(f"- {one_line(name)}" for name in attachments)
        drafts += [BlockDraft(kind="heading", text="Attachments", level=2), BlockDraft(kind="list", text=names)]
    return Parsed(drafts=drafts, title=one_line(subject) or None, author=one_line(head.get("From") or "") or None)
