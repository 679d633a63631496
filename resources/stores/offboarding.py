"""The end of a person's account, whoever reports it: SCIM, a directory, or an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sql.provisioning import Offboarding

if TYPE_CHECKING:
    from resources.stores.postgres import Connection


def offboard(connection: Connection, email: str, by: str, reason: str) -> list[str]:
    """Revoke a person's API keys and record in the audit log who ended the account, and why. Return the ids of the revoked keys.

    Call it in the transaction that reports the person as inactive in `people`, which refuses tokens and sessions at every
    request. Returning to active does not restore keys. Idempotent: a second call revokes nothing, but is recorded.
    """
    statements = Offboarding(connection)
    keys = sorted(statements.revoke_keys(email=email))
    statements.record(email=by, action="offboard", detail={"person": email, "reason": reason, "keys": keys})
    return keys
