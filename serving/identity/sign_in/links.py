"""Links that sign a person in once, without a provider, made by `concordance sign-in` on the machine that has the keys.

The token is in the address's fragment, which a browser sends to no server, so that it is in no log and no `Referer`. Opening the link
changes nothing: the page shows whom it is for, and its button posts the token. A token is signed for this purpose only, valid for ten
minutes, and consumed in Postgres by its first use.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import jwt

from resources.keys import secret_key
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from serving.identity.sign_in.events import link_made
from serving.identity.sign_in.refusals import SignInRefusedError
from serving.identity.sign_in.sessions import LINK
from sql.web import WebReads, WebSession

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.database import Database

PATH = "/sign-in/link"
PURPOSE = "sign-in-link"
ANOTHER = "Ask the person who runs Concordance for a new one: concordance sign-in EMAIL"


class LinkGrant(NamedTuple):
    """Whom a link signs in, and whether as an administrator."""

    email: str
    administrator: bool


def make(settings: Settings, connection: Connection, email: str, *, administrator: bool, by: str, now: datetime) -> str:
    """Record a link in the database and the audit log, and return its address. `by` is the account that asks for it."""
    statements = WebSession(connection)
    link_id = str(uuid.uuid4())
    statements.sign_in_begin(sign_in_id=link_id, requested_by=LINK, now=now, expires_at=now + LIFETIME)
    statements.audit_insert(**link_made(email, by=by, administrator=administrator).row())
    attempts = Attempts(secret_key(settings), PURPOSE)
    return (
        f"{settings.base_url}{PATH}#{attempts.signed(link_id, now + LIFETIME, sub=email, administrator=administrator)}"
    )


async def use(database: Database, key: str, token: str, now: datetime) -> LinkGrant:
    """Return what a link grants and mark it as used, for all processes. Raises `SignInRefusedError`."""
    try:
        claims = Attempts(key, PURPOSE).opened(token)
    except jwt.ExpiredSignatureError:
        raise SignInRefusedError("too-late", f"This link is older than ten minutes. {ANOTHER}") from None
    except jwt.InvalidTokenError:
        raise SignInRefusedError("link", f"This link is incomplete, or of another installation. {ANOTHER}") from None
    email = str(claims["sub"])
    if await WebReads(database).sign_in_finish(sign_in_id=claims["jti"], now=now) != LINK:
        raise SignInRefusedError("replayed", f"This link was already used. {ANOTHER}", email)
    return LinkGrant(email, claims.get("administrator") is True)
