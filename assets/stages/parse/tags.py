"""Remove the tags of HTML and JSX from text that is not parsed as a page."""

import re
from html import unescape

_LONG_REFERENCE = re.compile(r"&#\d{8,}+;?")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_HIDDEN = re.compile(r"<(script|style)\b.*?(?:</\1[ \t]*>|\Z)", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")

_REPLACED = re.compile(r"<del\b[^<>]*>[^<]*</del>\s*(?=<ins\b)", re.IGNORECASE)


def strip_html(fragment: str) -> str:
    """Return the text of an HTML or JSX block inside Markdown."""
    bare = _TAG.sub(" ", _REPLACED.sub("", _HIDDEN.sub(" ", _COMMENT.sub(" ", fragment))))
    return unescape(_LONG_REFERENCE.sub("", bare))  # no character has such a long number, and `int` rejects the longest
