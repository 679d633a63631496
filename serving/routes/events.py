"""`POST /api/slack/events`: what Slack reports as it happens. Open; Slack's signature stands in for a token."""

from __future__ import annotations

from typing import Any

import msgspec
from litestar import Request, Response, post
from litestar.di import NamedDependency
from slack_sdk.signature import SignatureVerifier

from resources.core.errors import InvalidRequestError
from resources.sources.slack.events import Envelope
from serving.deps import Services
from serving.errors import UnauthorizedError

_decoder = msgspec.json.Decoder(Envelope)


@post(
    "/api/slack/events",
    operation_id="slackEvents",
    status_code=200,
    tags=["sync"],
    summary="Events of Slack",
    exclude_from_auth=True,
)
async def slack_events(
    request: Request[Any, Any, Any], services: NamedDependency[Services]
) -> Response[dict[str, str]]:
    """Record an event that Slack has signed, hide what it concerns, and ask for a sync. A repeated event does nothing."""
    secret = services.settings.slack_signing_secret
    if secret is None:
        raise UnauthorizedError(
            "token-signature", "No event can be verified: CONCORDANCE_SLACK_SIGNING_SECRET is not set."
        )
    body = await request.body()
    headers = {name: request.headers.get(name, "") for name in ("x-slack-request-timestamp", "x-slack-signature")}
    if not _is_signed(secret.get_secret_value(), body, headers):
        raise UnauthorizedError("token-signature", "The request is not signed by Slack, or was signed too long ago.")
    try:
        envelope = _decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise InvalidRequestError(f"The body is no event of Slack: {error}") from error
    if envelope.type == "url_verification":
        return Response({"challenge": envelope.challenge or ""})
    return Response({"outcome": await services.slack_events.take(envelope)})


def _is_signed(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    """Return True for a signature of ours that is at most five minutes old. Compares in constant time."""
    try:
        return SignatureVerifier(secret).is_valid_request(body, headers)
    except (ValueError, TypeError):  # a time that is no number, a body that is no text
        return False
