"""Files shared in messages: describe one as an item or a refusal, and download its bytes.

Bytes are only fetched from Slack's own hosts, whatever URL a message contains: no other host receives the token.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from resources import http_clients
from resources.core.domain import Item, Refusal
from resources.core.errors import (
    FailedDocumentError,
    RateLimitedError,
    RetryLaterError,
    SkipDocumentError,
)
from resources.core.filetypes import MIME_TYPES, declared, mime_type, supported
from resources.core.moments import of_seconds
from resources.core.retrying import Tally
from resources.sources.slack.client import FileNotSharedError, SlackClient, is_slack
from resources.sources.slack.documents import ChannelInfo, file_name
from resources.sources.slack.paces import RateLimiter

METHOD = "files.download"
"""The name under which downloads are counted."""
HOPS = 3
TIMEOUT_SECONDS = 60
_HOSTED = frozenset({"hosted", "snippet", "email", ""})
"""Modes of files that Slack itself stores. Source: https://docs.slack.dev/reference/objects/file-object"""
CANVAS = frozenset({"quip", "canvas", "docs"})
"""Modes of canvases, which Slack hands over as pages. Source: https://github.com/rusq/slackdump/pull/401"""
STUB = "check_file_info"
"""`file_access` of a file of which files.info tells the rest. Source:
https://docs.slack.dev/reference/objects/file-object#slack_connect_files"""
_FACTS = (
    "id", "name", "title", "mimetype", "mode", "size", "updated", "timestamp", "created", "user", "permalink", "url_private",
    "url_private_download", "is_external", "file_access",
)  # fmt: skip
_SIGN_IN = re.compile(
    rb"""<title>[^<]{0,80}sign[ -]?in\b|<form[^>]{0,400}action=["'][^"']{0,200}/signin|data-qa=["']signin|shouldRedirect""",
    re.IGNORECASE,
)
"""What only pages to sign in hold, by which they are told from canvases, whose size is not known."""
_HEAD_BYTES = 65_536
_HTML = frozenset({"text/html", "application/xhtml+xml"})


def facts(client: SlackClient, file: str) -> dict[str, Any]:
    """Return what `describe` needs of a file of which a message has only a stub. Raises `MissingScopeError`."""
    try:
        found = client.file(file)
    except FileNotSharedError:
        found = {"file_access": "access_denied"}
    return {"id": file} | {name: found[name] for name in _FACTS if name in found}


def describe(channel: ChannelInfo, file: dict[str, Any], author: str | None, limit: int) -> Item | Refusal:
    """Return a file as a document of the channel, or why it cannot be one; `limit` is the maximum size in bytes."""
    name, title = str(file.get("name") or file_name(file)), file_name(file)
    path = f"{channel.title}/{name}"
    size = int(file.get("size") or 0)
    changed = int(file.get("updated") or file.get("timestamp") or file.get("created") or 0)
    version = f"{file['id']}:{changed}:{size}"
    try:
        kind = _kind(file, name, size, limit)
    except SkipDocumentError as error:
        return Refusal(
            source_id=channel.source_id(file["id"]),
            partition=channel.id,
            title=title,
            path=path,
            reason=str(error),
            version=version,
        )
    created = int(file.get("created") or changed)
    canvas = file.get("mode") in CANVAS
    return Item(
        source_id=channel.source_id(file["id"]),
        partition=channel.id,
        title=title,
        path=path,
        mime_type=kind,
        version=version,
        permissions=channel.permissions,
        author=author,
        url=str(file.get("permalink") or "") or None,
        size=None if canvas else size or None,  # Slack counts something else than the page that it sends
        created_at=_moment(created),
        modified_at=_moment(changed),
        collection_ids=(channel.id,),
        tags=channel.tags(thread=False),
        locator=str(file.get("url_private_download") or file.get("url_private")),
    )


