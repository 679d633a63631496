"""The end of people's accounts, reported by SCIM, a directory or an administrator."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from sql.passkeys import RemovedPasskeys
from sql.scim import AccountTurns, Offboarding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from resources.stores.postgres import Connection


def offboard(connection: Connection, reasons: Mapping[str, str], by: str) -> None:
    """Revoke people's API keys and passkeys, end their sessions, agents and the sharing of their answers; audit who ended each account.

    `reasons` has the reason for each address. Call it once, late in the transaction that reports the people as inactive in `people`,
    which refuses whatever they have at every request: their sign-ins wait for its end. Returning to active restores none of these.
    Idempotent: a second call ends nothing, but is recorded.
    """
    if not reasons:
        return
    statements, emails = Offboarding(connection), list(reasons)
    # a sign-in that saw a person active is there, and later ones wait
    AccountTurns(connection).account_lock(emails=emails)
    # sessions first: what is being made in one locks it, and is there once it ends
    ended = {
        "sessions": statements.end_sessions(emails=emails),
        "keys": statements.revoke_keys(emails=emails),
        "passkeys": RemovedPasskeys(connection).remove_passkeys_of(emails=emails),
        "agents": statements.end_agents(emails=emails),
        "shared_answers": statements.unshare_answers(emails=emails),
    }
    of: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for what, rows in ended.items():
        for row in sorted(rows, key=lambda row: row.id):
            of[row.email].setdefault(what, []).append(row.id)
    details = [
        {"person": email, "reason": reason, "keys": [], "sessions": [], **of[email]}
        for email, reason in reasons.items()
    ]
    statements.record_each(email=by, action="offboard", details=details)
