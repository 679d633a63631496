"""Addresses in text that a model or a document wrote: everything that some client would turn into a link.

Which bare names are hosts is decided by linkify-it, whose list of top-level domains is kept up to date; schemes are
recognised by shape, since a client may know more of them than any list. Email addresses stay: they name colleagues.
"""

import html
import re
import unicodedata
from typing import Any

from linkify_it import LinkifyIt
from linkify_it.tlds import TLDS

from resources.core import filetypes
from serving.search.quoting import LINK_REMOVED

RESERVED = (
    "example",
    "test",
    "invalid",
    "localhost",
    "local",
    "internal",
    "intranet",
    "corp",
    "home",
    "lan",
    "onion",
    "alt",
)
"""Names that no registry gives away and that lead somewhere inside a company. Source: RFC 2606, RFC 6762 appendix G, RFC 7686."""
_FILE_ENDINGS = {name.lstrip(".") for name in filetypes.MIME_TYPES} | {"py", "sh", "rs", "pl", "cc", "so", "ps"}
"""Top-level domains that are far more often the ending of a file's name: `setup.py` stays, `setup.py/x` does not."""

_IPV6 = r"\[(?=[^\]]*::|(?:[^\]:]*:){6})[0-9a-f:.]{2,45}(?:%[\w.~-]{1,20})?\]"
IPV6_HOST = re.compile(_IPV6, re.IGNORECASE)
"""A host in a URL that is an IPv6 address. Source: RFC 3986 3.2.2, RFC 6874."""
_SCHEME = re.compile(
    r"(?:[a-z][a-z0-9+.-]{0,30}:[/\\]+[^\s/\\]"
    rf"|[a-z][a-z0-9+.-]{{0,30}}:{_IPV6}"
    rf"|[/\\]{{2}}{_IPV6}"
    r"|(?<![^\W_])(?:about|blob|callto|data|facetime|file|geo|im|intent|javascript|mailto|magnet|news|sip|sips|skype|sms|smsto|tel|urn|vbscript"
    r"|view-source|whatsapp|xmpp):(?=[^\s])"
    r"|(?<![^\W_])www\.\w"
    r"|(?<![:\w/\\])[/\\]{2}[^\W_][^\s/\\]*\.[^\s])\S*",
    re.IGNORECASE,
)
_DRIVE = re.compile(r"[a-z]:[/\\](?![/\\])", re.IGNORECASE)
_NUMBERED = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?::\d{1,5})?/\S*|\blocalhost(?::\d{1,5})?/\S*"
    rf"|{_IPV6}(?::\d{{1,5}})?[/\\?#]\S*",
    re.IGNORECASE,
)
_WORTH_A_LOOK = re.compile(r"[.:/\\&]|www", re.IGNORECASE)
_MARKUP = re.compile(r"[\\*_~`|]")
_OPENING = re.compile(rf"(?:(?!{_IPV6})[(\[{{\"'“‘„])*", re.IGNORECASE)
_TRAILING = ".,;:!?\"'”’*_"
_WORD = re.compile(r"\S+")
_SLASHES = re.compile(r"(?<=\w)[/\\]{2,}")
_library: Any = LinkifyIt  # its types are incomplete
_hosts: Any = _library(options={"fuzzy_link": True, "fuzzy_ip": False, "fuzzy_email": False}).tlds([*TLDS, *RESERVED])


def holds_address(text: str) -> bool:
    """Return True if a client could turn some part of the text into a link."""
    return without_addresses(text)[1] > 0


def without_addresses(text: str) -> tuple[str, int]:
    """Return the text with each address replaced by a note, and how many there were."""
    removed = 0

    def one(match: re.Match[str]) -> str:
        nonlocal removed
        shown, count = _cleaned(match.group())
        removed += count
        return shown

    return _WORD.sub(one, text), removed


def _cleaned(word: str) -> tuple[str, int]:
    if word.isascii() and not _WORTH_A_LOOK.search(word):
        return word, 0
    # Also what a client would make of it after decoding entities, folding look-alikes and dropping Markdown.
    plain = _folded(_decoded(word))
    if not (_is_address(word) or _is_address(plain) or _is_address(_MARKUP.sub("", plain))):
        return word, 0
    inner = _OPENING.sub("", word, count=1)
    end = inner.rstrip(_TRAILING if "(" in inner else _TRAILING + ")")
    before, after = word[: len(word) - len(inner)], inner[len(end) :]
    if before.endswith("(") and after.startswith(")"):
        before, after = before[:-1], after[1:]
    return before + LINK_REMOVED + after, 1


def _is_address(word: str) -> bool:
    for pattern in (_SCHEME, _NUMBERED):
        if (match := pattern.search(word)) and not _DRIVE.match(match.group()):
            return True
    # linkify-it finds no host right after a slash, as in `x//host.com/y`: check what follows two of them on its own
    parts = (word, *_SLASHES.split(word)[1:])
    return any(not _is_name(found.raw) for part in parts for found in _hosts.match(part) or ())


def _is_name(host: str) -> bool:
    """Return True if this is no address after all: a file's name, or two sentences without a space between them."""
    if any(mark in host for mark in "/?#:"):
        return False
    ending = host.rpartition(".")[2]
    return (ending.lower() in _FILE_ENDINGS and host.count(".") == 1) or (ending[:1].isupper() and not ending.isupper())


def _decoded(text: str) -> str:
    for _ in range(3):
        text, before = html.unescape(text), text
        if text == before:
            break
    return text


def _folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("。", ".")
