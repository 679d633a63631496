"""Links that sign a person in once, without a provider: printed by `concordance sign-in`, or sent by email.

The token is in the address's fragment, which a browser sends to no server, so that it is in no log and no `Referer`. Opening the link
changes nothing: the page shows whom it is for, and its button posts the token. A token is signed for this purpose only, valid for some
minutes, and consumed in Postgres by its first use.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import jwt

from resources.keys import secret_keys
from serving.identity.sign_in.attempts import LIFETIME, Attempts
from serving.identity.sign_in.events import link_made
from serving.identity.sign_in.flow import own_path
from serving.identity.sign_in.refusals import SignInRefusedError
from serving.identity.sign_in.sessions import EMAIL, LINK
from sql.serving import WebReads, WebSession

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.audit import AuditEvent
    from serving.http.database import Database

PATH = "/sign-in/link"
PURPOSE = "sign-in-link"
EMAILED_LIFETIME = timedelta(minutes=15)
ANOTHER = "Ask for a new one at /sign-in, or ask the person who runs Concordance: concordance sign-in EMAIL"


class LinkGrant(NamedTuple):
    """Whom a link signs in, by which way, whether as an administrator, and the path to go on to."""

    email: str
    way: str
    administrator: bool
    after: str


def make(settings: Settings, connection: Connection, email: str, *, administrator: bool, by: str, now: datetime) -> str:
    """Record a link in the database and the audit log, and return its address. `by` is the account that asks for it."""
    audited = link_made(email, by=by, administrator=administrator)
    return _made(settings, connection, email, LINK, now + LIFETIME, now, audited, administrator=administrator)


def make_emailed(
    settings: Settings, connection: Connection, email: str, *, after: str, origin: str, now: datetime
) -> str:
    """Do as `make` for a link that is sent to its person's mailbox. `origin` is the address that asked for it."""
    audited = link_made(email, by=EMAIL, administrator=False, address=origin)
    return _made(settings, connection, email, EMAIL, now + EMAILED_LIFETIME, now, audited, next=after)


def _made(
    settings: Settings,
    connection: Connection,
    email: str,
    way: str,
    expires: datetime,
    now: datetime,
    audited: AuditEvent,
    **claims: object,
) -> str:
    statements = WebSession(connection)
    link_id = str(uuid.uuid4())
    statements.sign_in_begin(sign_in_id=link_id, requested_by=way, now=now, expires_at=expires)
    statements.audit_insert(**audited.row())
    token = Attempts(secret_keys(settings), PURPOSE).signed(link_id, expires, sub=email, **claims)
    return f"{settings.base_url}{PATH}#{token}"


def after_of(keys: tuple[str, ...], token: str) -> str:
    """Return the path to which a link leads, also one that is too old or was used."""
    return own_path(Attempts(keys, PURPOSE).claimed(token, "next"))


async def use(database: Database, keys: tuple[str, ...], token: str, now: datetime) -> LinkGrant:
    """Return what a link grants and mark it as used, for all processes. Raises `SignInRefusedError`."""
    try:
        claims = Attempts(keys, PURPOSE).opened(token)
    except jwt.ExpiredSignatureError:
        raise SignInRefusedError("too-late", f"This link is too old. {ANOTHER}") from None
    except jwt.InvalidTokenError:
        raise SignInRefusedError("link", f"This link is incomplete, or of another installation. {ANOTHER}") from None
    email = str(claims["sub"])
    way = await WebReads(database).sign_in_finish(sign_in_id=claims["jti"], claim=str(uuid.uuid4()), now=now)
    if way not in {LINK, EMAIL}:
        raise SignInRefusedError("replayed", f"This link was already used. {ANOTHER}", email)
    administrator = way == LINK and claims.get("administrator") is True
    return LinkGrant(email, way, administrator, own_path(str(claims.get("next", "/"))))