class Downloads:
    """Downloads files from Slack. Thread-safe. `api_url` shows whether this is Slack itself or a simulator."""

    def __init__(self, token: str, api_url: str, tally: Tally, limiter: RateLimiter, limit: int) -> None:
        self._token = token
        self._api = urlsplit(api_url)
        self._tally = tally
        self._limiter = limiter
        self._limit = limit
        self._http = http_clients.outward(timeout=TIMEOUT_SECONDS)

    @property
    def _host(self) -> str:
        return self._api.hostname or ""

    def read(self, item: Item) -> Iterator[bytes]:
        """Yield a file's bytes. Raises `SkipDocumentError`, `FailedDocumentError` or `RetryLaterError`."""
        address = item.locator
        for _ in range(HOPS + 1):
            self._check(address)
            self._limiter.wait(METHOD)
            self._tally.call(METHOD)
            try:
                with self._http.stream("GET", address, headers={"Authorization": f"Bearer {self._token}"}) as response:
                    following = response.headers.get("location") if response.is_redirect else None
                    if following is None:
                        self._refuse(response)
                        yield from self._body(item, response)
                        return
                    address = urljoin(address, following)
            except httpx.HTTPError as error:
                raise RetryLaterError(f"Slack could not be reached for a file: {type(error).__name__}.") from error
        raise FailedDocumentError("Slack redirects too often and never to the file.")

    def _check(self, address: str) -> None:
        """Reject URLs that are not Slack's: a message must not decide which host we contact or send the token to."""
        parts = urlsplit(address)
        try:
            ours = (parts.scheme, parts.hostname, parts.port) == (self._api.scheme, self._host, self._api.port)
        except ValueError:
            ours = False
        slack = parts.scheme == "https" and is_slack(self._host) and is_slack(parts.hostname or "")
        if not ours and not slack:
            raise SkipDocumentError("It is not stored at Slack, and is not fetched from elsewhere.")

    def _refuse(self, response: httpx.Response) -> None:
        status = response.status_code
        if status == 429:
            try:
                seconds = float(response.headers.get("retry-after", "1"))
            except ValueError:
                seconds = 1.0
            self._limiter.block(METHOD, seconds)
            raise RateLimitedError(f"Slack asks to wait {seconds:g} s before files.", seconds)
        if status >= 500:
            raise RetryLaterError(f"Slack failed to send a file (HTTP {status}).")
        if status in {404, 410}:
            raise FailedDocumentError("Slack no longer has the file.")
        if status != 200:
            raise FailedDocumentError(
                f"Slack does not send the file (HTTP {status}): does the app have the scope files:read?"
            )

    def _body(self, item: Item, response: httpx.Response) -> Iterator[bytes]:
        """Yield the bytes after checking that the first ones are the file and not a sign-in page."""
        html = response.headers.get("content-type", "").partition(";")[0].strip().lower() in _HTML
        sign_in = FailedDocumentError(
            "Slack returned a sign-in page instead of the file: the app needs the scope files:read (docs/slack.md)."
        )
        if html and item.mime_type not in _HTML:
            raise sign_in
        head = b""
        total = 0
        for piece in response.iter_bytes():
            if total == 0:
                mime_type(_checked_name(item), piece)
            if html and item.size is None and len(head) < _HEAD_BYTES:
                head = (head + piece)[:_HEAD_BYTES]
                if _SIGN_IN.search(head):
                    raise sign_in
            total += len(piece)
            if total > self._limit:
                raise SkipDocumentError(
                    f"It is larger than the {self._limit:,} bytes that CONCORDANCE_LIMITS__MAX_FILE_BYTES allows."
                )
            yield piece
        if total == 0:
            raise SkipDocumentError("The file is empty.")
        if html and item.size is not None and total != item.size:
            raise sign_in


def _kind(file: dict[str, Any], name: str, size: int, limit: int) -> str:
    """Return the mime type of a file that can be fetched. Raises `SkipDocumentError`."""
    mode = str(file.get("mode") or "")
    if mode == "hidden_by_limit":
        raise SkipDocumentError("Slack hides it: it is older than the workspace's plan shows.")
    if mode == "external" or file.get("is_external"):
        raise SkipDocumentError("It is stored outside Slack; Slack has only the link to it.")
    access = file.get("file_access") or "visible"
    if access == STUB:
        raise SkipDocumentError("It is in a channel with a connected workspace: the app needs the scope files:read.")
    if access != "visible":
        raise SkipDocumentError("It belongs to a connected workspace, which does not share it.")
    if mode == "list":
        raise SkipDocumentError(
            "Slack keeps it as a list, which cannot be downloaded: export it as CSV and share the file. " + supported()
        )
    if mode not in _HOSTED | CANVAS:
        raise SkipDocumentError(
            f"Slack keeps it as a {mode.replace('_', ' ')}, which cannot be downloaded. {supported()}"
        )
    if not (file.get("url_private_download") or file.get("url_private")):
        raise SkipDocumentError("Slack provides no URL to download it from.")
    if size > limit:
        raise SkipDocumentError(
            f"It is too large: {size:,} bytes, and CONCORDANCE_LIMITS__MAX_FILE_BYTES allows {limit:,}."
        )
    if mode in CANVAS:
        return "text/html"
    try:
        return declared(name, str(file.get("mimetype") or "").lower())
    except SkipDocumentError:
        # a snippet's name is freely chosen by its author
        if mode == "snippet":
            return "text/plain"
        raise


def _checked_name(item: Item) -> str:
    """Return a name against which the content's type can be checked."""
    name = item.path.rpartition("/")[2]
    try:
        if declared(name) == item.mime_type:
            return name
    except SkipDocumentError:
        pass
    return "file" + next(suffix for suffix, kind in MIME_TYPES.items() if kind == item.mime_type)


def _moment(seconds: int) -> datetime | None:
    return of_seconds(seconds) if seconds > 0 else None
