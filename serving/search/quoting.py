"""Quote text of documents and people in prompts, so that none of it can pass for our own lines."""

import re
from typing import TypedDict

BAR = "| "
LINK_REMOVED = "(link removed)"
"""What an answer shows in place of an address."""
JOINERS = "\u200c\u200d"
JOINED = "[\u0600-\u18af]"
"""Letters of the scripts whose spelling needs joiners, as a pattern."""
INVISIBLE = re.compile(
    "[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
    f"|(?<!{JOINED})[{JOINERS}]|[{JOINERS}](?!{JOINED})"
)
"""Characters that are not seen. Joiners stay within words of Arabic and Indic scripts and their neighbours, whose spelling needs them."""
_VALUE = r"[\w:@.-]++\s*+=\s*+(?:\"[^\"<>]*+\"|'[^'<>]*+'|[^\s\"'<>]++)"
_BARE = r"[\w:@.-]++(?!\s*=)"
TAG = (
    r"</?(?:a|abbr|address|article|aside|audio|b|base|big|blockquote|body|br|button|center|cite|code|dd|del|details|dfn|div|dl|dt|em|embed"
    r"|figcaption|figure|font|footer|form|h[1-6]|head|header|hr|html|i|iframe|img|input|ins|kbd|li|link|main|mark|meta|nav|object|ol|p"
    r"|picture|pre|q|s|samp|script|section|small|source|span|strike|strong|style|sub|summary|sup|svg|table|tbody|td|template|textarea"
    r"|tfoot|th|thead|title|tr|tt|u|ul|var|video|wbr)"
    r"(?:(?:\s+(?:allowfullscreen|async|autofocus|autoplay|border|checked|controls|crossorigin|default|defer|disabled|hidden|itemscope|loop"
    r"|multiple|muted|novalidate|nowrap|open|playsinline|readonly|required|reversed|selected)(?![\w:@.-]))*+"
    rf"|(?:\s+{_BARE})*+\s+{_VALUE}(?:\s*+{_VALUE}|\s+{_BARE})*+)\s*/?>"
)
"""A tag of HTML, as a pattern without regard to case. `<environment>`, `List<String>` and `0<a and b>5` are text: a tag without values has
only attributes that need none.
"""
_BREAKS = re.compile("\r\n|[\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class ChatMessage(TypedDict):
    role: str
    content: str


def quoted(text: str) -> str:
    """Return the text without invisible characters, with a bar before each line."""
    return "\n".join(BAR + line.rstrip() for line in INVISIBLE.sub("", _BREAKS.sub("\n", text)).strip().split("\n"))
