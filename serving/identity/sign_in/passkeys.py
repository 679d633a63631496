"""Passkeys: credentials of a device that sign their person in without a provider.

A device asks for its PIN, fingerprint or face before it signs (user verification), so a passkey is two factors. What it signs is a
challenge that is derived from a signed state, as the nonce of OpenID Connect is: bound to the browser or session, valid for five minutes,
and used once for all processes, which Postgres records. Whom a passkey belongs to is known from the passkey alone, so a sign-in
names nobody before it has succeeded.

Source: https://www.w3.org/TR/webauthn-3/#sctn-rp-operations
"""

from __future__ import annotations

import base64
import hmac
import secrets
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import (
    options_to_json_dict,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from resources.core.errors import InvalidRequestError, QuotaExceededError
from serving.identity.sign_in.attempts import Attempts
from serving.identity.sign_in.browsers import Binding, bound, is_bound
from serving.identity.sign_in.refusals import SignInRefusedError
from serving.identity.sign_in.sessions import FRESH, PASSKEY
from sql.passkeys import PasskeyReads, RemovedPasskeys
from sql.serving import WebReads

if TYPE_CHECKING:
    from resources.settings import Settings
    from resources.stores.postgres import Connection
    from serving.http.database import Database
    from serving.identity.sign_in.relying_party import RelyingParty

LIFETIME = timedelta(minutes=5)
"""Of a challenge. Source of the length: https://www.w3.org/TR/webauthn-3/#sctn-timeout-recommended-range"""
MOST = 10
"""Passkeys of a person."""
LONGEST_ID = 1023
"""Bytes of a credential's ID. Source: https://www.w3.org/TR/webauthn-3/#credential-id"""
NOT_ACCEPTED = "This passkey is not accepted here. Sign in another way, and look at your passkeys on /me."


class CeremonyOffer(NamedTuple):
    """What a browser's `navigator.credentials` gets, and the state that it sends back."""

    options: Mapping[str, Any]
    state: str


class UsedPasskey(NamedTuple):
    """Whom a passkey has signed in."""

    email: str
    passkey_id: str


class Passkeys:
    """Registers and verifies passkeys for one site."""

    def __init__(self, settings: Settings, party: RelyingParty, keys: tuple[str, ...], database: Database) -> None:
        self.party = party
        self._settings = settings
        self._additions, self._sign_ins = Attempts(keys, "passkey-addition"), Attempts(keys, "passkey-sign-in")
        self._database = database
        self._reads = PasskeyReads(database)
        self._used = WebReads(database)

    async def is_fresh(self, session_id: str, email: str, now: datetime) -> bool:
        """Return True if the person may add a passkey in this session."""
        return await self._reads.is_fresh(session_id=session_id, email=email, since=now - FRESH)

    async def begin_addition(self, session_id: str, email: str, now: datetime) -> CeremonyOffer:
        """Return what a browser makes a passkey from. Raises `InvalidRequestError` and `QuotaExceededError`."""
        if not await self.is_fresh(session_id, email, now):
            raise InvalidRequestError(
                "You signed in too long ago to add a passkey. Sign out, sign in again, and add it within an hour."
            )
        known = await self._reads.registered(email=email)
        if len(known) >= MOST:
            raise QuotaExceededError(f"You have {MOST} passkeys, which is the limit. Remove one first.")
        handle = known[0].user_handle if known else secrets.token_bytes(32)
        attempt = str(uuid.uuid4())
        options = generate_registration_options(
            rp_id=self.party.host,
            rp_name="Concordance",
            user_name=email,
            user_id=handle,
            challenge=_challenge(self._additions, attempt),
            timeout=int(LIFETIME.total_seconds() * 1000),
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED,
                user_verification=UserVerificationRequirement.REQUIRED,
            ),
            exclude_credentials=[PublicKeyCredentialDescriptor(id=one.credential_id) for one in known],
        )
        state = self._additions.signed(
            attempt, now + LIFETIME, session=session_id, sub=email, handle=base64.b64encode(handle).decode()
        )
        return CeremonyOffer(options_to_json_dict(options), state)

    async def finish_addition(
        self, session_id: str, email: str, state: str, credential: str, name: str, now: datetime
    ) -> str:
        """Store a passkey that a browser has made, and return its ID. Raises `InvalidRequestError`."""
        try:
            claims = self._additions.opened(state)
        except jwt.InvalidTokenError:
            raise InvalidRequestError("This took too long. Please add the passkey again.") from None
        attempt = str(claims["jti"])
        try:
            sent = parse_registration_credential_json(credential)
            _check_top_level(sent.response.client_data_json)
            made = verify_registration_response(
                credential=sent,
                expected_challenge=_challenge(self._additions.of(state), attempt),
                expected_rp_id=self.party.host,
                expected_origin=self.party.origin,
                require_user_verification=True,
            )
        except _MALFORMED:
            raise InvalidRequestError("The browser's passkey cannot be verified. Please add it again.") from None
        if len(made.credential_id) > LONGEST_ID:
            raise InvalidRequestError("The browser's passkey cannot be verified. Please add it again.")
        own = (claims.get("session"), claims.get("sub")) == (session_id, email)
        if not own or not await self._use(attempt, now):
            raise InvalidRequestError(
                "This was begun in another session, or is done already. Please add the passkey again."
            )
        passkey_id = str(uuid.uuid4())
        stored = await self._reads.insert_passkey(
            passkey_id=passkey_id,
            session_id=session_id,
            email=email,
            since=now - FRESH,
            user_handle=base64.b64decode(claims["handle"]),
            credential_id=made.credential_id,
            public_key=made.credential_public_key,
            sign_count=made.sign_count,
            name=name,
            now=now,
            most=MOST,
        )
        if not stored:
            raise InvalidRequestError(
                "The passkey was not added: it is known already, you have too many, or your session has ended."
            )
        return passkey_id

    def begin_sign_in(self, browser: str, now: datetime) -> tuple[CeremonyOffer, Binding]:
        """Return what any passkey of this site signs, which names no passkey, and the binding to the browser.

        `browser` is the value of its cookie so far.
        """
        attempt, binding = str(uuid.uuid4()), bound(self._settings, browser)
        options = generate_authentication_options(
            rp_id=self.party.host,
            challenge=_challenge(self._sign_ins, attempt),
            timeout=int(LIFETIME.total_seconds() * 1000),
            user_verification=UserVerificationRequirement.REQUIRED,
        )
        state = self._sign_ins.signed(attempt, now + LIFETIME, browser=binding.digest)
        return CeremonyOffer(options_to_json_dict(options), state), binding

    async def finish_sign_in(self, state: str, credential: str, browser: str, now: datetime) -> UsedPasskey:
        """Return whom a passkey signs in. Raises `SignInRefusedError`."""
        try:
            claims = self._sign_ins.opened(state)
        except jwt.ExpiredSignatureError:
            raise SignInRefusedError("too-late", "This took longer than five minutes. Please try again.") from None
        except jwt.InvalidTokenError:
            raise SignInRefusedError("state", "This sign-in was not started here. Please start again.") from None
        if not is_bound(claims.get("browser"), browser):
            raise SignInRefusedError("browser", "This sign-in was started in another browser. Please start again here.")
        attempt = str(claims["jti"])
        try:
            sent = parse_authentication_credential_json(credential)
            _check_top_level(sent.response.client_data_json)
        except _MALFORMED:
            raise SignInRefusedError("passkey-malformed", NOT_ACCEPTED) from None
        known = await self._reads.passkey_of(credential_id=sent.raw_id)
        if known is None:
            raise SignInRefusedError("passkey-unknown", NOT_ACCEPTED)
        if not hmac.compare_digest(sent.response.user_handle or b"", known.user_handle):
            raise SignInRefusedError("passkey-of-another", NOT_ACCEPTED, known.email)
        try:
            verified = verify_authentication_response(
                credential=sent,
                expected_challenge=_challenge(self._sign_ins.of(state), attempt),
                expected_rp_id=self.party.host,
                expected_origin=self.party.origin,
                credential_public_key=known.public_key,
                credential_current_sign_count=0,  # compared when its use is stored, once the signature has been verified
                require_user_verification=True,
            )
        except _MALFORMED:
            raise SignInRefusedError("passkey-invalid", NOT_ACCEPTED, known.email) from None
        if not await self._use(attempt, now):
            raise SignInRefusedError("replayed", "This sign-in was already completed. Please start again.", known.email)
        if not await self._reads.use_passkey(passkey_id=known.passkey_id, sign_count=verified.new_sign_count, now=now):
            raise SignInRefusedError("passkey-copied", NOT_ACCEPTED, known.email)
        return UsedPasskey(known.email, known.passkey_id)

    async def remove(self, passkey_id: str, email: str, session_id: str) -> list[str] | None:
        """Remove a passkey of a person, and end the sessions that it began but this one. Returns their ids; None if there is none."""

        def remove(connection: Connection) -> list[str] | None:
            statements = RemovedPasskeys(connection)
            if not statements.remove_passkey(passkey_id=passkey_id, email=email):
                return None
            return statements.end_sessions_of(passkey_id=passkey_id, email=email, session_id=session_id)

        return await self._database.in_thread(remove)

    async def _use(self, attempt: str, now: datetime) -> bool:
        """Record that a challenge is used, for all processes. Returns False if it was before."""
        claim = str(uuid.uuid4())
        return bool(
            await self._used.sign_in_use(
                sign_in_id=attempt, provider=PASSKEY, claim=claim, now=now, expires_at=now + LIFETIME
            )
        )


_MALFORMED = (WebAuthnException, ValueError, TypeError, KeyError)
"""What py_webauthn raises for input that is wrong: its own errors, and for some fields Python's."""


def _challenge(attempts: Attempts, attempt: str) -> bytes:
    return attempts.secret("challenge", attempt).encode()


def _check_top_level(client_data: bytes) -> None:
    """Raise `ValueError` if the passkey was used in a frame of a page of another site, which py_webauthn does not check."""
    if parse_client_data_json(client_data).cross_origin:
        raise ValueError("used in a frame of another site")
