"""The end of a person's account, reported by SCIM, a directory or an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sql.passkeys import RemovedPasskeys
from sql.scim import AccountTurns, Offboarding

if TYPE_CHECKING:
    from resources.stores.postgres import Connection


def offboard(connection: Connection, email: str, by: str, reason: str) -> None:
    """Revoke a person's API keys and passkeys, end their sessions, agents and the sharing of their answers; audit who ended the account.

    Call it in the transaction that reports the person as inactive in `people`, which refuses whatever they have at every
    request. Returning to active restores none of these. Idempotent: a second call ends nothing, but is recorded.
    """
    statements = Offboarding(connection)
    AccountTurns(connection).account_lock(
        email=email
    )  # a sign-in that saw the person active is there, and later ones wait
    # sessions first: what is being made in one locks it, and is there once it ends
    sessions, keys = sorted(statements.end_sessions(email=email)), sorted(statements.revoke_keys(email=email))
    detail = {"person": email, "reason": reason, "keys": keys, "sessions": sessions}
    if passkeys := sorted(RemovedPasskeys(connection).remove_passkeys_of(email=email)):
        detail["passkeys"] = passkeys
    if agents := sorted(statements.end_agents(email=email)):
        detail["agents"] = agents
    if answers := sorted(statements.unshare_answers(email=email)):
        detail["shared_answers"] = answers
    statements.record(email=by, action="offboard", detail=detail)
