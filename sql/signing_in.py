"""Statements about sign-in: the deny-list of tokens."""

from __future__ import annotations

from datetime import datetime

from sql.family import Family


class SignInSession(Family, path="sign_in"):
    """Statements that are part of a transaction in a thread or command."""

    def revoke_token(self, *, token_id: str, revoked_by: str, expires_at: datetime, now: datetime) -> int: ...
