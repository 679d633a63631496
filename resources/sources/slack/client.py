"""Client for Slack's Web API: returns a method's response or raises one of our errors.

This is the only module that knows Slack's error codes. Temporary faults are retried here, within one rate limit. Requests are our own,
because slack_sdk's client takes its proxy from the environment without regard to NO_PROXY.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from resources import http_clients
from resources.core.errors import (
    AbortSyncError,
    AuthorizationError,
    LostPartitionError,
    RateLimitedError,
    RetryLaterError,
)
from resources.core.json import object_of
from resources.core.retrying import WAITS, Tally, call_with_retry
from resources.core.texts import decoded
from resources.rates.pace import SharedPace
from resources.sources.slack.paces import PER_MINUTE, RateLimiter

HISTORY_LIMIT = 900
"""Messages per response; at most 999. Source: https://docs.slack.dev/reference/methods/conversations.history"""
FOREVER = "9999999999.999999"
"""Later than any message. With `oldest` alone, Slack may return the messages closest to it instead of the newest. Source:
https://api.slack.com/methods/channels.history; the page of conversations.history does not say."""
LIST_LIMIT = 999
"""Channels, members or users per response. Source: https://docs.slack.dev/reference/methods/conversations.list"""
TIMEOUT_SECONDS = 60

REFUSED = {
    "invalid_auth": "does not know the token",
    "not_authed": "received no token",
    "token_revoked": "says that the token was revoked",
    "token_expired": "says that the token expired",
    "account_inactive": "says that the token's account or workspace is gone",
    "org_login_required": "is moving the workspace to an organisation",
    "ekm_access_denied": "says that an administrator suspended access to messages",
    "no_permission": "says that the token may not do this",
    "not_allowed_token_type": "does not accept this type of token",
    "access_denied": "says that the token may not do this",
    "team_access_not_granted": "says that the app is not approved for the workspace",
    "two_factor_setup_required": "asks the token's account for a second factor",
}
"""Error codes that need action by a person. Source: the lists of errors on the methods' pages."""
LOST = frozenset(
    {
        "channel_not_found",
        "not_in_channel",
        "is_inactive",
        "channel_is_limited_access",
        "method_not_supported_for_channel_type",
    }
)
DENIED = frozenset({"access_denied", "no_permission"})
"""Errors that concern the channel alone that a method of conversations is called with. Source: the lists of errors, as above."""
UNSHARED = frozenset({"access_denied", "file_not_found", "file_deleted"})
"""Errors of files.info for a file that the app may not have. Source: https://docs.slack.dev/reference/methods/files.info"""
PASSING = frozenset(
    {"internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "accesslimited"}
)

_CODE = re.compile(r"[a-z][a-z0-9_]{1,60}")


class MissingScopeError(AuthorizationError):
    """The token lacks the scope that a method needs."""


class ThreadNotFoundError(LookupError):
    """The thread's parent and replies no longer exist."""


class FileNotSharedError(LookupError):
    """Slack keeps the file from the app, or no longer has it."""


class SlackClient:
    """Calls Slack for one sync. Thread-safe."""

    def __init__(
        self,
        token: str,
        api_url: str,
        tally: Tally,
        *,
        waits: Sequence[float] = WAITS,
        timer: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        page: int = HISTORY_LIMIT,
        timeout: int = TIMEOUT_SECONDS,
        pace: SharedPace | None = None,
        per_minute: Mapping[str, int] | None = None,
    ) -> None:
        """`pace` is that of all processes; `per_minute` replaces the rates at Slack's own address, of which others have none."""
        self._http = http_clients.outward(timeout=timeout)
        self._api_url = api_url
        self._headers = {"Authorization": f"Bearer {token}"}
        self.scopes: frozenset[str] | None = None
        """Scopes of the token, which Slack returns with each response. Source: https://docs.slack.dev/authentication/installing-with-oauth"""
        self._sleep = sleep
        if per_minute is None and is_slack(urlsplit(api_url).hostname or ""):
            per_minute = PER_MINUTE
        self.limiter = RateLimiter(per_minute, timer=timer, sleep=tally.counting(sleep), pace=pace, token=token)
        self.tally = tally
        self.page = page
        self._waits = waits
        self._without_files: str | None = None
        """Why files cannot be asked for, once Slack has said that the token lacks the scope: it is not asked again."""

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return a method's response. Raises `AuthorizationError`, `LostPartitionError`, `AbortSyncError`, `RetryLaterError`."""
        return call_with_retry(lambda: self._once(method, arguments), self.tally, waits=self._waits, sleep=self._sleep)

    def call_once(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Return a method's response like `call`, without retries: for calls that may have been carried out although they failed."""
        return self._once(method, arguments)

    def pages(self, method: str, key: str, **arguments: Any) -> Iterator[Any]:
        """Yield the entries under `key` in a method's responses, page by page."""
        cursor = ""
        while True:
            answer = self.call(method, **arguments, **({"cursor": cursor} if cursor else {}))
            yield from answer.get(key) or ()
            following = str(object_of(answer.get("response_metadata")).get("next_cursor") or "")
            if not following:
                return
            if following == cursor:
                raise AbortSyncError(f"Slack's {method} keeps returning the same page cursor.")
            cursor = following

    def history(
        self, channel: str, *, latest: str | None = None, oldest: str | None = None, limit: int | None = None
    ) -> tuple[list[dict[str, Any]], bool]:
        """Return messages between two times (both exclusive), oldest first, and whether there are older ones in the range.

        The newest messages of the range are returned first; replies in threads are not included unless they were broadcast. No messages
        although there are older ones: the workspace's plan hides these.
        """
        latest = latest or (FOREVER if oldest is not None else None)
        bounds = {name: value for name, value in (("latest", latest), ("oldest", oldest)) if value is not None}
        answer = self.call("conversations.history", channel=channel, limit=limit or self.page, **bounds)
        messages: list[dict[str, Any]] = list(answer.get("messages") or ())
        return messages[::-1], bool(answer.get("has_more"))

    def replies(self, channel: str, root: str) -> list[dict[str, Any]]:
        """Return a thread, parent first. Raises `ThreadNotFoundError`."""
        found: Iterator[dict[str, Any]] = self.pages(
            "conversations.replies", "messages", channel=channel, ts=root, limit=self.page
        )
        return list({message["ts"]: message for message in found}.values())

    def file(self, file: str) -> dict[str, Any]:
        """Return a file. Raises `FileNotSharedError`, or `MissingScopeError` without files:read."""
        if self._without_files is not None:
            raise MissingScopeError(self._without_files)
        try:
            return object_of(self.call("files.info", file=file).get("file"))
        except MissingScopeError as error:
            self._without_files = str(error)
            raise

    def members(self, channel: str) -> list[str]:
        found: Iterator[Any] = self.pages("conversations.members", "members", channel=channel, limit=LIST_LIMIT)
        return [str(member) for member in found]

    def _once(self, method: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self.limiter.wait(method)
        self.tally.call(method)
        try:
            response = self._http.post(f"{self._api_url}/{method}", data=arguments, headers=self._headers)
            data = _object(response)
        except httpx.HTTPError as error:
            raise RetryLaterError(f"Slack could not be reached for {method}: {type(error).__name__}.") from error
        if response.status_code != 200 or not data.get("ok"):
            raise self._meaning(method, response, data, of_channel="channel" in arguments)
        self.scopes = _scopes(response.headers) or self.scopes
        return data

    def _meaning(self, method: str, response: httpx.Response, data: dict[str, Any], *, of_channel: bool) -> Exception:
        status = response.status_code
        code = str(data.get("error") or "")
        if status == 429 or code in {"ratelimited", "rate_limited"}:
            seconds = _seconds(response.headers)
            self.limiter.block(method, seconds)
            return RateLimitedError(f"Slack asks to wait {seconds:g} s before {method}.", seconds)
        if status >= 500 or code in PASSING or (status == 200 and not _CODE.fullmatch(code)):
            return RetryLaterError(f"Slack failed at {method} (HTTP {status}); the call is retried.")
        if code == "missing_scope":
            needed = str(data.get("needed") or "the scope that the method asks for")
            return MissingScopeError(
                f"Slack's {method} needs the scope {needed}: add it to the app and install the app again (docs/slack.md)."
            )
        if method == "files.info" and code in UNSHARED:
            return FileNotSharedError(code)
        if code in LOST or (code in DENIED and of_channel and method.startswith("conversations.")):
            return LostPartitionError(f"Slack says that the channel cannot be read ({code}): invite the app into it.")
        if code in REFUSED:
            return AuthorizationError(
                f"Slack {REFUSED[code]} ({code}, {method}): set CONCORDANCE_SLACK_BOT_TOKEN to a valid token (docs/slack.md)."
            )
        if code == "thread_not_found":
            return ThreadNotFoundError(method)
        known = code if _CODE.fullmatch(code) else f"HTTP {status}"
        return AbortSyncError(f"Slack rejected {method}: {known}.")


def is_slack(host: str) -> bool:
    return host == "slack.com" or host.endswith((".slack.com", ".slack-gov.com")) or host == "slack-gov.com"


def _object(response: httpx.Response) -> dict[str, Any]:
    """Return the JSON object of a response; an empty one for anything else, such as a proxy's page."""
    try:
        return object_of(decoded(response.content))
    except ValueError:
        return {}


def _scopes(headers: httpx.Headers) -> frozenset[str] | None:
    given = headers.get("x-oauth-scopes")
    return None if given is None else frozenset(one.strip() for one in given.split(",") if one.strip())


def _seconds(headers: httpx.Headers) -> float:
    try:
        return max(0.0, float(headers.get("retry-after", "1")))
    except ValueError:
        return 1.0
