"""Addresses of messages and files in Slack."""

import re
from datetime import UTC, datetime, timedelta
from urllib.parse import SplitResult, parse_qs, urlsplit

from resources.sources.spec import Link

_MESSAGE = re.compile(r"/archives/([A-Z0-9]+)/p(\d{10})(\d{6})/?")
"""Source: https://docs.slack.dev/reference/methods/chat.getPermalink"""
_FILE = re.compile(r"/files/[A-Z0-9]+/(F[A-Z0-9]+)(?:/|$)")
_TS = re.compile(r"\d{10}\.\d{6}")
_LAST_PART = re.compile(r"p\d{10,20}(?:\?thread_ts=\d+\.\d+&cid=[A-Z0-9]+)?")
"""The last part of a permalink. Source: as above."""


def link(parts: SplitResult) -> Link | None:
    """Return the thread of a message or the conversation at its time, or the channel's document of a file."""
    if found := _MESSAGE.fullmatch(parts.path):
        channel, seconds, rest = found.groups()
        thread = next((ts for ts in parse_qs(parts.query).get("thread_ts", []) if _TS.fullmatch(ts)), None)
        if thread is not None:
            return Link(partition=channel, names=(thread,))
        moment = datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(rest))
        return Link(partition=channel, names=(f"{seconds}.{rest}",), moment=moment)
    if found := _FILE.match(parts.path):
        return Link(names=(found[1],))
    return None


def place(url: str, anchor: str) -> str:
    """Return the permalink of the message `anchor` in the channel that `url`, a permalink as well, leads to."""
    parts = urlsplit(url)
    folder, _, name = parts.path.rpartition("/")
    if not (folder.startswith("/archives/") and _LAST_PART.fullmatch(name) and _LAST_PART.fullmatch(anchor)):
        return url
    return f"{parts.scheme}://{parts.netloc}{folder}/{anchor}"
