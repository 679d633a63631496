"""`POST /api/slack/events`: receives Slack's events. Authenticated by Slack's signature instead of a token."""

import hmac
import time
from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from msgspec import UNSET, UnsetType
from slack_sdk.signature import SignatureVerifier

from resources.core.errors import InvalidRequestError
from resources.logging import logger
from resources.sources.slack.envelope import Envelope
from serving.http.errors import UnauthorizedError
from serving.http.openapi.describe import described
from serving.http.request_limits import limited
from serving.sources.service import SourceServices

log = logger("serving")
_decoder = msgspec.json.Decoder(Envelope)

EVENT = {
    "type": "object",
    "description": "An event as Slack sends it.",
    "required": ["type"],
    "properties": {
        "type": {"type": "string", "description": "`event_callback`, or `url_verification`."},
        "challenge": {"type": "string", "description": "Of a `url_verification`: the text to return."},
        "event_id": {"type": "string", "description": "ID of the event; one that repeats is ignored."},
        "api_app_id": {"type": "string", "description": "ID of the app that the event was sent to."},
        "team_id": {"type": "string", "description": "ID of the workspace."},
        "event": {"type": "object", "description": "The event itself.", "additionalProperties": True},
    },
}


class SlackReply(msgspec.Struct, frozen=True):
    """Outcome of an event."""

    challenge: str | UnsetType = UNSET
    """The challenge of a `url_verification`."""
    outcome: str | UnsetType = UNSET
    """The outcome of any other event: `recorded`, `question`, `repeated`, `not_indexed`, `other_team`, `other_app` or `unknown_channel`."""


@post(
    "/api/slack/events",
    operation_id="slackEvents",
    status_code=200,
    tags=["sync"],
    summary="Events of Slack",
    exclude_from_auth=True,
    opt=limited("event")
    | described(
        problems=("invalid-request", "token-signature", "service-unavailable", "storage-full", "storage-read-only"),
        raw_body=EVENT,
        request={"type": "url_verification", "challenge": "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P"},
        headers={
            "X-Slack-Request-Timestamp": "When Slack sent the event, in seconds since 1970; at most five minutes ago.",
            "X-Slack-Signature": "Slack's signature of the time and the body.",
        },
        example={"outcome": "recorded"},
    ),
)
async def slack_events(
    request: Request[Any, Any, Any], source_services: NamedDependency[SourceServices]
) -> Response[SlackReply]:
    """Record a signed event, hide the documents that it concerns, and request a sync. A question is answered in Slack.

    A repeated event has no effect.
    """
    secret = source_services.http.settings.slack_signing_secret
    if secret is None:
        raise UnauthorizedError(
            "token-signature", "Events cannot be verified: CONCORDANCE_SLACK_SIGNING_SECRET is not set."
        )
    body = await request.body()
    headers = {name: request.headers.get(name, "") for name in ("x-slack-request-timestamp", "x-slack-signature")}
    _check_signature(secret.get_secret_value(), body, headers)
    try:
        envelope = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequestError(f"The body is not a Slack event: {error}") from error
    if envelope.type == "url_verification":
        return Response(SlackReply(challenge=envelope.challenge or ""))
    return Response(SlackReply(outcome=await source_services.slack_events.process(envelope)))


def _check_signature(secret: str, body: bytes, headers: dict[str, str]) -> None:
    """Raise `UnauthorizedError` unless the signature is valid and at most five minutes old. Compares in constant time."""
    verifier, stamp, seconds = SignatureVerifier(secret), headers["x-slack-request-timestamp"], 0
    try:
        if verifier.is_valid_request(body, headers):
            return
        made = verifier.generate_signature(timestamp=stamp, body=body) or ""
        if hmac.compare_digest(made, headers["x-slack-signature"]):
            seconds = round(time.time()) - int(stamp)
    except (ValueError, TypeError):  # the time is not a number or the body is not UTF-8
        pass
    if seconds:
        log.error("slack_event_out_of_time", seconds=seconds)
        detail = (
            f"Slack signed this {seconds} s before the time of this server. If it is new, the server's clock is wrong."
        )
    else:
        detail = "The request is not signed by Slack."
    raise UnauthorizedError("token-signature", detail)
