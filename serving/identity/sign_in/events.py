"""Events of the audit log about sign-in. None contains a code, token or secret."""

import json
from datetime import UTC, datetime
from typing import Any

from serving.http.audit import AuditEvent


def signed_in(email: str, provider: str, session_id: str, address: str, *, administrator: bool) -> AuditEvent:
    detail: dict[str, Any] = {"provider": provider, "session_id": session_id, "address": address or "unknown"}
    if administrator:
        detail["administrator"] = True
    return AuditEvent(email=email, action="sign_in", detail=json.dumps(detail))


def sign_in_refused(email: str, provider: str, reason: str, address: str) -> AuditEvent:
    """Return the event of a refused sign-in; `email` is what the provider reported, empty if it did not come to that."""
    detail = {"provider": provider, "reason": reason, "address": address or "unknown"}
    return AuditEvent(email=email, action="sign_in_refused", detail=json.dumps(detail))


def link_made(email: str, *, by: str, administrator: bool, address: str | None = None) -> AuditEvent:
    """Return the event of a link that signs a person in: made by an account of this machine, or asked for from an `address`."""
    detail: dict[str, Any] = {"by": by, "administrator": administrator}
    if address is not None:
        detail["address"] = address or "unknown"
    return AuditEvent(email=email, action="sign_in_link", detail=json.dumps(detail))


def passkey_added(email: str, passkey_id: str, name: str) -> AuditEvent:
    detail = {"passkey_id": passkey_id, "name": name}
    return AuditEvent(email=email, action="passkey_add", detail=json.dumps(detail))


def passkey_removed(email: str, passkey_id: str, *, by: str, reason: str) -> AuditEvent:
    detail = {"passkey_id": passkey_id, "by": by, "reason": reason}
    return AuditEvent(email=email, action="passkey_remove", detail=json.dumps(detail))


def dagster_opened(email: str, session_id: str, rights: str) -> AuditEvent:
    return AuditEvent(
        email=email, action="dagster_opened", detail=json.dumps({"rights": rights, "session_id": session_id})
    )


def signed_out(email: str, session_id: str) -> AuditEvent:
    return AuditEvent(email=email, action="sign_out", detail=json.dumps({"session_id": session_id}))


def session_ended(email: str, session_id: str, *, by: str, reason: str) -> AuditEvent:
    detail = {"session_id": session_id, "by": by, "reason": reason}
    return AuditEvent(email=email, action="session_ended", detail=json.dumps(detail))


def token_created(email: str, token_id: str, expires: float, *, by: str) -> AuditEvent:
    """Return the event of a token with the role administrator that `by` has made for `email`. `expires`: Unix time."""
    until = datetime.fromtimestamp(expires, UTC).isoformat()
    detail = {"token_id": token_id, "admin": True, "expires_at": until, "by": by}
    return AuditEvent(email=email, action="token_create", detail=json.dumps(detail))
